"""The `Cluster` protocol: the interface of the embedded cluster and of a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from muster.kube.kinds import Catalogue, Kind
from muster.kube.objects import Object

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
PatchType: TypeAlias = Literal["merge", "json", "strategic", "apply"]
Subresource: TypeAlias = Literal["", "status", "scale"]


class WatchEvent(NamedTuple):
    """A change. A DELETED event carries the last state; a BOOKMARK only a resourceVersion."""

    type: EventType
    object: Object


class Listing(NamedTuple):
    """A page of objects as of one resourceVersion. `continue_` requests the next page; '' means there is none."""

    items: list[Object]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None


class Endpoint(NamedTuple):
    """Where a Pod's port can be reached from another Pod."""

    host: str
    """A name that resolves in the Pod's namespace, or an address."""
    port: int
    domain: str = ""
    """The rest of a name, such as `.default.svc`. An address has none."""

    @property
    def full_host(self) -> str:
        return self.host + self.domain

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The part of a container's log to return, with the options of `kubectl logs`."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: float | None = None
    limit_bytes: int | None = None


class Process(Protocol):
    """A command running inside a container, started by `exec`."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yields its output as (1 for stdout or 2 for stderr, bytes) until both are closed."""
        ...

    async def write(self, data: bytes) -> None:
        """Writes to its stdin; b'' closes it."""
        ...

    async def resize(self, rows: int, columns: int) -> None: ...

    async def wait(self) -> int:
        """Returns its exit code (128 + the signal if a signal ended it)."""
        ...

    async def close(self) -> None:
        """Ends it if it still runs."""
        ...


class Cluster(Protocol):
    """Objects in, objects out. Returned objects are read-only. Every method raises `muster.kube.errors.ApiError`."""

    @property
    def catalogue(self) -> Catalogue: ...

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object: ...

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object: ...

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
    ) -> Listing:
        """Lists objects; an empty namespace means all namespaces."""
        ...

    def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Yields the changes after `resource_version`; without one, first an ADDED event for every existing object.
        Raises Gone if the version is too old. Ends only when the consumer stops or the connection is lost."""
        ...

    async def update(self, obj: Object, *, subresource: Subresource = "", dry_run: bool = False) -> Object:
        """Replaces the object. If it has a resourceVersion, raises Conflict if the object has changed since."""
        ...

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch: Object | Sequence[Object],
        *,
        type: PatchType = "merge",
        subresource: Subresource = "",
        field_manager: str = "muster",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Patches the object. `apply` creates it if it is missing."""
        ...

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> Object:
        """Returns the object as it was before the call, or as it is while finalizers or the node hold it."""
        ...

    def logs(self, pod: str, namespace: str, query: LogQuery = LogQuery()) -> AsyncIterator[bytes]: ...

    async def exec(
        self,
        pod: str,
        namespace: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> Process: ...

    async def endpoint(self, pod: str, namespace: str, port: int, *, owner: Object, attempt: int = 0) -> Endpoint:
        """Returns where a Pod of that name will listen for its `port`; the Pod need not exist yet. On a real cluster
        this is its Service's DNS name and the same port. In the embedded cluster, where all Pods share one network, it
        is a port of its own, which is reserved until `owner` is deleted. Another `attempt` gets another port: a port
        that was just used may not be bound again for a minute."""
        ...
