"""Linux system calls that Python 3.11 has no function for. Each raises OSError, like those in `os`.

Mounts use the new API (Linux 5.2): a tree of mounts is cloned or created as a descriptor, changed while no process sees
it, and attached where another descriptor points, so that no path is resolved twice.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Container
from errno import EINVAL, ENOSYS

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USERS = 0x10000000
NEW_PIDS = 0x20000000

AT_CWD = -100

_CLOEXEC = os.O_CLOEXEC
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_FROM_EMPTY_PATH, _MOVE_TO_EMPTY_PATH = 0x04, 0x40
_FS_SET_FLAG, _FS_SET_STRING, _FS_CREATE = 0, 1, 6
_MS_REMOUNT_READ_ONLY = 1 | 32 | 4096
_MS_REC, _MS_SLAVE = 1 << 14, 1 << 19
_MNT_DETACH = 2
_PR_SET_DEATH_SIGNAL, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER = 1, 24, 36
_MAX_CAPABILITY = 63
_MOUNT_READ_ONLY = (1).to_bytes(8, "little") + bytes(24)
_IN_MEMORY = (0x01021994, 0x858458F6)  # tmpfs (and devtmpfs, made of it), ramfs

_libc = ctypes.CDLL(None, use_errno=True)
_int, _long, _text = ctypes.c_int, ctypes.c_long, ctypes.c_char_p

_unshare = _libc.unshare
_unshare.argtypes = [_int]
_setns = _libc.setns
_setns.argtypes = [_int, _int]
_prctl = _libc.prctl
_prctl.argtypes = [_int, _long, _long, _long, _long]
_mount = _libc.mount
_mount.argtypes = [_text, _text, _text, ctypes.c_ulong, _text]
_umount = _libc.umount2
_umount.argtypes = [_text, _int]


def _numbered(number: int, *argtypes: type) -> tuple[ctypes._NamedFuncPointer, int]:
    function = _libc["syscall"]  # a new object for each access, so that each call can have its own types
    function.argtypes = [_long, *argtypes]
    function.restype = _long
    return function, number


_open_tree = _numbered(428, _int, _text, _int)
_move_mount = _numbered(429, _int, _text, _int, _text, _int)
_fsopen = _numbered(430, _text, _int)
_fsconfig = _numbered(431, _int, _int, _text, _text, _int)
_fsmount = _numbered(432, _int, _int, _int)
_mount_setattr = _numbered(442, _int, _text, _int, _text, _long)
_pivot_root = _numbered(155 if os.uname().machine == "x86_64" else 41, _text, _text)


def unshare(flags: int) -> None:
    _check(_unshare(flags))


def setns(descriptor: int, flags: int) -> None:
    _check(_setns(descriptor, flags))


def die_with_parent(signal: int) -> None:
    """This process gets the signal when its parent dies."""
    _check(_prctl(_PR_SET_DEATH_SIGNAL, signal, 0, 0, 0))


def adopt_orphans() -> None:
    """Descendants whose parents die become children of this process instead of init's."""
    _check(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def withhold_capabilities(kept: Container[int]) -> None:
    """Removes the other capabilities from all programs that this process and its children will execute, but not from
    the process itself."""
    for capability in range(_MAX_CAPABILITY + 1):
        if capability not in kept and _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            if ctypes.get_errno() == EINVAL:
                return  # this kernel has no more
            _check(-1)


def follow_mounts_of_parent() -> None:
    """Later mounts of the machine appear in this namespace; mounts made here do not leave it."""
    _check(_mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))


def clone_tree(folder: int, path: str) -> int:
    """Returns a detached copy of `path` (a file, or a folder with everything mounted below), as a descriptor. An empty
    path means what the descriptor `folder` points at."""
    flags = _OPEN_TREE_CLONE | _CLOEXEC | _AT_RECURSIVE | (0 if path else _AT_EMPTY_PATH)
    return _call(_open_tree, folder, os.fsencode(path), flags)


def new_filesystem(kind: bytes, options: tuple[tuple[bytes, bytes | None], ...] = ()) -> int:
    """Creates a detached file system and returns a descriptor of its root. An option without a value is a flag."""
    context = _call(_fsopen, kind, 1)
    try:
        for name, value in options:
            _call(_fsconfig, context, _FS_SET_FLAG if value is None else _FS_SET_STRING, name, value, 0)
        _call(_fsconfig, context, _FS_CREATE, None, None, 0)
        return _call(_fsmount, context, 1, 0)
    finally:
        os.close(context)


def attach(tree: int, folder: int, path: str = "") -> None:
    """Mounts a detached tree at `path`, or where the descriptor `folder` points if the path is empty."""
    flags = _MOVE_FROM_EMPTY_PATH | (0 if path else _MOVE_TO_EMPTY_PATH)
    _call(_move_mount, tree, b"", folder, os.fsencode(path), flags)


def make_read_only(tree: int, *, recursive: bool = True) -> None:
    """The tree must be attached already: kernels before 5.12 have no other way, and change only its topmost mount."""
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    try:
        _call(_mount_setattr, tree, b"", flags, _MOUNT_READ_ONLY, len(_MOUNT_READ_ONLY))
    except OSError as error:
        if error.errno != ENOSYS:
            raise
        kept = os.fstatvfs(tree).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
        _check(_mount(None, b"/proc/self/fd/%d" % tree, None, _MS_REMOUNT_READ_ONLY | kept, None))


def pivot_to_here() -> None:
    """The current folder, which must be a mount, becomes the root of the mount namespace. The old root is unmounted."""
    _call(_pivot_root, b".", b".")
    _check(_umount(b".", _MNT_DETACH))
    os.chdir("/")


def is_in_memory(descriptor: int) -> bool:
    buffer = ctypes.create_string_buffer(256)
    _check(_libc.fstatfs(descriptor, buffer))
    return int.from_bytes(buffer.raw[:8], "little") in _IN_MEMORY


def _call(numbered: tuple[ctypes._NamedFuncPointer, int], *arguments: object) -> int:
    function, number = numbered
    return _check(function(number, *arguments))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
