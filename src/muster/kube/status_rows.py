"""The `StatusRowsCluster` protocol: a cluster that stores a large map of a status as rows, one per entry.

`Kind.stored_as_rows` names the map, for example `status.nodes` of a Workflow. Writing one entry costs the same however
many there are, and reads come from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from muster.kube.cluster import Cluster
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object


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
