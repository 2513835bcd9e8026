"""Packs artifacts deterministically, and unpacks archives from untrusted sources safely."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, TypeAlias

from muster.workflows.artifacts.locations import ArtifactError

Form: TypeAlias = Literal["none", "tar", "zip"]

_GZIP = b"\x1f\x8b"
_LEVEL = 6
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_BLOCK = 1 << 20
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


def pack(source: Path, name: str, target: Path, artifact: Mapping[str, Any]) -> None:
    """Packs a file or folder under the name it has in the container."""
    if form_of(artifact) == "zip":
        _pack_zip(source, name, target)
        return
    level = ((artifact.get("archive") or {}).get("tar") or {}).get("compressionLevel")
    _pack_tar(source, name, target, _LEVEL if level is None or int(level) < 0 else int(level))


def unpack(archive: Path, target: Path, form: Form | None, limits: Limits = Limits()) -> None:  # noqa: B008
    """Unpacks an archive to `target`: its only entry, or a folder with all entries.

    Without a form, a compressed tar archive is unpacked and anything else is the artifact itself. The archive is
    deleted. Raises ArtifactError for an archive that would write or link outside the target, or that exceeds the
    limits.
    """
    if form is None:
        form = "tar" if is_tarball(archive) else "none"
    if form == "none" or archive.is_dir():
        archive.rename(target)
        return
    folder = target.with_name(f"{target.name}.unpacked")
    folder.mkdir()
    try:
        _extract(archive, folder, form, limits)
        entries = list(folder.iterdir())
        (entries[0] if len(entries) == 1 else folder).rename(target)
    except _BROKEN as error:
        raise ArtifactError(f"the {form} archive is broken: {error}") from None
    finally:
        if folder.exists():
            shutil.rmtree(folder)
    archive.unlink()


def is_tarball(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        if file.read(2) != _GZIP:
            return False
    try:
        with tarfile.open(path, "r|gz") as tar:
            return tar.next() is not None
    except (*_BROKEN, OSError):
        return False


def walk(source: Path) -> Iterator[tuple[str, Path]]:
    """Yields everything below a folder, ordered by name only."""
    pending = [("", source)]
    while pending:
        prefix, folder = pending.pop()
        below = []
        for path in sorted(folder.iterdir(), key=lambda p: p.name):
            inside = f"{prefix}{path.name}"
            yield inside, path
            if path.is_dir() and not path.is_symlink():
                below.append((f"{inside}/", path))
        pending += reversed(below)


_FORMS: tuple[Form, ...] = ("none", "tar", "zip")


def _pack_tar(source: Path, name: str, target: Path, level: int) -> None:
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=level, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add_to_tar(tar, source, name)
        if source.is_dir():
            for inside, path in walk(source):
                _add_to_tar(tar, path, f"{name}/{inside}")


def _add_to_tar(tar: tarfile.TarFile, path: Path, name: str) -> None:
    status = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.mode = stat.S_IMODE(status.st_mode)
    if path.is_symlink():
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
        tar.addfile(entry)
    elif path.is_dir():
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
    else:
        entry.size = status.st_size
        with path.open("rb") as file:
            tar.addfile(entry, file)


def _pack_zip(source: Path, name: str, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        entries = [(name, source)]
        if source.is_dir():
            entries = [(f"{name}/{inside}", path) for inside, path in walk(source)]
        for inside, path in entries:
            if path.is_symlink() or path.is_dir():
                continue
            entry = zipfile.ZipInfo(inside, _ZIP_TIME)
            entry.external_attr = (stat.S_IMODE(path.stat().st_mode) | stat.S_IFREG) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with path.open("rb") as file, archive.open(entry, "w", force_zip64=True) as packed:
                shutil.copyfileobj(file, packed, _BLOCK)


def _extract(archive: Path, folder: Path, form: Form, limits: Limits) -> None:
    allowance = _Allowance(limits.entries, limits.bytes_for(archive))
    if form == "zip":
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                _extract_zip(packed, entry, folder, allowance)
        return
    with archive.open("rb") as file:
        mode: Literal["r|gz", "r|"] = "r|gz" if file.read(2) == _GZIP else "r|"
    with tarfile.open(archive, mode) as tar:
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


def _extract_tar(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, allowance: _Allowance) -> None:
    allowance.entry()
    place = _place(folder, member.name)
    if place is None:
        return
    if member.isdir():
        _make_folder(folder, place)
        place.chmod(member.mode & 0o777 | 0o700)
    elif member.issym():
        _make_folder(folder, place.parent)
        _check_link(folder, place, member.linkname)
        place.symlink_to(member.linkname)
    elif member.islnk():
        other = _place(folder, member.linkname)
        _make_folder(folder, place.parent)
        if other is None or other.is_symlink() or not other.is_file() or not _is_inside(folder, other.parent):
            raise ArtifactError(f'the archive links "{member.name}" to "{member.linkname}", which it does not contain')
        os.link(other, place, follow_symlinks=False)
    elif member.isreg():
        content = tar.extractfile(member)
        assert content is not None
        _write(folder, place, content, member.mode & 0o777 | 0o400, allowance)
    else:
        raise ArtifactError(f'the archive contains "{member.name}", which is not a file, folder or link')


def _extract_zip(packed: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, allowance: _Allowance) -> None:
    allowance.entry()
    place = _place(folder, entry.filename)
    if place is None:
        return
    kind, mode = stat.S_IFMT(entry.external_attr >> 16), (entry.external_attr >> 16) & 0o777
    if entry.is_dir():
        _make_folder(folder, place)
    elif kind not in (0, stat.S_IFREG):
        raise ArtifactError(f'the archive contains "{entry.filename}", which is not a file or folder')
    else:
        with packed.open(entry) as content:
            _write(folder, place, content, mode or 0o644, allowance)


def _write(folder: Path, place: Path, content: IO[bytes], mode: int, allowance: _Allowance) -> None:
    _make_folder(folder, place.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    place.unlink(missing_ok=True)
    with os.fdopen(os.open(place, flags, 0o600), "wb") as file:
        allowance.copy(content, file)
        os.fchmod(file.fileno(), mode)


def _place(folder: Path, name: str) -> Path | None:
    """Returns the path of an entry, or None for the folder itself."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise ArtifactError(f'illegal file path: "{name}" leaves the artifact')
    return folder.joinpath(*parts) if parts else None


def _make_folder(folder: Path, place: Path) -> None:
    if not _is_inside(folder, place):
        raise ArtifactError(f'illegal file path: "{place.relative_to(folder)}" leaves the artifact through a link')
    place.mkdir(parents=True, exist_ok=True)


def _check_link(folder: Path, place: Path, target: str) -> None:
    """`..` may only come first: after the name of another link, its target is unknown."""
    parts = PurePosixPath(target).parts
    ups = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    leads_to = os.path.normpath(f"{os.path.realpath(place.parent)}/{target}")
    if target.startswith("/") or ".." in parts[ups:] or not _below(os.path.realpath(folder), leads_to):
        raise ArtifactError(f'illegal symlink target: "{place.relative_to(folder)}" -> "{target}"')


def _is_inside(folder: Path, place: Path) -> bool:
    return _below(os.path.realpath(folder), os.path.realpath(place))


def _below(root: str, path: str) -> bool:
    return path == root or path.startswith(f"{root}/")
