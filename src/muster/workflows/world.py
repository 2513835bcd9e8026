"""What the engine may look at, read from the embedded cluster's memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from muster.embedded.store import Store
from muster.kube.builtin import CONFIG_MAP
from muster.kube.objects import Key, Object
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW_TEMPLATE
from muster.workflows.model import Locks


class StoreWorld:
    """As of now, for one namespace."""

    def __init__(self, store: Store, namespace: str, locks: Locks) -> None:
        self._store = store
        self._namespace = namespace
        self._locks = locks
        self._now = datetime.now(UTC)

    @property
    def now(self) -> datetime:
        return self._now

    @property
    def locks(self) -> Locks:
        return self._locks

    def config_map(self, name: str) -> Mapping[str, str] | None:
        found = self._store.get(CONFIG_MAP.resource, Key(self._namespace, name))
        return None if found is None else found.get("data") or {}

    def template(self, name: str, *, cluster_scope: bool) -> Object | None:
        kind = CLUSTER_WORKFLOW_TEMPLATE if cluster_scope else WORKFLOW_TEMPLATE
        return self._store.get(kind.resource, Key("" if cluster_scope else self._namespace, name))
