"""The interface of an artifact store, and the simplest one: `raw` text in the manifest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from muster.workflows.artifacts.locations import ArtifactError, Location, kind_of

MOST_KEYS = 100_000
"""Keys in a list. They become a part of the workflow."""

SecretOf: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[str]]
"""Maps {name, key} of a Secret in the workflow's namespace to its value. Raises ArtifactError."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """How a store reaches the network."""

    for_member: bool = False
    """Nothing of the server is used: no credentials, no configuration, no files."""
    proxy: str = ""
    """The URL of the HTTP proxy that all connections of a member go through."""
    connect: str = ""
    """A program that connects ssh and git:// for a member: it gets the host and the port."""
    known_hosts: str = ""
    """The host keys that ssh trusts, for a member."""
    resolve: Callable[[str], Awaitable[str]] | None = None
    """Returns a URL of plain HTTP with the address of a Pod if it names a Service of the cluster."""


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


def check_keys(keys: list[str]) -> list[str]:
    """Raises ArtifactError if there are too many to be listed."""
    if len(keys) > MOST_KEYS:
        raise ArtifactError(f"there are more than {MOST_KEYS} keys: name a longer prefix")
    return keys


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


def open_store(location: Location, secret_of: SecretOf, access: StoreAccess = StoreAccess()) -> ArtifactStore:
    """Opens the store of a location outside of the local repository. Stores are imported when they are needed."""
    match kind_of(location):
        case "raw":
            return RawStore()
        case "s3" | "gcs" | "azure" | "oss":
            from muster.workflows.artifacts.object_store import ObjectArtifactStore

            return ObjectArtifactStore(secret_of, access)
        case "http" | "artifactory":
            from muster.workflows.artifacts.http_store import HttpStore

            return HttpStore(secret_of, access)
        case "git":
            from muster.workflows.artifacts.git_store import GitStore

            return GitStore(secret_of, access)
        case "hdfs":
            raise ArtifactError(
                "hdfs artifacts are not supported here. To fetch one, use an http artifact and WebHDFS: "
                "http: {url: http://NAMENODE:9870/webhdfs/v1/PATH?op=OPEN}; to store one, use s3, gcs or azure"
            )
        case "plugin":
            raise ArtifactError(
                "artifact plugins are not supported here: use s3, gcs, azure, oss, http, artifactory or git"
            )
        case kind:
            raise ArtifactError(f"there is no store for {kind or 'an artifact without a location'}")
