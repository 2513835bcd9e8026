"""Copies the output files of a container that has ended, so that they outlive its view of the file system.

Paths are resolved as in the container: neither links nor `..` leave its root. They are read with the rights of the
container's user. Links inside a copied folder are copied as links; anything else that is neither a file nor a folder is
skipped. The supervisor imports this module: standard library only.

A path that ends with `#custom_path` stands for what a JSON file names under this key: a component of Kubeflow Pipelines
decides there, while it runs, where its artifacts are.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from muster.embedded.node.supervisor.filesystem_view import resolve_in_root

PROBLEM_FILE = "problem"
"""A file beside the copies that says why some or all are missing."""

NAMED_PATHS = "#custom_path"
_KEY = NAMED_PATHS[1:]
_LARGEST_DOCUMENT = 1 << 20
_MOST_NAMED = 1000

FILES_SETTING, SIZE_SETTING = "budgets.outputFiles", "budgets.outputMegabytes"

_KERNEL_FOLDERS = ("proc", "sys", "dev")
_KERNEL_FILESYSTEMS = frozenset((
    0x9FA0, 0x62656572, 0x1CD1, 0x27E0EB, 0x63677270, 0x64626720, 0x74726163, 0x73636673, 0xCAFE4A11, 0xDE5E81E4,
    0x62656570, 0x6E736673, 0x42494E4D, 0xF97CFF8C, 0x19800202, 0x65735543, 0x67596969, 0x6165676C, 0x50494446,
))  # fmt: skip
"""proc, sysfs, devpts, cgroup, cgroup2, debugfs, tracefs, securityfs, bpf, efivarfs, configfs, nsfs, binfmt_misc,
selinuxfs, mqueue, fusectl, rpc_pipefs, pstore, pidfs."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1 << 20
_REMOVE_TRIES = 8
_ASIDE = ".muster-remove-"
_libc = ctypes.CDLL(None, use_errno=True)


def is_kernel_path(path: str) -> bool:
    """Whether an absolute path without `..` is in a file system of the kernel: what a process reads there depends on
    its own rights, and on other processes."""
    names = path.strip("/").split("/")
    return names[0] in _KERNEL_FOLDERS and names[:2] != ["dev", "shm"]


class BudgetExceeded(Exception):
    """There is more to copy than the budget allows."""


class OutputRefused(Exception):
    """A path leads to something that cannot be an output. The message says why."""


class CopyBudget:
    """How much may be copied."""

    def __init__(self, entries: int, size: int) -> None:
        self._entries, self.left = entries, size
        self._messages = (
            f"there are more than {entries} files and folders; write fewer, or raise {FILES_SETTING}",
            f"they have more than {size / (1 << 20):g} MiB; write less, or raise {SIZE_SETTING}",
        )

    def take_entry(self) -> None:
        self._entries -= 1
        if self._entries < 0:
            raise BudgetExceeded(self._messages[0])

    def take_bytes(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise BudgetExceeded(self._messages[1])


class Reader:
    """The user and groups whose rights decide what can be read; None means those of this process."""

    def __init__(self, uid: int | None = None, gid: int | None = None, groups: Sequence[int] = ()) -> None:
        self._uid, self._gid, self._groups = uid, gid, list(groups)
        self._is_needed = os.geteuid() == 0 and bool(uid)

    @contextmanager
    def rights(self) -> Iterator[None]:
        """The kernel checks access to files as for this user until the end of the block."""
        if not self._is_needed or self._uid is None:
            yield
            return
        groups = os.getgroups()
        os.setgroups(self._groups)
        _libc.setfsgid(os.getgid() if self._gid is None else self._gid)
        _libc.setfsuid(self._uid)
        try:
            if _libc.setfsuid(-1) != self._uid:
                raise PermissionError(f"cannot read files as user {self._uid}")
            yield
        finally:
            _libc.setfsuid(os.geteuid())
            _libc.setfsgid(os.getegid())
            os.setgroups(groups)


ANYONE = Reader()


def copy_outputs(
    root: int,
    paths: Sequence[str],
    folder: str,
    budget: CopyBudget,
    reader: Reader = ANYONE,
    *,
    excluded: Sequence[str] = (),
    is_last: bool = True,
) -> None:
    """Copies the `paths` that exist to `folder`/0, /1 ..., replacing what is there, without the `excluded` paths inside
    of them. A problem is written to PROBLEM_FILE. Raises BudgetExceeded, unless this `is_last` try."""
    try:
        if os.path.isdir(folder):
            remove_tree(folder)
        os.makedirs(folder, mode=0o700)
        copies = _Copies(budget, reader, excluded)
        for number, path in enumerate(paths):
            if not path.endswith(NAMED_PATHS):
                copies.copy(root, path, f"{folder}/{number}")
        for number, path in enumerate(paths):
            document = path.removesuffix(NAMED_PATHS)
            beside = os.path.dirname(document)
            if path.endswith(NAMED_PATHS) and beside in paths:
                copies.copy_named(root, document, f"{folder}/{number}", f"{folder}/{paths.index(beside)}")
    except BudgetExceeded as error:
        if not is_last:
            raise
        remove_tree(folder)
        write_problem(folder, str(error))
    except RecursionError:
        write_problem(folder, "folders are nested too deeply")
    except OutputRefused as error:
        write_problem(folder, str(error))
    except OSError as error:
        write_problem(folder, f"{error.strerror or error}")


def copy_outputs_in_child(
    root: int,
    paths: Sequence[str],
    folder: str,
    budget: CopyBudget,
    reader: Reader = ANYONE,
    *,
    excluded: Sequence[str] = (),
) -> int:
    """Copies in a child process and returns its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        copy_outputs(root, paths, folder, budget, reader, excluded=excluded)
    finally:
        os._exit(0)


def check_copies_in_child(folder: str, budget: CopyBudget) -> int:
    """Checks what an image engine has copied, in a child process, and returns its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        check_copies(folder, budget)
    finally:
        os._exit(0)


def check_copies(folder: str, budget: CopyBudget) -> None:
    """Removes what is neither a file, a folder nor a link, and all if it is more than the budget. A copy that is itself
    a link is refused: it would be followed on this machine."""
    try:
        for name in os.listdir(folder):
            if os.path.islink(f"{folder}/{name}"):
                raise OutputRefused("an output path is a link; write a file or a folder there")
        for place, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = f"{place}/{name}"
                status = os.lstat(path)
                budget.take_entry()
                budget.take_bytes(status.st_size)
                if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                    os.unlink(path)
    except (BudgetExceeded, OutputRefused) as error:
        remove_tree(folder)
        write_problem(folder, str(error))
    except OSError as error:
        write_problem(folder, f"{error.strerror or error}")


def write_problem(folder: str, text: str) -> None:
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(f"{folder}/{PROBLEM_FILE}", "w") as file:
            file.write(text)


class _Copies:
    def __init__(self, budget: CopyBudget, reader: Reader, excluded: Sequence[str]) -> None:
        self._budget, self._reader = budget, reader
        self._excluded = frozenset(excluded)
        self._around = frozenset(
            path[:end] for path in excluded for end in range(1, len(path)) if path[end] == "/"
        )  # fmt: skip
        """The folders that excluded paths are in. They exist only for these if nothing else is in them."""

    def copy(self, root: int, path: str, target: str) -> None:
        try:
            with self._reader.rights():
                opened, names, missing = resolve_in_root(root, path)
        except (NotADirectoryError, PermissionError):
            return
        try:
            if missing:
                return
            _refuse_kernel_files(opened[-1], names, path)
            if stat.S_ISDIR(os.fstat(opened[-1]).st_mode):
                self._copy_folder(self._reopen(opened[-1]), target, "/" + "/".join(names))
            else:
                self._copy_file(opened[-1], target)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def copy_named(self, root: int, document: str, target: str, folder: str) -> None:
        """Copies what a JSON file names under `custom_path` into the copy of the file's folder, by the last name of
        the uri beside it. Writes to `target` which paths these were."""
        done = []
        for name, path in _named_paths(self._read(root, document), os.path.dirname(document)):
            copy = f"{folder}/{name}"
            if os.path.lexists(copy):
                os.unlink(copy) if os.path.islink(copy) or not os.path.isdir(copy) else remove_tree(copy)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self.copy(root, path, copy)
            if os.path.lexists(copy):
                done.append(path)
        with open(target, "w") as file:
            file.write("\n".join(done))

    def _read(self, root: int, path: str) -> bytes:
        """Returns the content of a small file; nothing if there is none."""
        try:
            with self._reader.rights():
                opened, _, missing = resolve_in_root(root, path)
        except (NotADirectoryError, PermissionError):
            return b""
        try:
            status = os.fstat(opened[-1])
            if missing or not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_DOCUMENT:
                return b""
            source = self._reopen(opened[-1])
            try:
                return os.read(source, _LARGEST_DOCUMENT)
            finally:
                os.close(source)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _reopen(self, found: int) -> int:
        """Returns a descriptor for reading. Only what is known to be a file or a folder is ever opened so: opening a
        device can have effects."""
        with self._reader.rights():
            return os.open(f"/proc/self/fd/{found}", _READ & ~os.O_NOFOLLOW)

    def _copy_folder(self, source: int, target: str, path: str) -> None:
        """Closes `source`, which the container sees at `path`."""
        try:
            self._budget.take_entry()
            os.mkdir(target, 0o700)
            with os.scandir(source) as found:
                for entry in found:
                    inside = f"{path.rstrip('/')}/{entry.name}"
                    if inside not in self._excluded:
                        self._copy_entry(source, entry.name, f"{target}/{entry.name}", inside)
            os.chmod(target, stat.S_IMODE(os.fstat(source).st_mode) & 0o777 | 0o700)
        finally:
            os.close(source)

    def _copy_entry(self, folder: int, name: str, target: str, path: str) -> None:
        with self._reader.rights():
            found = os.open(name, _PATH, dir_fd=folder)
        try:
            mode = os.fstat(found).st_mode
            if stat.S_ISLNK(mode):
                self._budget.take_entry()
                os.symlink(os.readlink("", dir_fd=found), target)
            elif not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) or _is_of_kernel(found):
                return
            elif stat.S_ISDIR(mode):
                self._copy_folder(self._reopen(found), target, path)
                if path in self._around:
                    with suppress(OSError):
                        os.rmdir(target)
            else:
                self._copy_file(found, target)
        finally:
            os.close(found)

    def _copy_file(self, found: int, target: str) -> None:
        status = os.fstat(found)
        if not stat.S_ISREG(status.st_mode):
            return
        self._budget.take_entry()
        if status.st_size > self._budget.left:
            self._budget.take_bytes(status.st_size)
        source = self._reopen(found)
        try:
            copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                self._copy_content(source, copy)
                os.fchmod(copy, stat.S_IMODE(status.st_mode) & 0o777 | 0o400)
            finally:
                os.close(copy)
        finally:
            os.close(source)

    def _copy_content(self, source: int, target: int) -> None:
        """Counts what it reads: a file in a volume may grow meanwhile."""
        while data := os.read(source, _BLOCK):
            self._budget.take_bytes(len(data))
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]


def _named_paths(content: bytes, folder: str) -> list[tuple[str, str]]:
    """Returns the paths outside of a folder that a JSON document has under the key `custom_path`, each with the last
    name of the uri beside it."""
    if _KEY.encode() not in content:
        return []
    import json  # few Pods need it, and the supervisor has to start quickly

    try:
        left = [json.loads(content)]
    except (ValueError, RecursionError):
        return []
    found: dict[str, str] = {}
    while left and len(found) < _MOST_NAMED:
        value = left.pop()
        if isinstance(value, dict):
            path, uri = value.get(_KEY), value.get("uri")
            if isinstance(path, str) and isinstance(uri, str) and path.startswith("/") and "\0" not in path + uri:
                path, name = os.path.normpath(path), os.path.basename(uri)
                if name not in ("", ".", "..") and not is_kernel_path(path) and not f"{path}/".startswith(f"{folder}/"):
                    found[name] = path
            left += value.values()
        elif isinstance(value, list):
            left += value
    return list(found.items())


def _refuse_kernel_files(found: int, names: Sequence[str], path: str) -> None:
    if is_kernel_path("/" + "/".join(names)) or _is_of_kernel(found):
        raise OutputRefused(f"{path} leads to a file of the kernel (/{'/'.join(names)}), which cannot be an output")


def _is_of_kernel(descriptor: int) -> bool:
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(descriptor, buffer) < 0:
        return True
    return int.from_bytes(buffer.raw[:4], "little") in _KERNEL_FILESYSTEMS


def remove_tree(folder: str) -> None:
    """Removes a folder, even without access to parts of it: a container may have changed their mode, and the kernel
    denies access to the work folder of an overlay. Folders may be nested without end."""
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
        try:
            rmtree(folder, onerror=grant_access)
        except RecursionError:
            _remove_deep_tree(folder)


def _remove_deep_tree(folder: str) -> None:
    """Moves nested folders up before it removes them, so that neither recursion nor the length of a path limits it."""
    pending, moved = [folder], 0
    while pending:
        place = pending.pop()
        with suppress(OSError):
            with os.scandir(place) as found:
                entries = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in found]
            for path, is_folder in entries:
                if not is_folder:
                    os.unlink(path)
                    continue
                os.chmod(path, 0o700)
                aside = f"{folder}/{_ASIDE}{moved}" if place != folder else path
                moved += 1
                os.rename(path, aside)
                pending.append(aside)
            if place != folder:
                os.rmdir(place)
