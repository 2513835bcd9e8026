"""Packs artifacts deterministically, and unpacks archives from untrusted sources safely.

What is packed may contain links: they are packed as links. What is unpacked stays beneath its folder, whatever its
names and links say. Confined processes import this module: standard library only.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from errno import ELOOP, EXDEV
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Literal, Self, TypeAlias

from muster.kube import beneath
from muster.kube.beneath import MOST_LEVELS, Entry, Folder, UnsafeFile, UnsafeName
from muster.workflows.artifacts.locations import ArtifactError

Form: TypeAlias = Literal["none", "tar", "zip"]

_GZIP = b"\x1f\x8b"
_LEVEL = 6
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_BLOCK = 1 << 20
_LONGEST_HEADER = 1 << 20
"""Bytes of the long names and attributes of one entry."""
_EXTENDED: Final = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, RuntimeError)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an unpacked archive may become. An archive of a few kilobytes can fill any disk."""

    entries: int = 1_000_000
    free_bytes: int = 1 << 30
    """Always allowed, however small the archive is."""
    growth: int = 200
    """Above that, this many times the archive's size."""

    def bytes_for(self, archive: Path) -> int:
        return max(self.free_bytes, self.growth * archive.stat().st_size)


def form_of(artifact: Mapping[str, Any]) -> Form | None:
    """Returns the form that the artifact's `archive` field asks for, or None if it has none."""
    archive = artifact.get("archive") or {}
    return next((form for form in _FORMS if archive.get(form) is not None), None)


def pack(
    source: Path, name: str, target: Path, artifact: Mapping[str, Any], take: Callable[[int], None] | None = None
) -> None:
    """Packs a file or folder under the name it has in the container. `take` is called with the size of each entry and
    may raise."""
    entries = _entries(source, name, take)
    try:
        if form_of(artifact) == "zip":
            _pack_zip(entries, target)
            return
        level = ((artifact.get("archive") or {}).get("tar") or {}).get("compressionLevel")
        _pack_tar(entries, target, _LEVEL if level is None or int(level) < 0 else int(level))
    finally:
        entries.close()


def unpack(archive: Path, target: Path, form: Form | None, limits: Limits = Limits()) -> None:
    """Unpacks an archive to `target`: its only entry, or a folder with all entries.

    Without a form, a compressed tar archive is unpacked and anything else is the artifact itself. The archive is
    deleted. Raises ArtifactError for an archive that would write or link outside the target, or that exceeds the
    limits.
    """
    with Folder.at(archive.parent) as beside:
        kind = beside.kind(archive.name)
        if kind not in ("file", "folder"):
            raise ArtifactError("the artifact is neither a file nor a folder")
        if form is None:
            form = "tar" if kind == "file" and is_tarball(archive) else "none"
        if form == "none" or kind == "folder":
            archive.rename(target)
            return
        unpacked = f"{target.name}.unpacked"
        try:
            with beside.make_folders([unpacked]) as folder:
                _extract(archive, folder, form, limits)
                with os.scandir(folder.descriptor) as listing:
                    found = [entry.name for entry in listing]
                if len(found) == 1 and folder.kind(found) == "link":
                    raise ArtifactError("the archive contains nothing but a link")
                if len(found) == 1:
                    beneath.move(folder, found[0], beside, target.name)
                else:
                    target.with_name(unpacked).rename(target)
        except _BROKEN as error:
            raise ArtifactError(f"the {form} archive is broken: {error}") from None
        except OSError as error:
            raise ArtifactError(f"the archive was not unpacked: {error.strerror or error}") from None
        finally:
            beside.remove(unpacked)
        archive.unlink()


def is_packed(path: Path, form: Form | None) -> bool:
    """Whether unpacking means more than moving it."""
    with Folder.at(path.parent) as beside:
        if beside.kind(path.name) != "file" or form == "none":
            return False
        with beside.file(path.name) as file:
            return form is not None or file.read(2) == _GZIP


def is_tarball(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        if file.read(2) != _GZIP:
            return False
    try:
        with tarfile.open(path, "r|gz", tarinfo=_TarEntry) as tar:
            return tar.next() is not None
    except (*_BROKEN, OSError):
        return False


_FORMS: tuple[Form, ...] = ("none", "tar", "zip")


@dataclass(frozen=True, slots=True)
class _Packed:
    """What goes into an archive."""

    name: str
    mode: int
    file: IO[bytes] | None = None
    link: str = ""


def _entries(source: Path, name: str, take: Callable[[int], None] | None) -> Generator[_Packed, None, None]:
    """Yields the source and everything below it, by name only. Raises UnsafeFile for special files."""
    with Folder.at(source.parent) as beside:
        kind = beside.kind(source.name)
        if kind == "file":
            with beside.file(source.name) as file:
                status = os.fstat(file.fileno())
                if take is not None:
                    take(status.st_size)
                yield _Packed(name, stat.S_IMODE(status.st_mode) & 0o777, file)
            return
        if kind != "folder":
            raise UnsafeFile(ELOOP, "it is neither a file nor a folder")
        with beside.folder(source.name) as top:
            yield _Packed(name, stat.S_IMODE(os.fstat(top.descriptor).st_mode) & 0o777)
            for entry in top.walk():
                if take is not None:
                    take(entry.size if entry.kind == "file" else 0)
                yield from _entry(top, entry, f"{name}/{entry.name}")


def _entry(top: Folder, entry: Entry, name: str) -> Iterator[_Packed]:
    if entry.kind == "file":
        with top.file(entry.name) as file:
            yield _Packed(name, stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777, file)
        return
    head, _, last = entry.name.rpartition("/")
    if entry.kind == "folder":
        with top.folder(entry.name) as folder:
            yield _Packed(name, stat.S_IMODE(os.fstat(folder.descriptor).st_mode) & 0o777)
    elif entry.kind == "link":
        with top.folder(head) as above:
            yield _Packed(name, 0o777, link=os.readlink(last, dir_fd=above.descriptor))
    else:
        raise UnsafeFile(ELOOP, f'"{entry.name}" is neither a file, a folder nor a link')


def _pack_tar(entries: Iterator[_Packed], target: Path, level: int) -> None:
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=level, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for found in entries:
            entry = tarfile.TarInfo(found.name)
            entry.mode = found.mode
            if found.link:
                entry.type, entry.linkname = tarfile.SYMTYPE, found.link
            elif found.file is None:
                entry.type = tarfile.DIRTYPE
            else:
                entry.size = os.fstat(found.file.fileno()).st_size
            tar.addfile(entry, found.file)


def _pack_zip(entries: Iterator[_Packed], target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for found in entries:
            if found.file is None:
                continue
            entry = zipfile.ZipInfo(found.name, _ZIP_TIME)
            entry.external_attr = (found.mode | stat.S_IFREG) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as packed:
                shutil.copyfileobj(found.file, packed, _BLOCK)


class _TarEntry(tarfile.TarInfo):
    """A header of an archive whose author is not trusted."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and not 0 <= found.size <= _LONGEST_HEADER:
            raise ArtifactError("the archive has an entry with attributes of more than 1 MB; it was not unpacked")
        return found


def _extract(archive: Path, folder: Folder, form: Form, limits: Limits) -> None:
    allowance = _Allowance(limits.entries, limits.bytes_for(archive))
    if form == "zip":
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                _extract_zip(packed, entry, folder, allowance)
        return
    with archive.open("rb") as file:
        mode: Literal["r|gz", "r|"] = "r|gz" if file.read(2) == _GZIP else "r|"
    with tarfile.open(archive, mode, tarinfo=_TarEntry) as tar:
        for member in tar:
            _extract_tar(tar, member, folder, allowance)


class _Allowance:
    def __init__(self, entries: int, size: int) -> None:
        self._entries, self._size = entries, size

    def entry(self) -> None:
        self._entries -= 1
        if self._entries < 0:
            raise ArtifactError("the archive has too many entries; it was not unpacked")

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        """The size that an entry declares is not trusted."""
        while block := source.read(_BLOCK):
            self._size -= len(block)
            if self._size < 0:
                raise ArtifactError("the archive becomes too large when unpacked; it was not unpacked")
            target.write(block)


def _extract_tar(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Folder, allowance: _Allowance) -> None:
    allowance.entry()
    parts = _parts(member.name)
    if not parts:
        return
    if member.isdir():
        with _make_folder(folder, parts) as made:
            os.fchmod(made.descriptor, member.mode & 0o777 | 0o700)
        return
    with _make_folder(folder, parts[:-1]) as above:
        if member.issym():
            _check_link(parts, member.linkname)
            above.remove(parts[-1:])
            os.symlink(member.linkname, parts[-1], dir_fd=above.descriptor)
        elif member.islnk():
            other = _parts(member.linkname)
            if folder.kind(other) != "file":
                raise ArtifactError(
                    f'the archive links "{member.name}" to "{member.linkname}", which it does not contain'
                )
            with folder.folder(other[:-1]) as place:
                _link(place, other[-1], above, parts[-1])
        elif member.isreg():
            content = tar.extractfile(member)
            assert content is not None
            _write(above, parts[-1], content, member.mode & 0o777 | 0o400, allowance)
        else:
            raise ArtifactError(f'the archive contains "{member.name}", which is not a file, folder or link')


def _link(source: Folder, name: str, target: Folder, new_name: str) -> None:
    try:
        os.link(name, new_name, src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor, follow_symlinks=False)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        beneath.copy(source, name, target, new_name)  # the first version of Landlock refuses links between folders


def _extract_zip(packed: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Folder, allowance: _Allowance) -> None:
    allowance.entry()
    parts = _parts(entry.filename)
    if not parts:
        return
    kind, mode = stat.S_IFMT(entry.external_attr >> 16), (entry.external_attr >> 16) & 0o777
    if entry.is_dir():
        _make_folder(folder, parts).close()
    elif kind not in (0, stat.S_IFREG):
        raise ArtifactError(f'the archive contains "{entry.filename}", which is not a file or folder')
    elif entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArtifactError(f'the archive compresses "{entry.filename}" in a way that is not supported: use deflate')
    else:
        with _make_folder(folder, parts[:-1]) as above, packed.open(entry) as content:
            _write(above, parts[-1], content, mode or 0o644, allowance)


def _write(above: Folder, name: str, content: IO[bytes], mode: int, allowance: _Allowance) -> None:
    if above.kind(name) not in ("", "folder"):
        above.remove(name)
    with above.create(name) as file:
        allowance.copy(content, file)
        os.fchmod(file.fileno(), mode)


def _parts(name: str) -> tuple[str, ...]:
    """Returns the path of an entry; empty for the folder itself."""
    try:
        return beneath.split_name(name)
    except UnsafeName:
        raise ArtifactError(f'illegal file path: "{name}" leaves the artifact') from None


def _make_folder(folder: Folder, parts: tuple[str, ...]) -> Folder:
    if len(parts) > MOST_LEVELS:
        raise ArtifactError(f"the archive nests folders more than {MOST_LEVELS} levels deep; it was not unpacked")
    try:
        return folder.make_folders(parts)
    except (NotADirectoryError, UnsafeFile):
        raise ArtifactError(f'illegal file path: "{"/".join(parts)}" leaves the artifact through a link') from None


def _check_link(parts: tuple[str, ...], target: str) -> None:
    """`..` may only come first: after the name of another link, its target is unknown. The folders above the link are
    no links."""
    steps = PurePosixPath(target).parts
    ups = next((i for i, part in enumerate(steps) if part != ".."), len(steps))
    if target.startswith("/") or ".." in steps[ups:] or ups > len(parts) - 1 or "\0" in target:
        raise ArtifactError(f'illegal symlink target: "{"/".join(parts)}" -> "{target}"')
