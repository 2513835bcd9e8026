"""Namespaces and definitions that are being deleted are emptied first; old Events are deleted.

Every namespace gets a `default` service account.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store import status_rows
from muster.embedded.store.deletion import plan_deletion, without_finalizer
from muster.embedded.store.history import Change
from muster.embedded.store.store import Store
from muster.embedded.store.view import Transaction
from muster.embedded.store.write_hooks import CRD_FINALIZER, CRDS, NAMESPACES
from muster.embedded.store.writes import store_or_remove
from muster.kube.builtin import EVENT, NAMESPACE, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller, Informer
from muster.kube.errors import AlreadyExists, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    is_deleting,
    key_of,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    uid_of,
)

# Namespaces: each gets a `default` service account, and one that is being deleted is emptied
# first.


_PORTION = 200

DEFAULT_SERVICE_ACCOUNT = "default"
"""The service account of Pods that name no other."""


class DefaultServiceAccountController:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Controller[str] = Controller("default service account", self._ensure, workers=1)
        self._namespaces = Informer(cluster, NAMESPACE, on_change=self._namespace_changed)
        self._accounts = Informer(cluster, SERVICE_ACCOUNT, on_change=self._account_changed)

    async def run(self) -> None:
        async with self._accounts, self._namespaces:
            await self._queue.run()

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._queue.enqueue(name_of(after))

    def _account_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None and name_of(before) == DEFAULT_SERVICE_ACCOUNT:
            self._queue.enqueue(namespace_of(before))

    async def _ensure(self, namespace: str) -> None:
        found = self._namespaces.objects.get(Key("", namespace))
        if found is None or is_deleting(found) or self._accounts.get(namespace, DEFAULT_SERVICE_ACCOUNT) is not None:
            return
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT_SERVICE_ACCOUNT, "namespace": namespace},
        }
        try:
            await self._cluster.create(account)
        except AlreadyExists:
            return


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
        """Deletes what is not being deleted yet; when nothing is left, removes the finalizer.

        An object that takes time to delete enqueues the namespace again when it is gone."""
        namespace = self._store.get(NAMESPACES, Key("", name))
        if namespace is None or not is_deleting(namespace):
            return
        contents = False
        for resource in self._store.view.resources():
            bucket = self._store.view.in_namespace(resource, name)
            if bucket is None or not bucket.objects:
                continue
            contents = True
            keys = [Key(name, each) for each in bucket.objects]
            await _bulk_delete(
                self._store, self._cluster.catalogue.of_resource(resource), resource, keys, self._cluster.now()
            )
        if not contents:
            await self._store.write(lambda tx: self._finalize(tx, name))

    def _finalize(self, tx: Transaction, name: str) -> None:
        namespace = tx.get(NAMESPACES, Key("", name))
        kind = self._cluster.catalogue.of_resource(NAMESPACES)
        if namespace is None or kind is None or not is_deleting(namespace):
            return
        emptied: Object = {**namespace, "spec": {**spec_of(namespace), "finalizers": []}}
        if spec_of(namespace).get("finalizers"):
            store_or_remove(tx, kind, namespace, emptied)


# Deletes the objects of a kind whose CustomResourceDefinition is being deleted, then the
# definition.


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
            await _bulk_delete(self._store, kind, name, left, self._cluster.now())
            if left:
                return
        await self._store.write(lambda tx: self._remove_finalizer(tx, name))

    def _remove_finalizer(self, tx: Transaction, name: str) -> None:
        definition = tx.get(CRDS, Key("", name))
        kind = self._cluster.catalogue.of_resource(CRDS)
        if definition is not None and kind is not None and is_deleting(definition):
            store_or_remove(tx, kind, definition, without_finalizer(definition, CRD_FINALIZER))


# Deletes Events that are older than the settings allow.


def is_expired(event: Object, now: datetime, keep: timedelta) -> bool:
    """Whether an event last happened longer ago than `keep`."""
    last = event.get("lastTimestamp") or event.get("eventTime") or meta(event).get("creationTimestamp")
    return last is not None and now - parse_time(last) > keep


class EventExpiry:
    def __init__(self, cluster: Cluster, keep: timedelta = timedelta(hours=24), every: float = 300.0) -> None:
        self._cluster = cluster
        self._keep = keep
        self._every = every

    async def run(self) -> None:
        while True:
            await self.delete_expired(datetime.now(UTC))
            await asyncio.sleep(self._every)

    async def delete_expired(self, now: datetime) -> int:
        events = (await self._cluster.list(EVENT)).items
        old = [e for e in events if is_expired(e, now, self._keep)]
        for event in old:
            try:
                await self._cluster.delete(EVENT, name_of(event), namespace_of(event), uid=uid_of(event))
            except NotFound:
                continue
        return len(old)


async def _bulk_delete(store: Store, kind: Kind | None, resource: str, keys: Sequence[Key], now: datetime) -> None:
    """Deletes the objects that are not being deleted yet, in portions, so that other writes get their turn in between.
    Objects of an unknown kind (None) are removed at once."""

    def delete(tx: Transaction, portion: Sequence[Key]) -> None:
        for key in portion:
            obj = tx.get(resource, key)
            if obj is None or is_deleting(obj):
                continue
            plan = plan_deletion(kind, obj, "Background", None, now) if kind is not None else None
            if kind is None or plan is None:
                tx.remove(resource, obj)
            elif plan.remove:
                status_rows.remove_object(tx, kind, obj)
            else:
                store_or_remove(tx, kind, obj, plan.object)

    for start in range(0, len(keys), _PORTION):
        await store.write(partial(delete, portion=keys[start : start + _PORTION]))
