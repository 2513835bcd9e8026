"""The local repository: a folder for each namespace.

Keys come from users, and so do the folders that are stored under them, with the links in these folders. No link is
ever followed (`muster.kube.beneath`): a link is content, as in a tar archive.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO

from muster.kube import beneath
from muster.kube.beneath import TEMPORARY, Folder, UnsafeFile, UnsafeName
from muster.kube.file_names import path_component
from muster.workflows.artifacts.errors import ArtifactError, ArtifactMissing
from muster.workflows.artifacts.locations import Location, key_of
from muster.workflows.artifacts.stores import MOST_KEYS, check_keys
from muster.workflows.artifacts.threads import ArtifactThreads

_BLOCK = 1 << 16
_TRIES = 5
_LONGEST_SHOWN = 300
_NOT_THERE = (FileNotFoundError, NotADirectoryError, UnsafeFile)


class LocalFolder:
    """The repository of one namespace. Files and folders appear under their key atomically. All calls block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str, target: Path) -> None:
        """Copies what the key holds to `target`, which does not exist yet."""
        parts = split_key(key)
        with _translate_errors(key), self._root() as root, Folder.at(target.parent) as beside:
            if root.kind(parts) not in ("file", "folder"):
                raise _missing(key)
            beneath.copy(root, "/".join(parts), beside, target.name)

    def open(self, key: str) -> IO[bytes]:
        parts = split_key(key)
        with _translate_errors(key), self._root() as root:
            if root.kind(parts) == "folder":
                raise ArtifactError(f'"{key}" is a folder: read its files one by one')
            return root.file(parts)

    def save(self, source: Path, key: str) -> None:
        """Moves the source if both are on one file system, else copies it."""
        *above, name = split_key(key)
        self.folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(_TRIES):
            try:
                with _translate_errors(key), self._root() as root, self._make_folders(root, above, key) as parent:
                    _replace(source, parent, name, key)
                return
            except ArtifactMissing:  # a folder became empty and was deleted meanwhile
                if attempt == _TRIES - 1:
                    raise

    def delete(self, key: str) -> None:
        """Deletes the key if it exists, and the folders that become empty."""
        parts = split_key(key)
        with _translate_errors(key), suppress(ArtifactMissing, *_NOT_THERE), self._root() as root:
            root.remove(parts)
            with suppress(OSError):  # it is not empty
                for depth in range(len(parts) - 1, 0, -1):
                    with root.folder(parts[: depth - 1]) as above:
                        os.rmdir(parts[depth - 1], dir_fd=above.descriptor)

    def keys(self, prefix: str) -> Iterator[str]:
        """Returns this key and all below it."""
        parts = split_key(prefix) if prefix.strip("/") else ()
        with _translate_errors(prefix), suppress(*_NOT_THERE), self._root() as root:
            if root.kind(parts) == "file":
                yield "/".join(parts)
                return
            for entry in root.walk(parts):
                if entry.kind == "file" and TEMPORARY not in entry.name:
                    yield "/".join((*parts, entry.name))

    def _root(self) -> Folder:
        return Folder.at(self.folder)

    def _make_folders(self, root: Folder, parts: list[str], key: str) -> Folder:
        try:
            return root.make_folders(parts)
        except (NotADirectoryError, UnsafeFile):
            raise ArtifactError(f'"{key}" cannot be stored: a prefix of it is the key of another artifact') from None


class LocalStore:
    """The same as an `ArtifactStore`, in threads, so that the event loop is not blocked."""

    def __init__(self, folder: Path, namespace: str, threads: ArtifactThreads) -> None:
        self._folder, self._namespace, self._threads = (
            LocalFolder(folder / path_component(namespace)),
            namespace,
            threads,
        )

    async def load(self, location: Location, target: Path) -> None:
        await self._threads.run(self._namespace, self._folder.load, key_of(location), target)

    async def save(self, source: Path, location: Location) -> None:
        await self._threads.run(self._namespace, self._folder.save, source, key_of(location))

    async def delete(self, location: Location) -> None:
        await self._threads.run(self._namespace, self._folder.delete, key_of(location))

    async def keys(self, location: Location) -> list[str]:
        found = islice(self._folder.keys(key_of(location)), MOST_KEYS + 1)
        return check_keys(await self._threads.run(self._namespace, lambda: list(found)))

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        with await asyncio.to_thread(self._folder.open, key_of(location)) as file:
            while block := await asyncio.to_thread(file.read, _BLOCK):
                yield block


def split_key(key: str) -> tuple[str, ...]:
    """Returns the parts of a key. Raises ArtifactError."""
    try:
        parts = beneath.split_name(key.lstrip("/"))
    except UnsafeName:
        parts = ()
    if not parts or any(part.startswith(TEMPORARY) for part in parts):
        raise ArtifactError(f'"{_shown(key)}" is not a valid key: write a path without ".."')
    return parts


def _replace(source: Path, parent: Folder, name: str, key: str) -> None:
    with Folder.at(source.parent) as beside:
        kind = parent.kind(name)
        if kind == "folder" and beside.kind(source.name) != "folder":
            raise ArtifactError(f'"{key}" cannot be a file: it is a prefix of the keys of other artifacts')
        coming = parent.temporary()
        try:
            with parent.folder(coming) as new:
                beneath.move(beside, source.name, new, "it")
                if kind == "folder":
                    os.rename(name, "old", src_dir_fd=parent.descriptor, dst_dir_fd=new.descriptor)
                os.replace("it", name, src_dir_fd=new.descriptor, dst_dir_fd=parent.descriptor)
        finally:
            parent.remove(coming)


@contextmanager
def _translate_errors(key: str) -> Iterator[None]:
    """Errors for users never name a path of this machine."""
    try:
        yield
    except _NOT_THERE:
        raise _missing(key) from None
    except OSError as error:
        raise ArtifactError(f'"{_shown(key)}": {error.strerror or "the operating system refused it"}') from None


def _missing(key: str) -> ArtifactMissing:
    return ArtifactMissing(f'the artifact repository contains nothing under "{_shown(key)}"')


def _shown(key: str) -> str:
    return key if len(key) <= _LONGEST_SHOWN else f"{key[:_LONGEST_SHOWN]}..."
