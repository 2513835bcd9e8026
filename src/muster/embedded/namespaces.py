"""Empties namespaces that are being deleted, then lets them go."""

from __future__ import annotations

from muster.embedded.clearing import clear
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.history import Change
from muster.embedded.special import NAMESPACES
from muster.embedded.transaction import Transaction
from muster.embedded.writes import finish
from muster.kube.controller import Controller
from muster.kube.objects import Key, Object, is_deleting, name_of, spec_of


class NamespaceController:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._work: Controller[str] = Controller("namespaces", self._empty, workers=4)

    async def run(self) -> None:
        stop = self._store.listen(self._changed)
        try:
            for namespace in self._store.view.objects(NAMESPACES):
                if is_deleting(namespace):
                    self._work.enqueue(name_of(namespace))
            await self._work.run()
        finally:
            stop()

    def _changed(self, resource: str, change: Change) -> None:
        if resource == NAMESPACES:
            if change.after is not None and is_deleting(change.after):
                self._work.enqueue(change.key.name)
        elif change.after is None and change.key.namespace:
            namespace = self._store.get(NAMESPACES, Key("", change.key.namespace))
            if namespace is not None and is_deleting(namespace):
                self._work.enqueue(change.key.namespace)

    async def _empty(self, name: str) -> None:
        """One look: deletes what is not being deleted yet, or finalizes. What is slow to go calls back by going."""
        namespace = self._store.get(NAMESPACES, Key("", name))
        if namespace is None or not is_deleting(namespace):
            return
        contents = False
        for resource in self._store.view.resources():
            shelf = self._store.view.shelf(resource, name)
            if shelf is None or not shelf.objects:
                continue
            contents = True
            keys = [Key(name, each) for each in shelf.objects]
            await clear(self._store, self._cluster.catalogue.of_resource(resource), resource, keys, self._cluster.now())
        if not contents:
            await self._store.write(lambda tx: self._finalize(tx, name))

    def _finalize(self, tx: Transaction, name: str) -> None:
        namespace = tx.get(NAMESPACES, Key("", name))
        kind = self._cluster.catalogue.of_resource(NAMESPACES)
        if namespace is None or kind is None or not is_deleting(namespace):
            return
        emptied: Object = {**namespace, "spec": {**spec_of(namespace), "finalizers": []}}
        if spec_of(namespace).get("finalizers"):
            finish(tx, kind, namespace, emptied)
