"""Deletes the objects of a kind whose CustomResourceDefinition is being deleted, then the definition."""

from __future__ import annotations

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.bulk_delete import bulk_delete
from muster.embedded.store.deletion import without_finalizer
from muster.embedded.store.history import Change
from muster.embedded.store.view import Transaction
from muster.embedded.store.write_hooks import CRD_FINALIZER, CRDS
from muster.embedded.store.writes import store_or_remove
from muster.kube.controller import Controller
from muster.kube.objects import Key, is_deleting, key_of, name_of


class CrdController:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._work: Controller[str] = Controller("definitions", self._empty, workers=2)

    async def run(self) -> None:
        stop = self._store.listen(self._changed)
        try:
            for definition in self._store.view.objects(CRDS):
                if is_deleting(definition):
                    self._work.enqueue(name_of(definition))
            await self._work.run()
        finally:
            stop()

    def _changed(self, resource: str, change: Change) -> None:
        if resource == CRDS:
            if change.after is not None and is_deleting(change.after):
                self._work.enqueue(change.key.name)
        elif change.after is None and "." in resource:
            definition = self._store.get(CRDS, Key("", resource))
            if definition is not None and is_deleting(definition):
                self._work.enqueue(resource)

    async def _empty(self, name: str) -> None:
        """Deletes the objects of a definition, then the definition. Its name is the resource it defines.

        Objects of a kind that a package registered belong to the package, and stay."""
        definition = self._store.get(CRDS, Key("", name))
        if definition is None or not is_deleting(definition):
            return
        kind = self._cluster.catalogue.of_resource(name)
        if kind is not None and kind in self._cluster.custom_kinds.kinds_of(name):
            left = [key_of(obj) for obj in self._store.view.objects(name)]
            await bulk_delete(self._store, kind, name, left, self._cluster.now())
            if left:
                return
        await self._store.write(lambda tx: self._remove_finalizer(tx, name))

    def _remove_finalizer(self, tx: Transaction, name: str) -> None:
        definition = tx.get(CRDS, Key("", name))
        kind = self._cluster.catalogue.of_resource(CRDS)
        if definition is not None and kind is not None and is_deleting(definition):
            store_or_remove(tx, kind, definition, without_finalizer(definition, CRD_FINALIZER))
