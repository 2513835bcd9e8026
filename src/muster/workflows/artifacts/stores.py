"""The interface of an artifact store, and the two stores that need no server: a local folder, and `raw` text in
the manifest.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import IO, Any, Protocol, TypeAlias

from muster.workflows.artifacts.archives import walk
from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing, Location

SecretOf: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[str]]
"""Maps {name, key} of a Secret in the workflow's namespace to its value. Raises ArtifactError."""


class ArtifactStore(Protocol):
    """A store for one kind of location. Raises ArtifactError, or ArtifactMissing if nothing is there."""

    async def load(self, location: Location, target: Path) -> None:
        """Fetches a file or folder to `target`, which does not exist yet."""
        ...

    async def save(self, source: Path, location: Location) -> None:
        """Stores a file or folder; may move it away from `source`."""
        ...

    async def delete(self, location: Location) -> None:
        """Deletes the key, or the whole folder that it stands for. Does nothing if it does not exist."""
        ...

    async def keys(self, location: Location) -> list[str]:
        """Returns all keys below the location."""
        ...

    def read(self, location: Location) -> AsyncIterator[bytes]:
        """Reads the content of a file."""
        ...


class ReadOnlyStore:
    """Base of stores that artifacts can only be fetched from."""

    what = "such artifacts"

    async def save(self, source: Path, location: Location) -> None:
        raise ArtifactError(f"{self.what} cannot be saved to: give the output artifact another location, or a key")

    async def delete(self, location: Location) -> None:
        raise ArtifactError(f"{self.what} cannot be deleted")

    async def keys(self, location: Location) -> list[str]:
        raise ArtifactError(f"{self.what} cannot be listed")


class RawStore(ReadOnlyStore):
    what = "raw artifacts"

    async def load(self, location: Location, target: Path) -> None:
        target.write_bytes(_data(location))

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        yield _data(location)


def _data(location: Location) -> bytes:
    return str(location["raw"].get("data") or "").encode()


_COMING = ".coming-"


class LocalStore:
    """The local repository of one namespace. Files and folders appear under their key atomically."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, key: str) -> Path:
        parts = PurePosixPath(key.lstrip("/")).parts
        if not parts or ".." in parts or any(part.startswith(_COMING) for part in parts):
            raise ArtifactError(f'"{key}" is not a valid key: write a path without ".."')
        return self.folder.joinpath(*parts)

    def load(self, key: str, target: Path) -> None:
        source = self.place(key)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.is_file():
            shutil.copyfile(source, target)
        else:
            raise _missing(key)

    def open(self, key: str) -> IO[bytes]:
        place = self.place(key)
        if place.is_dir():
            raise ArtifactError(f'"{key}" is a folder: read its files one by one')
        try:
            return place.open("rb")
        except OSError:
            raise _missing(key) from None

    def save(self, source: Path, key: str) -> None:
        """Moves the source if both are on one file system, else copies it."""
        target = self.place(key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ArtifactError(f'"{key}" cannot be stored: a prefix of it is the key of another artifact') from None
        if target.is_dir() and not source.is_dir():
            raise ArtifactError(f'"{key}" cannot be a file: it is a prefix of the keys of other artifacts')
        coming = Path(mkdtemp(prefix=_COMING, dir=target.parent))
        try:
            shutil.move(source, coming / "it")
            if target.is_dir():
                target.rename(coming / "old")
            (coming / "it").replace(target)
        finally:
            shutil.rmtree(coming, ignore_errors=True)

    def delete(self, key: str) -> None:
        """Deletes the key if it exists, and the folders that become empty."""
        place = self.place(key)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            with suppress(FileNotFoundError, NotADirectoryError):
                place.unlink()
        with suppress(OSError):
            for parent in place.parents:
                if parent == self.folder:
                    return
                parent.rmdir()

    def keys(self, prefix: str) -> Iterator[str]:
        """Returns this key and all below it."""
        folder = self.place(prefix) if prefix.strip("/") else self.folder
        if folder.is_file():
            yield prefix.strip("/")
        if not folder.is_dir():
            return
        above = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        for inside, path in walk(folder):
            if path.is_file() and _COMING not in inside:
                yield f"{above}{inside}"


def _missing(key: str) -> ArtifactMissing:
    return ArtifactMissing(f'the artifact repository contains nothing under "{key}"')
