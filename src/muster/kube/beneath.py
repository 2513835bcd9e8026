"""Files beneath a folder, reached without following any link.

Users choose names below folders of the server: keys of artifacts, entries of archives, files that their Pods wrote.
Such a folder may contain links that a user planted. The kernel resolves each name here beneath an open folder and
refuses links on the way (`openat2`); on kernels without that call, each part is opened by itself. Links are data:
they are copied and deleted as links. The standard library is enough, so that confined processes can use it.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from errno import EEXIST, EINVAL, ELOOP, ENOSYS, EXDEV
from pathlib import Path, PurePosixPath
from typing import IO, Final, Literal, NamedTuple, Self, TypeAlias

Kind: TypeAlias = Literal["file", "folder", "link", "other", ""]
"""'' if there is nothing."""

MOST_LEVELS: Final = 200
"""Folders within folders."""
TEMPORARY: Final = ".coming-"
"""How the names of folders begin that are about to appear or disappear."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1 << 20
_OPEN_LEVELS = 32


class UnsafeName(ValueError):
    """The name would leave the folder, or cannot be the name of a file."""


class UnsafeFile(OSError):
    """There is a link or a special file where a file or folder has to be, or folders are nested too deeply."""


class Entry(NamedTuple):
    name: str
    """Relative to the folder that was walked."""
    kind: Kind
    size: int


def split_name(name: str) -> tuple[str, ...]:
    """Returns the parts of a relative name. Raises UnsafeName."""
    parts = PurePosixPath(name).parts
    if ".." in parts or "\0" in name or name.startswith("/"):
        raise UnsafeName(f'"{name}" is not a path inside the folder')
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise UnsafeName("the name contains characters that no file name has") from None
    return parts


class Folder:
    """A folder that is held open. Names are relative to it. It is a context manager."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def at(cls, path: Path | str, *, create: bool = False) -> Folder:
        """Opens a folder that belongs to the server: links in `path` itself are followed."""
        if create:
            Path(path).mkdir(parents=True, exist_ok=True)
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)

    def folder(self, name: str | Sequence[str] = "") -> Folder:
        """Opens a folder below. Raises FileNotFoundError, NotADirectoryError or UnsafeFile."""
        return Folder(self._open(_parts(name), _FOLDER))

    def file(self, name: str | Sequence[str]) -> IO[bytes]:
        """Opens a regular file for reading. Raises FileNotFoundError, NotADirectoryError or UnsafeFile."""
        descriptor = self._open(_parts(name), _FILE)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UnsafeFile(ELOOP, "not a regular file")
        return os.fdopen(descriptor, "rb")

    def create(self, name: str | Sequence[str], mode: int = 0o600) -> IO[bytes]:
        """Creates a file, in a folder that exists. Raises FileExistsError."""
        return os.fdopen(self._open(_parts(name), _NEW, mode), "wb")

    def make_folders(self, name: str | Sequence[str]) -> Folder:
        """Opens a folder, which is created together with those above it if needed."""
        found = Folder(os.dup(self.descriptor))
        for part in _parts(name):
            with found:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=found.descriptor)
                found = Folder(found._open((part,), _FOLDER))
        return found

    def kind(self, name: str | Sequence[str]) -> Kind:
        return self.look(name)[0]

    def look(self, name: str | Sequence[str]) -> tuple[Kind, int]:
        """Returns what is there, without following it, and its size."""
        parts = _parts(name)
        try:
            if not parts:
                return "folder", 0
            with self.folder(parts[:-1]) as above:
                found = os.stat(parts[-1], dir_fd=above.descriptor, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, UnsafeFile):
            return "", 0
        return _kind(found.st_mode), found.st_size

    def walk(self, name: str | Sequence[str] = "") -> Iterator[Entry]:
        """Yields everything below a folder, ordered by name; what a folder contains follows after its siblings."""
        start = _parts(name)
        pending: list[tuple[str, ...]] = [()]
        while pending:
            inside = pending.pop()
            if len(inside) > MOST_LEVELS:
                raise UnsafeFile(ELOOP, f"folders are nested more than {MOST_LEVELS} levels deep")
            with self.folder((*start, *inside)) as folder, os.scandir(folder.descriptor) as found:
                entries = sorted(((e.name, e.stat(follow_symlinks=False)) for e in found), key=lambda e: e[0])
            below = []
            for each, status in entries:
                kind = _kind(status.st_mode)
                yield Entry("/".join((*inside, each)), kind, status.st_size)
                if kind == "folder":
                    below.append((*inside, each))
            pending += reversed(below)

    def remove(self, name: str | Sequence[str]) -> None:
        """Deletes a file, link or folder if it exists, whatever its depth."""
        parts = _parts(name)
        if not parts:
            raise UnsafeName("the folder itself is not removed")
        with suppress(FileNotFoundError, NotADirectoryError, UnsafeFile), self.folder(parts[:-1]) as above:
            if _kind(os.stat(parts[-1], dir_fd=above.descriptor, follow_symlinks=False).st_mode) == "folder":
                above._remove_folder(parts[-1])
            else:
                os.unlink(parts[-1], dir_fd=above.descriptor)

    def temporary(self) -> str:
        """Creates an empty folder with a new name, which starts with TEMPORARY."""
        name = f"{TEMPORARY}{os.urandom(8).hex()}"
        os.mkdir(name, 0o700, dir_fd=self.descriptor)
        return name

    def _remove_folder(self, name: str) -> None:
        """Moves what is nested deeply up before it is deleted, so that neither depth nor open files matter."""
        pending = [name]
        while pending:
            top = pending.pop()
            with Folder(os.open(top, _FOLDER, dir_fd=self.descriptor)) as folder:
                folder._empty(_OPEN_LEVELS, self, pending)
            os.rmdir(top, dir_fd=self.descriptor)

    def _empty(self, levels: int, top: Folder, moved: list[str]) -> None:
        with suppress(OSError):
            os.fchmod(self.descriptor, 0o700)
        with os.scandir(self.descriptor) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_folder in entries:
            if not is_folder:
                os.unlink(name, dir_fd=self.descriptor)
            elif levels:
                with Folder(os.open(name, _FOLDER, dir_fd=self.descriptor)) as below:
                    below._empty(levels - 1, top, moved)
                os.rmdir(name, dir_fd=self.descriptor)
            else:
                moved.append(f"{TEMPORARY}{os.urandom(8).hex()}")
                os.rename(name, moved[-1], src_dir_fd=self.descriptor, dst_dir_fd=top.descriptor)

    def _open(self, parts: tuple[str, ...], flags: int, mode: int = 0) -> int:
        try:
            return _opener()(self.descriptor, parts, flags, mode)
        except OSError as error:
            if error.errno in (ELOOP, EXDEV):
                raise UnsafeFile(ELOOP, "there is a link on the way, and links are not followed") from None
            raise


def copy(source: Folder, name: str, target: Folder, new_name: str, take: Callable[[int], None] | None = None) -> None:
    """Copies a file or folder; links in it stay links. `take` is called with the size of each entry and may raise.
    Raises FileExistsError, and UnsafeFile for special files."""
    kind = source.kind(name)
    if kind == "file":
        _copy_file(source, name, target, new_name, take)
        return
    if kind != "folder":
        if not kind:
            raise FileNotFoundError(name)
        raise UnsafeFile(ELOOP, "it is neither a file nor a folder")
    os.mkdir(new_name, 0o755, dir_fd=target.descriptor)
    with source.folder(name) as below, target.folder(new_name) as made:
        modes: list[tuple[str, int]] = []
        for entry in below.walk():
            head, _, last = entry.name.rpartition("/")
            with below.folder(head) as here, made.folder(head) as there:
                if entry.kind == "file":
                    _copy_file(here, last, there, last, take)
                    continue
                if take is not None:
                    take(0)
                if entry.kind == "folder":
                    os.mkdir(last, 0o700, dir_fd=there.descriptor)
                    status = os.stat(last, dir_fd=here.descriptor, follow_symlinks=False)
                    modes.append((entry.name, stat.S_IMODE(status.st_mode) & 0o777 | 0o700))
                elif entry.kind == "link":
                    os.symlink(os.readlink(last, dir_fd=here.descriptor), last, dir_fd=there.descriptor)
                else:
                    raise UnsafeFile(ELOOP, f'"{entry.name}" is neither a file, a folder nor a link')
        for each, mode in modes:
            with made.folder(each) as folder:
                os.fchmod(folder.descriptor, mode)


def move(source: Folder, name: str, target: Folder, new_name: str) -> None:
    """Moves a file or folder; between file systems, copies it."""
    try:
        os.rename(name, new_name, src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        copy(source, name, target, new_name)
        source.remove(name)


def rename_new(source: Folder, name: str, target: Folder, new_name: str) -> None:
    """Renames a file, link or folder, and replaces nothing. Raises FileExistsError."""
    if _renameat2 is not None:
        old, new = os.fsencode(name), os.fsencode(new_name)
        if _renameat2(source.descriptor, old, target.descriptor, new, _NO_REPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (ENOSYS, EINVAL):
            raise OSError(code, os.strerror(code), new_name)
    # A file system without that call, such as NFS: what appears in between is replaced.
    with suppress(FileNotFoundError):
        os.stat(new_name, dir_fd=target.descriptor, follow_symlinks=False)
        raise FileExistsError(EEXIST, os.strerror(EEXIST), new_name)
    os.rename(name, new_name, src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor)


def set_mode(folder: Folder, name: str, mode: int, *, recurse: bool) -> None:
    """Sets the mode of a file or folder, and of everything below it. Links are left alone; set-user-ID bits are never
    set."""
    kind = folder.kind(name)
    if recurse and kind == "folder":
        for entry in reversed(list(folder.walk(name))):
            _chmod(folder, f"{name}/{entry.name}", entry.kind, mode)
    _chmod(folder, name, kind, mode)


def _chmod(folder: Folder, name: str, kind: Kind, mode: int) -> None:
    if kind == "file":
        with folder.file(name) as file:
            os.fchmod(file.fileno(), mode & 0o777)
    elif kind == "folder":
        with folder.folder(name) as opened:
            os.fchmod(opened.descriptor, mode & 0o777)


def _copy_file(source: Folder, name: str, target: Folder, new_name: str, take: Callable[[int], None] | None) -> None:
    with source.file(name) as content, target.create(new_name) as copied:
        status = os.fstat(content.fileno())
        if take is not None:
            take(status.st_size)
        left = status.st_size  # a file that grows meanwhile is copied as it was
        while left > 0 and (block := content.read(min(left, _BLOCK))):
            copied.write(block)
            left -= len(block)
        copied.flush()
        os.fchmod(copied.fileno(), stat.S_IMODE(status.st_mode) & 0o777 | 0o400)
        os.utime(copied.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _parts(name: str | Sequence[str]) -> tuple[str, ...]:
    return split_name(name) if isinstance(name, str) else tuple(name)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


# openat2, and what replaces it on kernels before 5.6.

_OPENAT2 = 437
_BENEATH, _NO_SYMLINKS, _NO_MAGICLINKS = 0x08, 0x04, 0x02
Opener: TypeAlias = Callable[[int, tuple[str, ...], int, int], int]


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc["syscall"]
_syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t]
_syscall.restype = ctypes.c_long

_NO_REPLACE = 1
_renameat2 = getattr(_libc, "renameat2", None)  # not in every C library
if _renameat2 is not None:
    _renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    _renameat2.restype = ctypes.c_int


def open_with_openat2(folder: int, parts: tuple[str, ...], flags: int, mode: int) -> int:
    path = os.fsencode("/".join(parts) or ".")
    how = _How(flags, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    found = int(_syscall(_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how)))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "/".join(parts))
    return found


def open_part_by_part(folder: int, parts: tuple[str, ...], flags: int, mode: int) -> int:
    current = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = below
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW, mode, dir_fd=current)
    finally:
        os.close(current)


_chosen: list[Opener] = []


def _opener() -> Opener:
    if not _chosen:
        root = os.open("/", _PLACE)
        try:
            os.close(open_with_openat2(root, (), _PLACE, 0))
            _chosen.append(open_with_openat2)
        except OSError:
            _chosen.append(open_part_by_part)
        finally:
            os.close(root)
    return _chosen[0]
