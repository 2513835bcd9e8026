"""The files of a volume that is a folder of this machine.

Users write what is in the folder, links included, while the server reads it with more rights. Every name is resolved by
the kernel beneath the open folder, and no link is followed (kube/beneath.py), so there is nothing to check first and to
use later. Links are listed, renamed and deleted as links; special files are never opened for long enough to block.

An upload is written to a file of its own beside the target, and renamed when it is complete: a server that is killed
leaves the old file as it was. The rest is removed by the next upload to the same folder.

All functions here block. The server calls them in the threads of `FileAccess`.
"""

from __future__ import annotations

import asyncio
import os
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import ENAMETOOLONG
from functools import partial
from typing import IO, Final, NamedTuple, ParamSpec, TypeVar

from muster.kube.beneath import Folder, UnsafeFile, rename_new
from muster.workspaces.volumes import (
    MOST_LEVELS,
    UPLOAD_PREFIX,
    EntryKind,
    VolumeEntry,
    VolumeFolder,
    VolumeUsage,
    encode_path,
    shown_name,
)

P = ParamSpec("P")
T = TypeVar("T")

MOST_ENTRIES: Final = 100_000
"""Entries of one folder that are read to show it."""
BLOCK: Final = 1 << 20
_MOST_COUNTED: Final = 1_000_000
_MOST_SECONDS: Final = 10.0
_PAUSE_ENTRIES, _PAUSE_SECONDS = 1000, 0.001
"""A thread that counts pauses, so that the event loop can run."""
_THREADS: Final = 8
_MEASURED_SECONDS: Final = 30.0
_FORGOTTEN_SECONDS: Final = 24 * 3600.0
"""An upload that wrote nothing for so long has no server any more."""


class IsFolder(OSError):
    """There is a folder where a file has to be."""


class WalkedEntry(NamedTuple):
    parts: tuple[str, ...]
    """Relative to where the walk began."""
    status: os.stat_result

    @property
    def kind(self) -> EntryKind:
        return kind_of(self.status.st_mode)


def kind_of(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def list_folder(top: Folder, parts: tuple[str, ...], *, limit: int, after: str = "") -> VolumeFolder:
    """Lists a folder. `after` is the `next` of the page before."""
    found: list[tuple[bool, str]] = []
    complete = True
    with top.folder(parts) as folder:
        with os.scandir(folder.descriptor) as entries:
            for entry in entries:
                if len(found) >= MOST_ENTRIES:
                    complete = False
                    break
                if not entry.name.startswith(UPLOAD_PREFIX):
                    found.append((not entry.is_dir(follow_symlinks=False), entry.name))
        found.sort()
        page = [key for key in found if _cursor(key) > after][: limit + 1]
        items = []
        for _, name in page[:limit]:
            with suppress(FileNotFoundError):  # deleted meanwhile
                status = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
                items.append(_describe((*parts, name), status))
    following = _cursor(page[limit - 1]) if len(page) > limit else None
    return VolumeFolder(encode_path(parts), items, following, len(found), complete)


def _cursor(key: tuple[bool, str]) -> str:
    return f"{int(key[0])}{encode_path([key[1]])}"


def look(top: Folder, parts: tuple[str, ...]) -> VolumeEntry:
    """Returns what is at a path. Raises FileNotFoundError, NotADirectoryError or UnsafeFile."""
    if not parts:
        return _describe(parts, os.fstat(top.descriptor))
    with top.folder(parts[:-1]) as above:
        return _describe(parts, os.stat(parts[-1], dir_fd=above.descriptor, follow_symlinks=False))


def _describe(parts: tuple[str, ...], status: os.stat_result) -> VolumeEntry:
    kind = kind_of(status.st_mode)
    # Users can set any time, also one that no datetime has.
    seconds = min(max(status.st_mtime, 0.0), 253_402_300_799.0)
    return VolumeEntry(
        shown_name(parts[-1]) if parts else "",
        encode_path(parts),
        kind,
        status.st_size if kind == "file" else 0,
        datetime.fromtimestamp(seconds, UTC),
    )


def measure(top: Folder, parts: tuple[str, ...]) -> VolumeUsage:
    """Counts what is stored below a path. A file with several names counts once."""
    until = time.monotonic() + _MOST_SECONDS
    size = files = folders = 0
    complete, seen = True, set[int]()
    pending: list[tuple[str, ...]] = [parts]
    while pending:
        here = pending.pop()
        try:
            with top.folder(here) as folder, os.scandir(folder.descriptor) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        folders += 1
                        pending.append((*here, entry.name))
                    else:
                        files += 1
                        if status.st_nlink > 1 and status.st_ino in seen:
                            continue
                        seen.add(status.st_ino)
                    size += status.st_blocks * 512
                    if (files + folders) % _PAUSE_ENTRIES == 0:
                        time.sleep(_PAUSE_SECONDS)
        except (FileNotFoundError, NotADirectoryError):
            if here == parts:
                raise
        except OSError as error:
            if here == parts and error.errno != ENAMETOOLONG:
                raise
            complete = False
        if files + folders > _MOST_COUNTED or time.monotonic() > until:
            return VolumeUsage(size, files, folders, False)
    return VolumeUsage(size, files, folders, complete)


@dataclass(slots=True)
class Upload:
    """A file that arrives piece by piece. Nothing is visible before `finish`."""

    _folder: Folder
    _name: str
    _aside: str
    _file: IO[bytes]
    _replace: bool
    _is_open: bool = field(default=True)

    @classmethod
    def begin(cls, top: Folder, parts: tuple[str, ...], *, replace: bool) -> Upload:
        """Raises FileExistsError unless `replace`, FileNotFoundError if the folder above does not exist, IsFolder if
        there is a folder."""
        folder = top.folder(parts[:-1])
        try:
            _remove_forgotten(folder)
            kind = folder.kind((parts[-1],))
            if kind == "folder":
                raise IsFolder
            if kind and not replace:
                raise FileExistsError
            aside = f"{UPLOAD_PREFIX}{os.urandom(8).hex()}"
            return cls(folder, parts[-1], aside, folder.create((aside,), 0o600), replace)
        except BaseException:
            folder.close()
            raise

    def write(self, piece: bytes) -> None:
        self._file.write(piece)

    def finish(self) -> None:
        """Makes the file visible, with the owner of its folder, as if a Pod of that user had written it."""
        self._file.flush()
        _inherit_owner(self._folder, self._file.fileno())
        os.fchmod(self._file.fileno(), 0o644)
        os.fsync(self._file.fileno())
        if self._replace:
            try:
                os.rename(
                    self._aside, self._name, src_dir_fd=self._folder.descriptor, dst_dir_fd=self._folder.descriptor
                )
            except IsADirectoryError:
                raise IsFolder from None
        else:
            rename_new(self._folder, self._aside, self._folder, self._name)
        os.fsync(self._folder.descriptor)
        self._close()

    def abandon(self) -> None:
        """Removes what has arrived, unless it is finished."""
        if self._is_open:
            with suppress(OSError):
                os.unlink(self._aside, dir_fd=self._folder.descriptor)
            self._close()

    def _close(self) -> None:
        self._is_open = False
        with suppress(OSError):  # a full disk is reported again
            self._file.close()
        self._folder.close()


def _remove_forgotten(folder: Folder) -> None:
    """Removes what uploads have left whose server was killed."""
    count = 0
    with os.scandir(folder.descriptor) as entries:
        for entry in entries:
            count += 1
            if count > MOST_ENTRIES:
                return
            if entry.name.startswith(UPLOAD_PREFIX):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _FORGOTTEN_SECONDS:
                        os.unlink(entry.name, dir_fd=folder.descriptor)


def _inherit_owner(folder: Folder, descriptor: int) -> None:
    """Ids are stored as a Pod of an admin would store them, so the owner of the folder above is one that Pods know."""
    if os.geteuid() == 0:
        above = os.fstat(folder.descriptor)
        os.fchown(descriptor, above.st_uid, above.st_gid)


def make_folder(top: Folder, parts: tuple[str, ...]) -> None:
    """Creates a folder. Raises FileExistsError; FileNotFoundError if the folder above does not exist."""
    with top.folder(parts[:-1]) as above:
        os.mkdir(parts[-1], 0o755, dir_fd=above.descriptor)
        with above.folder((parts[-1],)) as made:
            _inherit_owner(above, made.descriptor)


def rename(top: Folder, parts: tuple[str, ...], new_parts: tuple[str, ...]) -> None:
    """Renames or moves a file, link or folder within the volume. Raises FileExistsError: nothing is replaced."""
    with top.folder(parts[:-1]) as source, top.folder(new_parts[:-1]) as target:
        rename_new(source, parts[-1], target, new_parts[-1])


def delete(top: Folder, parts: tuple[str, ...]) -> None:
    """Deletes a file, link or folder with everything in it. Raises FileNotFoundError, NotADirectoryError or
    UnsafeFile."""
    look(top, parts)
    top.remove(parts)


def open_file(top: Folder, parts: tuple[str, ...]) -> tuple[IO[bytes], os.stat_result]:
    """Opens a regular file. Raises FileNotFoundError, NotADirectoryError or UnsafeFile; IsFolder if it is a folder."""
    if top.kind(parts) == "folder":
        raise IsFolder
    file = top.file(parts)
    return file, os.fstat(file.fileno())


def read_blocks(file: IO[bytes], first: int, count: int) -> Iterator[bytes]:
    """Yields `count` bytes. Raises EOFError if the file became shorter: the answer must not look complete."""
    file.seek(first)
    while count > 0:
        block = file.read(min(count, BLOCK))
        if not block:
            raise EOFError("the file became shorter while it was read")
        count -= len(block)
        yield block


# Folders as archives.


def walk(top: Folder, parts: tuple[str, ...]) -> Iterator[WalkedEntry]:
    """Yields everything below a folder, and a folder before its content. Raises UnsafeFile if folders are nested too
    deeply."""
    pending: list[tuple[str, ...]] = [()]
    while pending:
        inside = pending.pop()
        if len(inside) > MOST_LEVELS:
            raise UnsafeFile(ENAMETOOLONG, f"folders are nested more than {MOST_LEVELS} levels deep")
        try:
            with top.folder((*parts, *inside)) as folder, os.scandir(folder.descriptor) as found:
                names = sorted(entry.name for entry in found if not entry.name.startswith(UPLOAD_PREFIX))
                below = []
                for name in names:
                    with suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
                        yield WalkedEntry((*inside, name), status)
                        if stat.S_ISDIR(status.st_mode):
                            below.append((*inside, name))
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted or replaced meanwhile
        pending += reversed(below)


def archive(
    path: str, make: Callable[[Folder, tuple[str, ...]], Iterator[bytes]], parts: tuple[str, ...]
) -> Iterator[bytes]:
    """Yields an archive of a folder in a volume, made by one of the functions below. It opens nothing before the first
    block is asked for: a response that is refused never asks."""
    with Folder.at(path) as top:
        yield from joined(make(top, parts))


def tar_folder(top: Folder, parts: tuple[str, ...]) -> Iterator[bytes]:
    """Yields a tar archive of a folder. Links stay links; special files are left out, and so are owners."""
    for entry in walk(top, parts):
        info = tarfile.TarInfo("/".join(entry.parts))
        info.mtime = max(int(entry.status.st_mtime), 0)
        info.mode = stat.S_IMODE(entry.status.st_mode) & 0o777
        if entry.kind == "folder":
            info.type = tarfile.DIRTYPE
            yield _header(info)
        elif entry.kind == "link":
            info.type = tarfile.SYMTYPE
            with suppress(OSError), top.folder((*parts, *entry.parts[:-1])) as above:
                info.linkname = os.readlink(entry.parts[-1], dir_fd=above.descriptor)
                yield _header(info)
        elif entry.kind == "file":
            yield from _tar_file(top, (*parts, *entry.parts), info)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _tar_file(top: Folder, parts: tuple[str, ...], info: tarfile.TarInfo) -> Iterator[bytes]:
    try:
        file = top.file(parts)
    except (FileNotFoundError, NotADirectoryError, UnsafeFile):
        return  # deleted or replaced meanwhile
    with file:
        info.size = os.fstat(file.fileno()).st_size
        yield _header(info)
        yield from read_blocks(file, 0, info.size)
    yield bytes(-info.size % tarfile.BLOCKSIZE)


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def zip_folder(top: Folder, parts: tuple[str, ...]) -> Iterator[bytes]:
    """Yields a zip archive of a folder, not compressed. Links and special files are left out."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for entry in walk(top, parts):
            if entry.kind not in ("file", "folder"):
                continue
            name = shown_name("/".join(entry.parts)) + ("/" if entry.kind == "folder" else "")
            info = zipfile.ZipInfo(name, _zip_time(entry.status.st_mtime))
            info.external_attr = (entry.status.st_mode & 0xFFFF) << 16
            if entry.kind == "folder":
                info.external_attr |= 0x10
                archive.writestr(info, b"")
            else:
                yield from _zip_file(archive, sink, top, (*parts, *entry.parts), info)
            yield sink.take()
    yield sink.take()


def _zip_file(
    archive: zipfile.ZipFile, sink: _Sink, top: Folder, parts: tuple[str, ...], info: zipfile.ZipInfo
) -> Iterator[bytes]:
    try:
        file = top.file(parts)
    except (FileNotFoundError, NotADirectoryError, UnsafeFile):
        return
    with file, archive.open(info, "w", force_zip64=True) as target:
        for block in read_blocks(file, 0, os.fstat(file.fileno()).st_size):
            target.write(block)
            yield sink.take()


def _zip_time(seconds: float) -> tuple[int, int, int, int, int, int]:
    """Zip files know the years from 1980 to 2107."""
    found = time.gmtime(min(max(seconds, 315_532_800.0), 4_354_819_198.0))
    return found.tm_year, found.tm_mon, found.tm_mday, found.tm_hour, found.tm_min, found.tm_sec


class _Sink:
    """What a ZipFile writes to: it keeps what was written until it is taken, and cannot seek."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """There is nothing behind it."""

    def close(self) -> None:
        """The rest is taken later."""

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


def joined(pieces: Iterable[bytes], size: int = BLOCK) -> Iterator[bytes]:
    """Yields the same bytes in pieces of about `size`, so that small files do not cost a thread switch each."""
    kept: list[bytes] = []
    length = 0
    for piece in pieces:
        if piece:
            kept.append(piece)
            length += len(piece)
        if length >= size:
            yield b"".join(kept)
            kept, length = [], 0
    if kept:
        yield b"".join(kept)


# For the server.


@dataclass(slots=True)
class FileAccess:
    """The threads that read and write files of volumes, so that a slow disk does not hold up other requests, and what
    is known about how much is stored."""

    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="volumes")
    )
    _measuring: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    _measured: dict[str, tuple[float, int]] = field(default_factory=dict)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args, **kwargs))

    async def measure(self, path: str, parts: tuple[str, ...] = ()) -> VolumeUsage:
        async with self._measuring:
            return await self.run(in_folder, path, measure, parts)

    async def bytes_in(self, path: str) -> int:
        """Returns about how much is stored below a path: it may have been measured a while ago."""
        at, known = self._measured.get(path, (0.0, 0))
        if time.monotonic() - at > _MEASURED_SECONDS:
            with suppress(FileNotFoundError):
                known = (await self.measure(path)).bytes
            self._measured[path] = time.monotonic(), known
        return known

    def known_bytes(self, path: str) -> int:
        """The same without measuring."""
        return self._measured.get(path, (0.0, 0))[1]

    def add(self, path: str, count: int) -> None:
        """Counts what was stored after the last measurement."""
        if path in self._measured:
            at, known = self._measured[path]
            self._measured[path] = at, known + count


def in_folder(path: str, function: Callable[[Folder, tuple[str, ...]], T], parts: tuple[str, ...]) -> T:
    with Folder.at(path) as top:
        return function(top, parts)
