"""The `Cluster` protocol: the interface of the embedded cluster and of a real one.

Two more protocols say what only the embedded cluster can do. `StatusRowsCluster` stores a large map of a status as
rows, one per entry: `Kind.stored_as_rows` names the map, for example `status.nodes` of a Workflow. Writing one entry
costs the same however many there are, and reads come from memory. `NodeFiles` is what a node keeps of its Pods'
containers besides their status; the server hands it to those who collect outputs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from muster.kube.kinds import Catalogue, Kind
from muster.kube.objects import Key, Object

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
    controller: str = ""
    """The uid of the object that controls the Pod, or controlled it. The log of another Pod of that name, perhaps a
    deleted one, is not found."""


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


@runtime_checkable
class StatusRowsCluster(Cluster, Protocol):
    def peek(self, kind: Kind, key: Key) -> Object | None:
        """Returns an object from memory, without its rows; None if it does not exist."""
        ...

    def status_rows(self, kind: Kind, uid: str) -> dict[str, Any]:
        """Returns the rows of an object: the entries of its map."""
        ...

    async def write_status_rows(
        self,
        kind: Kind,
        obj: Object,
        changed: Mapping[str, Any],
        *,
        update: Object | None = None,
        rebase: Callable[[Object, dict[str, Any]], Object | None] | None = None,
    ) -> Object:
        """Writes rows of `obj` and, with `update`, the object itself, in one transaction. Watchers are notified only
        if the object is written.

        If the object has changed since `obj` was read, `rebase` gets the current object and its rows, and returns the
        update to write (the object itself for none). Raises Conflict if it returns None or is missing.
        """
        ...

    def with_status_rows(self, obj: Object, kind: Kind | None = None) -> Object:
        """Returns the object with its map, as clients see it."""
        ...


class NodeFilesError(Exception):
    """The output files of a container could not be copied. The message says why."""


class NodeFiles(Protocol):
    """Files of running and finished containers. All calls may read from the disk."""

    def output(self, pod: Object, container: str, index: int) -> Path | None:
        """Returns the copy of the container's path with this index in its keep-files annotation, or None if there was
        nothing to copy. Raises NodeFilesError if copying failed."""
        ...

    def outputs_written_at(self, pod: Object, container: str) -> int:
        """Returns when the container's outputs were copied, in nanoseconds; 0 if they were not."""
        ...

    def last_output(self, pod: Object, container: str, limit: int) -> bytes:
        """Returns the end of what the container's last attempt wrote to stdout, at most `limit` bytes."""
        ...

    def write_log(self, pod: Object, container: str, target: Path) -> None:
        """Writes what is left of the log of the container's last attempt to a file."""
        ...

    def log_owners(self, kind: str) -> set[tuple[str, str]]:
        """Returns the namespaces and uids of the objects of a kind whose Pods have logs, also of deleted Pods."""
        ...

    def drop_logs(self, kind: str, owners: Collection[str]) -> None:
        """Deletes the logs of all Pods that the objects with these uids controlled."""
        ...

    def scratch_folder(self, pod: Object, container: str) -> str:
        """Returns the folder that a container sees as its /tmp."""
        ...

    def volume_folder(self, pod: Object, volume: str) -> str:
        """Returns the folder of an emptyDir volume on the disk."""
        ...

    def nfs_folder(self, server: str, path: str) -> str:
        """Returns the folder where an NFS share is mounted; '' if it is not."""
        ...

    def is_own(self, folder: str) -> bool:
        """Whether a folder belongs to the node, which stores the files of Pods there with the ids of their users. In
        all others, the user of a Pod stands for the owner of the folder."""
        ...


# Annotations by which a Pod asks the embedded node agent for more than Kubernetes' own
# fields can express.
#
# muster.dev/keep-files: {"main": ["/tmp/out.txt", "/model"]}
# The paths are copied when the container has ended, and the copies are kept as long as the Pod object exists; see
# `muster.kube.cluster`. The container may write these paths wherever they are: only it sees them, and the
# machine's own files do not change.
# muster.dev/pip-install: [["pandas==2.2.0"], ["kfp==2.17.0", "--no-deps"]]
# The container begins with these `pip install` commands. It may start in an environment that has all this already, and
# where pip then returns at once; see `muster.embedded.node.python_environments`.
# muster.dev/builds-environment: "3f0c..."
# The Pod builds the environment with this key. The agent itself creates such Pods.
# muster.dev/containers: {"leading": ["a", "b"], "after": {"b": ["a"]}, "retries": 1, "retrySeconds": 0.5}
# The Pod ends when its leading containers have ended or one of them has failed. A container starts when those in
# its `after` have succeeded.
# muster.dev/stop: "30"
# Stops the containers with so many seconds of grace, and keeps the Pod object.


KEEP_FILES_ANNOTATION = "muster.dev/keep-files"
PIP_INSTALL_ANNOTATION = "muster.dev/pip-install"
BUILD_ENVIRONMENT_ANNOTATION = "muster.dev/builds-environment"
CONTAINERS_ANNOTATION = "muster.dev/containers"
STOP_ANNOTATION = "muster.dev/stop"
