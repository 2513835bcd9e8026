"""Copies the output files of a container that has ended, so that they outlive its view of the file system.

Paths are resolved as in the container: neither links nor `..` leave its root. Links inside a copied folder are copied
as links; anything else that is neither a file nor a folder is skipped. The supervisor imports this module: standard
library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from muster.embedded.node.supervisor.filesystem_view import resolve_in_root

PROBLEM_FILE = "problem"
"""A file beside the copies that says why some or all are missing."""

_KERNEL_FOLDERS = ("proc", "sys", "dev")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 1 << 20
_REMOVE_TRIES = 8


def is_kernel_path(path: str) -> bool:
    """Whether an absolute path without `..` is in a file system of the kernel: what a process reads there depends on
    its own rights, and on other processes."""
    names = path.strip("/").split("/")
    return names[0] in _KERNEL_FOLDERS and names[:2] != ["dev", "shm"]


class BudgetExceeded(Exception):
    """There is more to copy than the budget allows."""


class CopyBudget:
    """How much may be copied at once. More is left to a child process."""

    def __init__(self, entries: int, size: int) -> None:
        self._entries, self._size = entries, size

    def take(self, size: int) -> None:
        self._entries -= 1
        self._size -= size
        if self._entries < 0 or self._size < 0:
            raise BudgetExceeded


def copy_outputs(root: int, paths: Sequence[str], folder: str, budget: CopyBudget | None = None) -> None:
    """Copies the `paths` that exist to `folder`/0, /1 ..., replacing what is there. Raises BudgetExceeded. Any other
    problem is written to PROBLEM_FILE."""
    try:
        if os.path.isdir(folder):
            remove_tree(folder)
        os.makedirs(folder, mode=0o700)
        for number, path in enumerate(paths):
            _copy_output(root, path, f"{folder}/{number}", budget)
    except RecursionError:
        write_problem(folder, "folders are nested too deeply")
    except OSError as error:
        write_problem(folder, f"{error.strerror or error}")


def copy_outputs_in_child(root: int, paths: Sequence[str], folder: str) -> int:
    """Copies in a child process and returns its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        copy_outputs(root, paths, folder)
    finally:
        os._exit(0)


def write_problem(folder: str, text: str) -> None:
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(f"{folder}/{PROBLEM_FILE}", "w") as file:
            file.write(text)


def _copy_output(root: int, path: str, target: str, budget: CopyBudget | None) -> None:
    try:
        opened, names, missing = resolve_in_root(root, path)
    except (NotADirectoryError, PermissionError):
        return
    try:
        if missing:
            return
        if stat.S_ISDIR(os.fstat(opened[-1]).st_mode):
            _copy_folder(os.open(".", _READ | os.O_DIRECTORY, dir_fd=opened[-1]), target, budget)
        else:
            _copy_file(opened[-2], names[-1], target, budget)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _copy_folder(source: int, target: str, budget: CopyBudget | None) -> None:
    """Closes `source`."""
    try:
        if budget is not None:
            budget.take(0)
        os.mkdir(target, 0o700)
        with os.scandir(source) as found:
            entries = list(found)
        for entry in entries:
            inside = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.name, dir_fd=source), inside)
            elif entry.is_dir(follow_symlinks=False):
                _copy_folder(os.open(entry.name, _READ | os.O_DIRECTORY, dir_fd=source), inside, budget)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(source, entry.name, inside, budget)
        os.chmod(target, stat.S_IMODE(os.fstat(source).st_mode) & 0o777 | 0o700)
    finally:
        os.close(source)


def _copy_file(folder: int, name: str, target: str, budget: CopyBudget | None) -> None:
    source = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            return
        if budget is not None:
            budget.take(status.st_size)
        mode = stat.S_IMODE(status.st_mode) & 0o777 | 0o400
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy_content(source, copy)
            os.fchmod(copy, mode)
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy_content(source: int, target: int) -> None:
    while data := os.read(source, _BLOCK):
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]


def remove_tree(folder: str) -> None:
    """Removes a folder, even without access to parts of it: a container may have changed their mode, and the kernel
    denies access to the work folder of an overlay."""
    from shutil import rmtree  # rarely needed, and expensive to import

    def grant_access(_function: object, path: str, _error: object) -> None:
        for place in (path, os.path.dirname(path)):
            if place == folder or place.startswith(f"{folder}/"):
                with suppress(OSError):
                    if stat.S_ISDIR(os.lstat(place).st_mode):
                        os.chmod(place, 0o700)

    for _ in range(_REMOVE_TRIES):
        if not os.path.lexists(folder):
            return
        rmtree(folder, onerror=grant_access)
