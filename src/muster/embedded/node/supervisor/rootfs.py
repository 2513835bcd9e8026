"""A root file system that a container can write to without changing it for others.

The root file system is the lower layer of an overlay; what the container writes goes to a folder of its own. Since
Linux 5.11 this also works without root, in a user namespace. If the kernel refuses an overlay (an older kernel, or a
data directory on an overlay or on NFS), the container gets a private copy of the root file system.
"""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from typing import NamedTuple

from muster.embedded.node.supervisor.syscalls import AT_CWD, clone_tree, new_filesystem

_UPPER, _WORK = "upper", "work"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1 << 24


class RootFs(NamedTuple):
    path: str
    layer: str
    """An empty folder for what the container writes."""
    in_user_namespace: bool = False


def open_rootfs(root: RootFs) -> int:
    """Returns a descriptor of a detached tree that shows `root.path` and takes writes. Raises OSError."""
    if f"{os.path.realpath(root.layer)}/".startswith(f"{os.path.realpath(root.path).rstrip('/')}/"):
        raise OSError(EINVAL, "it contains the data directory of this cluster")
    upper, work = f"{root.layer}/{_UPPER}", f"{root.layer}/{_WORK}"
    os.mkdir(upper)
    os.mkdir(work)
    _copy_attributes(os.stat(root.path), upper)
    try:
        return _new_overlay(root.path, upper, work, in_user_namespace=root.in_user_namespace)
    except OSError:
        _copy_entries(root.path, upper)
        return clone_tree(AT_CWD, upper)


def _new_overlay(lower: str, upper: str, work: str, *, in_user_namespace: bool) -> int:
    opened = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in (lower, upper, work)]
    try:
        # Through descriptors, because a colon in a path would separate two lower layers.
        names = (b"lowerdir", b"upperdir", b"workdir")
        options: list[tuple[bytes, bytes | None]] = [
            (name, b"/proc/self/fd/%d" % descriptor) for name, descriptor in zip(names, opened, strict=True)
        ]
        if in_user_namespace:
            options.append((b"userxattr", None))
        return new_filesystem(b"overlay", tuple(options))
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _copy_entries(source: str, target: str) -> None:
    with os.scandir(source) as found:
        entries = list(found)
    for entry in entries:
        copy = f"{target}/{entry.name}"
        status = entry.stat(follow_symlinks=False)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), copy)
            if os.geteuid() == 0:
                os.chown(copy, status.st_uid, status.st_gid, follow_symlinks=False)
            continue
        if entry.is_dir(follow_symlinks=False):
            os.mkdir(copy)
            _copy_entries(entry.path, copy)
        elif entry.is_file(follow_symlinks=False):
            _copy_content(entry.path, copy)
        else:
            continue  # devices come from the machine's /dev; sockets and pipes belong to processes
        _copy_attributes(status, copy)


def _copy_content(source: str, target: str) -> None:
    reading = os.open(source, _READ)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while _copy_block(reading, writing):
                pass
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_block(reading: int, writing: int) -> int:
    """Lets the kernel share the blocks if the file system can."""
    try:
        return os.copy_file_range(reading, writing, _BLOCK)
    except OSError:
        return os.sendfile(writing, reading, None, _BLOCK)


def _copy_attributes(status: os.stat_result, target: str) -> None:
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))
