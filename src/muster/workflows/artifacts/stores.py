"""Which store holds an artifact, and what is asked of any store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from muster.workflows.artifacts.locations import Location
from muster.workflows.artifacts.problems import ArtifactError

SecretOf: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[str]]
"""{name, key} of a Secret in the workflow's namespace -> what it holds. Raises ArtifactError."""


class Store(Protocol):
    """Of one kind of location. Raises ArtifactError, with ArtifactMissing where nothing is."""

    async def load(self, location: Location, target: Path) -> None:
        """Fetches a file, or a folder, to `target`, which does not exist yet."""
        ...

    async def save(self, source: Path, location: Location) -> None:
        """Keeps a file or a folder; may take it away from where it was."""
        ...

    async def delete(self, location: Location) -> None:
        """Also the whole folder that a key stands for. Content if nothing is there."""
        ...

    async def keys(self, location: Location) -> list[str]:
        """All keys below a location's."""
        ...

    def read(self, location: Location) -> AsyncIterator[bytes]:
        """A file's content."""
        ...


class ReadOnlyStore:
    """What stores have in common that only things of other people can be fetched from."""

    what = "such artifacts"

    async def save(self, source: Path, location: Location) -> None:
        raise ArtifactError(f"{self.what} cannot be saved to: give the output artifact another location, or a key")

    async def delete(self, location: Location) -> None:
        raise ArtifactError(f"{self.what} cannot be deleted")

    async def keys(self, location: Location) -> list[str]:
        raise ArtifactError(f"{self.what} cannot be listed")
