"""The interface of an artifact store, and the simplest one: `raw` text in the manifest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from muster.workflows.artifacts.errors import ArtifactError
from muster.workflows.artifacts.locations import Location

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
