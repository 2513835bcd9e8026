"""The garbage collector of Kubernetes: deletes objects whose owners are gone, and releases owners whose dependents
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.deletion import FOREGROUND, ORPHAN, plan_deletion, without_finalizer
from muster.embedded.store.history import Change
from muster.embedded.store.view import Place, Transaction
from muster.embedded.store.writes import store_or_remove
from muster.kube.cluster import Propagation
from muster.kube.controller import Controller
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, is_deleting, meta, owners_of, split_api_version, uid_of

OwnerState: TypeAlias = Literal["present", "leaving", "gone"]
"""`leaving`: being deleted in the foreground, which waits for its dependents."""


class Judgement(NamedTuple):
    """What becomes of a dependent: deleted, or kept with these owner references."""

    delete: Propagation | None
    owners: list[Object]


def judge(obj: Object, states: Sequence[OwnerState], has_dependents: bool) -> Judgement:
    """An object lives as long as one of its owners does."""
    owners = owners_of(obj)
    kept = [owner for owner, state in zip(owners, states, strict=True) if state == "present"]
    if kept or not owners:
        return Judgement(None, kept)
    finalizers = meta(obj).get("finalizers") or ()
    if ORPHAN in finalizers:
        return Judgement("Orphan", owners)
    if FOREGROUND in finalizers or ("leaving" in states and has_dependents):
        return Judgement("Foreground", owners)
    return Judgement("Background", owners)


def blocks(dependent: Object, owner_uid: str) -> bool:
    """Whether the dependent keeps an owner that is deleted in the foreground."""
    return any(ref["uid"] == owner_uid and ref.get("blockOwnerDeletion") for ref in owners_of(dependent))


def holds(obj: Object, finalizer: str) -> bool:
    """Whether the object is being deleted and waits for what the finalizer stands for."""
    return is_deleting(obj) and finalizer in (meta(obj).get("finalizers") or ())


class GarbageCollector:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._work: Controller[Place] = Controller("garbage", self._collect, workers=64)

    async def run(self) -> None:
        stop = self._store.listen(self._changed)
        try:
            self._look_everywhere()
            await self._work.run()
        finally:
            stop()

    def _look_everywhere(self) -> None:
        for resource in self._store.view.resources():
            for obj in self._store.view.objects(resource):
                self._consider(Place(resource, _key(obj)), obj)

    def _changed(self, resource: str, change: Change) -> None:
        before, after = change.before, change.after
        old = before["metadata"].get("ownerReferences") if before is not None else None
        new = after["metadata"].get("ownerReferences") if after is not None else None
        if old is not new:
            for reference in old or ():
                self._consider_owner(reference, change.key)
        if after is not None:
            if (old is not new) or "deletionTimestamp" in after["metadata"]:
                self._consider(Place(resource, change.key), after)
        elif before is not None:
            for place in self._store.view.dependents(uid_of(before)):
                self._work.enqueue(place)

    def _consider(self, place: Place, obj: Object) -> None:
        """Most objects are in order; those are not worth a place in the queue."""
        owners = owners_of(obj)
        if holds(obj, FOREGROUND) or holds(obj, ORPHAN):
            self._work.enqueue(place)
        elif owners and not is_deleting(obj):
            states = [self._state(None, reference, place.key.namespace) for reference in owners]
            if states.count("present") != len(states):
                self._work.enqueue(place)

    def _consider_owner(self, reference: Object, dependent: Key) -> None:
        kind = self._cluster.catalogue.in_group(split_api_version(reference["apiVersion"])[0], reference["kind"])
        if kind is None:
            return
        key = Key(dependent.namespace if kind.namespaced else "", reference["name"])
        owner = self._store.get(kind.resource, key)
        if owner is not None and holds(owner, FOREGROUND):
            self._work.enqueue(Place(kind.resource, key))

    async def _collect(self, place: Place) -> None:
        kind = self._cluster.catalogue.of_resource(place.resource)
        if kind is not None:
            await self._store.write(lambda tx: self._settle(tx, kind, place))

    def _settle(self, tx: Transaction, kind: Kind, place: Place) -> None:
        obj = tx.get(place.resource, place.key)
        if obj is None:
            return
        if holds(obj, ORPHAN):
            self._orphan(tx, kind, obj)
        elif holds(obj, FOREGROUND):
            self._release(tx, kind, place, obj)
        elif not is_deleting(obj):
            self._judge(tx, kind, place, obj)

    def _orphan(self, tx: Transaction, kind: Kind, owner: Object) -> None:
        uid = uid_of(owner)
        for place in self._store.view.dependents(uid):
            dependent = tx.get(place.resource, place.key)
            dependent_kind = self._cluster.catalogue.of_resource(place.resource)
            if dependent is not None and dependent_kind is not None:
                kept = [reference for reference in owners_of(dependent) if reference["uid"] != uid]
                store_or_remove(tx, dependent_kind, dependent, _with_owners(dependent, kept))
        store_or_remove(tx, kind, owner, without_finalizer(owner, ORPHAN))

    def _release(self, tx: Transaction, kind: Kind, place: Place, owner: Object) -> None:
        """Lets the owner go when nothing that blocks it is left; else sees to those that do."""
        uid = uid_of(owner)
        blocked = False
        for each in self._store.view.dependents(uid):
            dependent = tx.get(each.resource, each.key)
            if each != place and dependent is not None and blocks(dependent, uid):
                blocked = True
                if not is_deleting(dependent):
                    self._work.enqueue(each)
        if not blocked:
            store_or_remove(tx, kind, owner, without_finalizer(owner, FOREGROUND))

    def _judge(self, tx: Transaction, kind: Kind, place: Place, obj: Object) -> None:
        states = [self._state(tx, reference, place.key.namespace) for reference in owners_of(obj)]
        dependents = self._store.view.dependents(uid_of(obj))
        judgement = judge(obj, states, bool(dependents))
        if judgement.delete is None:
            if len(judgement.owners) != len(states):
                store_or_remove(tx, kind, obj, _with_owners(obj, judgement.owners))
            return
        if judgement.delete == "Foreground" and self._in_circle(tx, dependents):
            obj = _unblocking(obj)
        verdict = plan_deletion(kind, obj, judgement.delete, None, self._cluster.now())
        if verdict.remove:
            tx.remove(kind.resource, obj)
        else:
            store_or_remove(tx, kind, obj, verdict.object)

    def _in_circle(self, tx: Transaction, dependents: list[Place]) -> bool:
        """Whether a dependent waits for its own dependents already: then each would wait for the other for ever."""
        found = [tx.get(place.resource, place.key) for place in dependents]
        return any(dependent is not None and holds(dependent, FOREGROUND) for dependent in found)

    def _state(self, tx: Transaction | None, reference: Object, namespace: str) -> OwnerState:
        kind = self._cluster.catalogue.in_group(split_api_version(reference["apiVersion"])[0], reference["kind"])
        if kind is None or (kind.namespaced and not namespace):
            # Nobody can tell whether it is there: a kind of a package that is not installed today, or an owner in a
            # namespace of an object that is in none.
            return "present"
        key = Key(namespace if kind.namespaced else "", reference["name"])
        owner = tx.get(kind.resource, key) if tx is not None else self._store.get(kind.resource, key)
        if owner is None or uid_of(owner) != reference["uid"]:
            return "gone"
        return "leaving" if holds(owner, FOREGROUND) else "present"


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def _with_owners(obj: Object, owners: list[Object]) -> Object:
    metadata = {**obj["metadata"], "ownerReferences": owners}
    if not owners:
        del metadata["ownerReferences"]
    return {**obj, "metadata": metadata}


def _unblocking(obj: Object) -> Object:
    return _with_owners(obj, [{**reference, "blockOwnerDeletion": False} for reference in owners_of(obj)])
