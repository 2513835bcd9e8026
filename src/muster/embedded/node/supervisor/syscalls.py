"""Linux system calls that Python 3.11 has no function for. Each raises OSError, like those in `os`.

Mounts use the new API (Linux 5.2): a tree of mounts is cloned or created as a descriptor, changed while no process sees
it, and attached where another descriptor points, so that no path is resolved twice.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Sequence
from errno import EINVAL, ENOSYS

OWN_FOLDERS = 0x00000200
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
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
_MNT_DETACH = 2
_PR_SET_DEATH_SIGNAL, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
_SECCOMP_SET_MODE_FILTER = 1
_READ_ONLY, _NO_SETUID, _NO_DEVICES = 1, 2, 4
_IDMAP = 0x00100000

_ENCODING = sys.getfilesystemencoding()
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
_setgroups = _numbered(116 if os.uname().machine == "x86_64" else 159, _long, ctypes.c_void_p)
_setresgid = _numbered(119 if os.uname().machine == "x86_64" else 149, _int, _int, _int)
_setresuid = _numbered(117 if os.uname().machine == "x86_64" else 147, _int, _int, _int)
_seccomp = _numbered(317 if os.uname().machine == "x86_64" else 277, _int, _int, ctypes.c_void_p)
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


def withhold_capabilities(withheld: Iterable[int]) -> None:
    """Removes capabilities from all programs that this thread and its children will execute, but not from the thread
    itself. Those that this kernel does not have are no error."""
    for capability in withheld:
        if _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 and ctypes.get_errno() != EINVAL:
            _check(-1)


def become_user(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Changes the user and groups of this thread. The functions in `os` would change those of all threads."""
    _call(_setgroups, len(groups), (ctypes.c_uint * len(groups))(*groups))
    _call(_setresgid, gid, gid, gid)
    _call(_setresuid, uid, uid, uid)


def refuse_new_privileges() -> None:
    """Programs that this thread and its children execute get no more rights than it has, for example through a setuid
    bit."""
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def install_filter(program: bytes) -> None:
    """Installs a seccomp filter (see seccomp.py) for this thread and its children."""
    instructions = ctypes.create_string_buffer(program, len(program))
    header = _FilterProgram(len(program) // 8, ctypes.addressof(instructions))
    _call(_seccomp, _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(header))


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def separate_mounts() -> None:
    """Mounts made here do not leave this namespace, and later mounts of the machine, which nothing would make
    read-only, do not appear in it."""
    _check(_mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))


def clone_tree(folder: int, path: str) -> int:
    """Returns a detached copy of `path` (a file, or a folder with everything mounted below), as a descriptor. An empty
    path means what the descriptor `folder` points at."""
    flags = _OPEN_TREE_CLONE | _CLOEXEC | _AT_RECURSIVE | (0 if path else _AT_EMPTY_PATH)
    return _call(_open_tree, folder, _encode(path), flags)


def new_filesystem(
    kind: bytes, options: tuple[tuple[bytes, bytes | None], ...] = (), *, has_devices: bool = True
) -> int:
    """Creates a detached file system and returns a descriptor of its root. An option without a value is a flag. Without
    `has_devices`, device nodes in it cannot be opened."""
    context = _call(_fsopen, kind, 1)
    try:
        for name, value in options:
            _call(_fsconfig, context, _FS_SET_FLAG if value is None else _FS_SET_STRING, name, value, 0)
        _call(_fsconfig, context, _FS_CREATE, None, None, 0)
        return _call(_fsmount, context, 1, 0 if has_devices else _NO_DEVICES)
    finally:
        os.close(context)


def attach(tree: int, folder: int, path: str = "") -> None:
    """Mounts a detached tree at `path`, or where the descriptor `folder` points if the path is empty."""
    flags = _MOVE_FROM_EMPTY_PATH | (0 if path else _MOVE_TO_EMPTY_PATH)
    _call(_move_mount, tree, b"", folder, _encode(path), flags)


def move(mounted: str, folder: int, path: str = "") -> None:
    """Moves the mount at `mounted`, with everything below, to `path`, or to where the descriptor `folder` points if the
    path is empty."""
    flags = 0 if path else _MOVE_TO_EMPTY_PATH
    _call(_move_mount, AT_CWD, _encode(mounted), folder, _encode(path), flags)


def make_read_only(tree: int, *, recursive: bool = True, has_devices: bool = True) -> None:
    """The tree must be attached already: kernels before 5.12 have no other way, and change only its topmost mount.
    Without `has_devices`, device nodes in it cannot be opened any more."""
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    try:
        _set_attributes(tree, flags, _READ_ONLY | (0 if has_devices else _NO_DEVICES))
    except OSError as error:
        if error.errno != ENOSYS:
            raise
        kept = os.fstatvfs(tree).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
        _check(_mount(None, b"/proc/self/fd/%d" % tree, None, _MS_REMOUNT_READ_ONLY | kept, None))


def map_owners(tree: int, user_namespace: int) -> None:
    """Shows the owners of the files in a detached tree as the user namespace maps them, and stores new files with the
    ids that they have inside of it. Setuid bits and device nodes have no effect there."""
    _set_attributes(tree, _AT_EMPTY_PATH, _IDMAP | _NO_SETUID | _NO_DEVICES, user_namespace)


def _set_attributes(tree: int, flags: int, attributes: int, user_namespace: int = 0) -> None:
    values = b"".join(value.to_bytes(8, "little") for value in (attributes, 0, 0, user_namespace))
    _call(_mount_setattr, tree, b"", flags, values, len(values))


def pivot_to_here() -> None:
    """The current folder, which must be a mount, becomes the root of the mount namespace. The old root is unmounted."""
    _call(_pivot_root, b".", b".")
    unmount(".")
    os.chdir("/")


def unmount(path: str) -> None:
    """Removes the topmost mount at `path`."""
    _check(_umount(_encode(path), _MNT_DETACH))


def _encode(path: str) -> bytes:
    """Like `os.fsencode`, which takes three times as long. A container needs it forty times."""
    return path.encode(_ENCODING, "surrogateescape")


def _call(numbered: tuple[ctypes._NamedFuncPointer, int], *arguments: object) -> int:
    function, number = numbered
    result: int = function(number, *arguments)
    return result if result >= 0 else _check(result)


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
