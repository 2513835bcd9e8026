"""Empties namespaces that are being deleted, then lets them go."""

from __future__ import annotations

from itertools import islice

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.deletion import decide
from muster.embedded.history import Change
from muster.embedded.special import NAMESPACES
from muster.embedded.transaction import Transaction
from muster.embedded.writes import finish
from muster.kube.controller import Controller
from muster.kube.objects import Key, Object, is_deleting, name_of, spec_of

AT_ONCE = 200


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
            names = iter([each for each, obj in shelf.objects.items() if not is_deleting(obj)])
            while some := list(islice(names, AT_ONCE)):
                await self._delete(resource, [Key(name, each) for each in some])
        if not contents:
            await self._store.write(lambda tx: self._finalize(tx, name))

    async def _delete(self, resource: str, keys: list[Key]) -> None:
        kind = self._cluster.catalogue.of_resource(resource)

        def delete(tx: Transaction) -> None:
            for key in keys:
                obj = tx.get(resource, key)
                if obj is None:
                    continue
                # Of a kind that nobody knows any more, nobody holds anything.
                verdict = decide(kind, obj, "Background", None, self._cluster.now()) if kind is not None else None
                if kind is None or verdict is None or verdict.remove:
                    tx.remove(resource, obj)
                else:
                    finish(tx, kind, obj, verdict.object)

        await self._store.write(delete)

    def _finalize(self, tx: Transaction, name: str) -> None:
        namespace = tx.get(NAMESPACES, Key("", name))
        kind = self._cluster.catalogue.of_resource(NAMESPACES)
        if namespace is None or kind is None or not is_deleting(namespace):
            return
        emptied: Object = {**namespace, "spec": {**spec_of(namespace), "finalizers": []}}
        if spec_of(namespace).get("finalizers"):
            finish(tx, kind, namespace, emptied)
