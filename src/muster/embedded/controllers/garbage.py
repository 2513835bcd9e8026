"""Garbage collection, as kube-controller-manager does it: deletes objects whose owners are gone, and owners that waited
for their dependents; empties namespaces and definitions that are being deleted; deletes old Events.

Every namespace gets a `default` service account and the certificate of the API.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.settings import ApiAccess
from muster.embedded.store import status_rows
from muster.embedded.store.deletion import FOREGROUND, ORPHAN, plan_deletion, without_finalizer
from muster.embedded.store.history import Change
from muster.embedded.store.store import Store
from muster.embedded.store.view import ResourceKey, Transaction, is_packed
from muster.embedded.store.write_hooks import CONTENTS_FINALIZER, CRD_FINALIZER, CRDS, NAMESPACES, PODS
from muster.embedded.store.writes import store_or_remove
from muster.kube.builtin import CONFIG_MAP, EVENT, NAMESPACE, SERVICE, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster, Propagation
from muster.kube.controller import Controller, Informer
from muster.kube.errors import AlreadyExists
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    is_deleting,
    key_of,
    meta,
    name_of,
    namespace_of,
    owners_of,
    parse_time,
    set_condition,
    spec_of,
    split_api_version,
    status_of,
    timestamp,
    uid_of,
)

OwnerState: TypeAlias = Literal["present", "leaving", "gone"]
"""`leaving`: being deleted in the foreground, so it waits for its dependents."""


class DependentPlan(NamedTuple):
    """Whether a dependent is deleted (and how), or kept with these owner references."""

    delete: Propagation | None
    owners: list[Object]


def plan_dependent(obj: Object, states: Sequence[OwnerState], has_dependents: bool) -> DependentPlan:
    """Decides about a dependent: it is kept as long as one of its owners exists."""
    owners = owners_of(obj)
    kept = [owner for owner, state in zip(owners, states, strict=True) if state == "present"]
    if kept or not owners:
        return DependentPlan(None, kept)
    finalizers = meta(obj).get("finalizers") or ()
    if ORPHAN in finalizers:
        return DependentPlan("Orphan", owners)
    if FOREGROUND in finalizers or ("leaving" in states and has_dependents):
        return DependentPlan("Foreground", owners)
    return DependentPlan("Background", owners)


def blocks_deletion(dependent: Object, owner_uid: str) -> bool:
    """Whether the dependent blocks the foreground deletion of this owner."""
    return any(ref["uid"] == owner_uid and ref.get("blockOwnerDeletion") for ref in owners_of(dependent))


def is_held_by(obj: Object, finalizer: str) -> bool:
    """Whether the object is being deleted and has this finalizer."""
    return is_deleting(obj) and finalizer in (meta(obj).get("finalizers") or ())


class GarbageCollector:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._work: Controller[ResourceKey] = Controller("garbage", self._collect, workers=64)

    async def run(self) -> None:
        stop = self._store.listen(self._changed)
        try:
            self._enqueue_all()
            await self._work.run()
        finally:
            stop()

    def _enqueue_all(self) -> None:
        for resource in self._store.view.resources():
            if is_packed(resource):
                continue
            for obj in self._store.view.objects(resource):
                self._enqueue_if_needed(ResourceKey(resource, _key(obj)), obj)

    def _changed(self, resource: str, change: Change) -> None:
        before, after = change.before, change.after
        old = before["metadata"].get("ownerReferences") if before is not None else None
        new = after["metadata"].get("ownerReferences") if after is not None else None
        if old is not new:
            for reference in old or ():
                self._enqueue_owner(reference, change.key)
        if after is not None:
            if (old is not new) or "deletionTimestamp" in after["metadata"]:
                self._enqueue_if_needed(ResourceKey(resource, change.key), after)
        elif before is not None:
            for target in self._store.view.dependents(uid_of(before)):
                self._work.enqueue(target)

    def _enqueue_if_needed(self, target: ResourceKey, obj: Object) -> None:
        """Enqueues an object that needs work. Most objects do not."""
        owners = owners_of(obj)
        if is_held_by(obj, FOREGROUND) or is_held_by(obj, ORPHAN):
            self._work.enqueue(target)
        elif owners and not is_deleting(obj):
            states = [self._state(None, reference, target.key.namespace) for reference in owners]
            if states.count("present") != len(states):
                self._work.enqueue(target)

    def _enqueue_owner(self, reference: Object, dependent: Key) -> None:
        kind = self._cluster.catalogue.in_group(split_api_version(reference["apiVersion"])[0], reference["kind"])
        if kind is None:
            return
        key = Key(dependent.namespace if kind.namespaced else "", reference["name"])
        owner = self._store.get(kind.resource, key)
        if owner is not None and is_held_by(owner, FOREGROUND):
            self._work.enqueue(ResourceKey(kind.resource, key))

    async def _collect(self, target: ResourceKey) -> None:
        kind = self._cluster.catalogue.of_resource(target.resource)
        if kind is not None:
            await self._store.write(lambda tx: self._reconcile(tx, kind, target))

    def _reconcile(self, tx: Transaction, kind: Kind, target: ResourceKey) -> None:
        obj = tx.get(target.resource, target.key)
        if obj is None:
            return
        if is_held_by(obj, ORPHAN):
            self._orphan(tx, kind, obj)
        elif is_held_by(obj, FOREGROUND):
            self._delete_when_unblocked(tx, kind, target, obj)
        elif not is_deleting(obj):
            self._reconcile_dependent(tx, kind, target, obj)

    def _orphan(self, tx: Transaction, kind: Kind, owner: Object) -> None:
        uid = uid_of(owner)
        for target in self._store.view.dependents(uid):
            dependent = tx.get(target.resource, target.key)
            dependent_kind = self._cluster.catalogue.of_resource(target.resource)
            if dependent is not None and dependent_kind is not None:
                kept = [reference for reference in owners_of(dependent) if reference["uid"] != uid]
                store_or_remove(tx, dependent_kind, dependent, _with_owners(dependent, kept))
        store_or_remove(tx, kind, owner, without_finalizer(owner, ORPHAN))

    def _delete_when_unblocked(self, tx: Transaction, kind: Kind, target: ResourceKey, owner: Object) -> None:
        """Deletes the owner when nothing blocks it any more; otherwise enqueues the dependents that do."""
        uid = uid_of(owner)
        blocked = False
        for each in self._store.view.dependents(uid):
            dependent = tx.get(each.resource, each.key)
            if each != target and dependent is not None and blocks_deletion(dependent, uid):
                blocked = True
                if not is_deleting(dependent):
                    self._work.enqueue(each)
        if not blocked:
            store_or_remove(tx, kind, owner, without_finalizer(owner, FOREGROUND))

    def _reconcile_dependent(self, tx: Transaction, kind: Kind, target: ResourceKey, obj: Object) -> None:
        states = [self._state(tx, reference, target.key.namespace) for reference in owners_of(obj)]
        dependents = self._store.view.dependents(uid_of(obj))
        decision = plan_dependent(obj, states, bool(dependents))
        if decision.delete is None:
            if len(decision.owners) != len(states):
                store_or_remove(tx, kind, obj, _with_owners(obj, decision.owners))
            return
        if decision.delete == "Foreground" and self._is_in_cycle(tx, dependents):
            obj = _without_blocking(obj)
        plan = plan_deletion(kind, obj, decision.delete, None, self._cluster.now())
        if plan.remove:
            tx.remove(kind.resource, plan.object)
        else:
            store_or_remove(tx, kind, obj, plan.object)

    def _is_in_cycle(self, tx: Transaction, dependents: list[ResourceKey]) -> bool:
        """Whether a dependent already waits for its own dependents. Each would then wait for the other for ever."""
        found = [tx.get(target.resource, target.key) for target in dependents]
        return any(dependent is not None and is_held_by(dependent, FOREGROUND) for dependent in found)

    def _state(self, tx: Transaction | None, reference: Object, namespace: str) -> OwnerState:
        kind = self._cluster.catalogue.in_group(split_api_version(reference["apiVersion"])[0], reference["kind"])
        if kind is None or (kind.namespaced and not namespace):
            # It cannot be looked up: the kind is not registered, or a cluster-scoped object names a namespaced owner.
            return "present"
        key = Key(namespace if kind.namespaced else "", reference["name"])
        owner = tx.get(kind.resource, key) if tx is not None else self._store.get(kind.resource, key)
        if owner is None or uid_of(owner) != reference["uid"]:
            return "gone"
        return "leaving" if is_held_by(owner, FOREGROUND) else "present"


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def _with_owners(obj: Object, owners: list[Object]) -> Object:
    metadata = {**obj["metadata"], "ownerReferences": owners}
    if not owners:
        del metadata["ownerReferences"]
    return {**obj, "metadata": metadata}


def _without_blocking(obj: Object) -> Object:
    return _with_owners(obj, [{**reference, "blockOwnerDeletion": False} for reference in owners_of(obj)])


# Namespaces: each gets its usual contents, and one that is being deleted is emptied first.


_PORTION = 200

DEFAULT_SERVICE_ACCOUNT = "default"
"""The service account of Pods that name no other."""

ROOT_CERTIFICATE = "kube-root-ca.crt"
"""The ConfigMap with the certificate of the API's authority."""

API_SERVICE = "kubernetes"


class NamespaceContentsController:
    """Creates what every namespace has: the service account `default` and, if the API is served, a ConfigMap with the
    certificate by which clients know it. The namespace `default` has a Service for the API."""

    def __init__(self, cluster: Cluster, api: ApiAccess | None = None) -> None:
        self._cluster = cluster
        self._api = api
        self._queue: Controller[str] = Controller("namespace contents", self._ensure, workers=1)
        self._namespaces = Informer(cluster, NAMESPACE, on_change=self._namespace_changed)
        watched = ((SERVICE_ACCOUNT, DEFAULT_SERVICE_ACCOUNT), (CONFIG_MAP, ROOT_CERTIFICATE), (SERVICE, API_SERVICE))
        self._contents = {
            kind.kind: Informer(cluster, kind, fields=f"metadata.name={name}", on_change=self._content_changed)
            for kind, name in watched
        }

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            for informer in (*self._contents.values(), self._namespaces):
                await stack.enter_async_context(informer)
            await self._queue.run()

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._queue.enqueue(name_of(after))

    def _content_changed(self, before: Object | None, after: Object | None) -> None:
        self._queue.enqueue(namespace_of(after or before or {}))

    async def _ensure(self, namespace: str) -> None:
        found = self._namespaces.objects.get(Key("", namespace))
        if found is None or is_deleting(found):
            return
        for wanted in namespace_contents(namespace, self._api):
            existing = self._contents[wanted["kind"]].get(namespace, name_of(wanted))
            if existing is None:
                with suppress(AlreadyExists):
                    await self._cluster.create(wanted)
            elif wanted["kind"] == "ConfigMap" and existing.get("data") != wanted["data"]:
                await self._cluster.update({**existing, "data": wanted["data"]})
            elif wanted["kind"] == "Service" and spec_of(existing).get("ports") != wanted["spec"]["ports"]:
                # The API has another port since the last start.
                await self._cluster.update({**existing, "spec": {**spec_of(existing), **wanted["spec"]}})


def namespace_contents(namespace: str, api: ApiAccess | None) -> list[Object]:
    def content(kind: str, name: str, **fields: Any) -> Object:
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}

    contents = [content("ServiceAccount", DEFAULT_SERVICE_ACCOUNT)]
    if api is not None:
        contents.append(content("ConfigMap", ROOT_CERTIFICATE, data={"ca.crt": api.ca_certificate}))
    if api is not None and namespace == "default":
        port = {"name": "https", "protocol": "TCP", "port": api.port, "targetPort": api.port}
        contents.append(content("Service", API_SERVICE, spec={"clusterIP": api.host, "ports": [port]}))
    return contents


def namespace_conditions(
    conditions: list[Object], remaining: Mapping[str, int], finalizers: Mapping[str, int], now: str
) -> list[Object]:
    """Returns the conditions of a namespace that is being deleted: what is left in it, and which finalizers that waits
    for."""
    for problem in ("DiscoveryFailure", "GroupVersionParsingFailure", "ContentFailure"):
        conditions = set_condition(conditions, f"NamespaceDeletion{problem}", "False", "NoProblems", "", now)
    left = ", ".join(f"{resource} has {count} resource instances" for resource, count in sorted(remaining.items()))
    message = f"Some resources are remaining: {left}"
    conditions = set_condition(conditions, "NamespaceContentRemaining", "True", "SomeResourcesRemain", message, now)
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    reason, message = "SomeFinalizersRemain", f"Some content has finalizers remaining: {held}"
    if not held:
        reason, message = "ContentHasNoFinalizers", "No content waits for a finalizer"
    return set_condition(conditions, "NamespaceFinalizersRemaining", bool(held), reason, message, now)


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
        """Deletes what is not being deleted yet; when nothing is left, removes the finalizer. Pods go first: the rest
        may protect others from them, as a NetworkPolicy does.

        An object that takes time to delete enqueues the namespace again when it is gone."""
        namespace = self._store.get(NAMESPACES, Key("", name))
        if namespace is None or not is_deleting(namespace):
            return
        contents = False
        has_pods = bool(self._names(PODS, name))
        for resource in (PODS,) if has_pods else self._store.view.resources():
            names = self._names(resource, name)
            if not names:
                continue
            contents = True
            keys = [Key(name, each) for each in names]
            await _bulk_delete(
                self._store, self._cluster.catalogue.of_resource(resource), resource, keys, self._cluster.now()
            )
        if has_pods and not self._names(PODS, name):
            self._work.enqueue(name)
        if not contents:
            await self._store.write(lambda tx: self._finalize(tx, name))
        else:
            await self._store.write(lambda tx: self._say_what_remains(tx, name))

    def _names(self, resource: str, namespace: str) -> list[str]:
        bucket = self._store.view.in_namespace(resource, namespace)
        return list(bucket) if bucket is not None else []

    def _say_what_remains(self, tx: Transaction, name: str) -> None:
        """Keeps the conditions of the namespace current, by which a user sees what its deletion waits for."""
        namespace = tx.get(NAMESPACES, Key("", name))
        resources = [resource for resource in self._store.view.resources() if "#" not in resource]
        remaining = {resource: found for resource in resources if (found := self._names(resource, name))}
        if namespace is None or not is_deleting(namespace) or not remaining:
            return
        finalizers: Counter[str] = Counter(
            finalizer
            for resource, names in remaining.items()
            for each in names
            for finalizer in meta(tx.get(resource, Key(name, each)) or {}).get("finalizers") or ()
        )
        counts, status = {resource: len(names) for resource, names in remaining.items()}, status_of(namespace)
        before = status.get("conditions") or []
        conditions = namespace_conditions(before, counts, finalizers, timestamp(self._cluster.now()))
        if conditions != before:
            changed = {**status, "phase": "Terminating", "conditions": conditions}
            tx.put(NAMESPACES, {**namespace, "metadata": {**meta(namespace)}, "status": changed})

    def _finalize(self, tx: Transaction, name: str) -> None:
        namespace = tx.get(NAMESPACES, Key("", name))
        kind = self._cluster.catalogue.of_resource(NAMESPACES)
        if namespace is None or kind is None or not is_deleting(namespace):
            return
        held = spec_of(namespace).get("finalizers") or []
        rest = [finalizer for finalizer in held if finalizer != CONTENTS_FINALIZER]
        emptied: Object = {**namespace, "spec": {**spec_of(namespace), "finalizers": rest}}
        if len(rest) < len(held):
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


# Deletes Events that are older than the settings allow, or too many.

_MOST_EVENTS = 20_000
_LOOK_AT_ONCE = 500


def last_seen(event: Object) -> datetime | None:
    """Returns when an event last happened."""
    last = event.get("lastTimestamp") or event.get("eventTime") or meta(event).get("creationTimestamp")
    return None if last is None else parse_time(last)


class EventExpiry:
    def __init__(
        self,
        cluster: EmbeddedCluster,
        keep: timedelta = timedelta(hours=24),
        *,
        most: int = _MOST_EVENTS,
        every: float = 60.0,
    ) -> None:
        self._cluster = cluster
        self._keep = keep
        self._most = most
        self._every = every

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self.delete_expired(self._cluster.now())

    async def delete_expired(self, now: datetime) -> int:
        """Returns the number of Events that were deleted. They are not all in memory at the same time."""
        store, times = self._cluster.store, list[tuple[datetime, Key]]()
        for namespace in store.view.namespaces(EVENT.resource):
            for number, name in enumerate(list(store.view.in_namespace(EVENT.resource, namespace) or ())):
                event = store.get(EVENT.resource, Key(namespace, name))
                seen = last_seen(event) if event is not None else None
                if seen is not None:
                    times.append((seen, Key(namespace, name)))
                if number % _LOOK_AT_ONCE == 0:
                    await asyncio.sleep(0)
        times.sort()
        surplus = len(times) - self._most
        old = [key for number, (seen, key) in enumerate(times) if number < surplus or now - seen > self._keep]
        await _bulk_delete(store, EVENT, EVENT.resource, old, now)
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
                status_rows.remove_object(tx, kind, plan.object)
            else:
                store_or_remove(tx, kind, obj, plan.object)

    for start in range(0, len(keys), _PORTION):
        await store.write(partial(delete, portion=keys[start : start + _PORTION]))
