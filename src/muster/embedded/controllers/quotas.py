"""Counts what the objects of a namespace use of its ResourceQuotas, whenever something changes there."""

from __future__ import annotations

import asyncio

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.history import Change
from muster.embedded.store.quotas import QUOTAS, recount
from muster.kube.controller import Controller
from muster.kube.objects import spec_of, status_of

_DELAY = 0.05
"""Seconds for which changes are collected: counting looks at all objects of the namespace."""


class QuotaController:
    """Writes charge what they add themselves (`embedded/store/quotas.py`). This gives back what is no longer used, and
    sets right whatever differs from what is there."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._store = cluster.store
        self._queue: Controller[str] = Controller("quota", self._reconcile, workers=1)

    async def run(self) -> None:
        stop = self._store.listen(self._changed)
        try:
            for namespace in self._store.view.namespaces(QUOTAS):
                self._queue.enqueue(namespace)
            await self._queue.run()
        finally:
            stop()

    def _changed(self, resource: str, change: Change) -> None:
        namespace = change.key.namespace
        if not namespace or self._store.view.in_namespace(QUOTAS, namespace) is None:
            return
        if change.after is not None and change.before is not None and not _may_use_less(change):
            return
        self._queue.enqueue_after(namespace, _DELAY)

    async def _reconcile(self, namespace: str) -> None:
        await self._store.write(lambda tx: recount(tx, namespace))
        await asyncio.sleep(0)


def _may_use_less(change: Change) -> bool:
    """Whether an update can change what is used: another spec, or a Pod that has ended."""
    assert change.before is not None
    assert change.after is not None
    if spec_of(change.before) is not spec_of(change.after):
        return True
    return bool(status_of(change.before).get("phase") != status_of(change.after).get("phase"))
