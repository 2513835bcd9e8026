"""Performs the action of a resource template on the cluster, and watches the objects that steps wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from muster.kube.builtin import POD
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object, annotations_of, key_of, meta, name_of, namespace_of, uid_of, version_of
from muster.kube.patches import json_patch, merge_patch, strategic_merge
from muster.workflows.executors.resource_request import ResourceRequest, Target

STEP_ANNOTATION = "muster.dev/step"
"""Annotation of objects that a step creates: names the step, so that a restarted server finds them."""


def annotate_with_step(obj: Object, mark: str) -> Object:
    return {**obj, "metadata": meta(obj) | {"annotations": {**annotations_of(obj), STEP_ANNOTATION: mark}}}


async def perform_request(cluster: Cluster, order: ResourceRequest, mark: str) -> Object | None:
    """Performs the action and returns the object, or None if there was nothing to `get`. Not for `delete`. Raises
    ApiError."""
    target, flags = order.targets[0], order.flags
    if order.action == "get":
        return await _get(cluster, order)
    if order.action == "patch":
        return await cluster.patch(
            target.kind,
            target.name,
            target.namespace,
            order.patch,
            type=order.patch_type,
            field_manager=flags.field_manager,
            dry_run=flags.dry_run,
        )
    wanted = order.object
    assert wanted is not None
    if order.action == "create":
        return await cluster.create(annotate_with_step(wanted, mark), dry_run=flags.dry_run)
    if order.action == "apply":
        return await cluster.patch(
            target.kind,
            target.name,
            target.namespace,
            wanted,
            type="apply",
            field_manager=flags.field_manager,
            force=flags.force_conflicts or not flags.server_side,
            dry_run=flags.dry_run,
        )
    if flags.force:
        return await _replace_by_force(cluster, order, wanted)
    return await cluster.update(wanted, dry_run=flags.dry_run)


async def delete_objects(cluster: Cluster, order: ResourceRequest) -> list[tuple[Target, Object]]:
    """Deletes the objects and returns them as they were. Missing objects are not an error."""
    found = await asyncio.gather(*(matching_objects(cluster, order, target) for target in order.targets))
    gone = [
        (Target(target.kind, namespace_of(obj), name_of(obj)), obj)
        for target, objects in zip(order.targets, found, strict=True)
        for obj in objects
    ]
    await asyncio.gather(*(_delete(cluster, order, target, obj) for target, obj in gone))
    return gone


def patch_own_pod(order: ResourceRequest, pod: Object) -> Object:
    """Returns the step's own Pod after the patch. A resource template has no Pod here, so the patch only changes a
    copy."""
    if order.patch_type == "json":
        changed: Object = json_patch(pod, order.patch)
    elif order.patch_type == "merge":
        changed = merge_patch(pod, order.patch)
    else:
        changed = strategic_merge(pod, order.patch, POD.schema)
    return changed


async def _get(cluster: Cluster, order: ResourceRequest) -> Object | None:
    target, flags = order.targets[0], order.flags
    try:
        if target.name:
            return await cluster.get(target.kind, target.name, target.namespace)
    except NotFound:
        if flags.ignore_not_found:
            return None
        raise
    found = await matching_objects(cluster, order, target)
    if len(found) == 1 or (not found and flags.ignore_not_found):
        return found[0] if found else None
    raise NotFound(f"{len(found)} {target.kind.plural} match the selector; get expects exactly one")


async def matching_objects(cluster: Cluster, order: ResourceRequest, target: Target) -> list[Object]:
    """Returns the objects that a target names or selects."""
    flags = order.flags
    if target.name:
        try:
            return [await cluster.get(target.kind, target.name, target.namespace)]
        except NotFound:
            return []
    page = await cluster.list(target.kind, target.namespace, labels=flags.selector, fields=flags.field_selector)
    return page.items


async def _delete(cluster: Cluster, order: ResourceRequest, target: Target, obj: Object) -> None:
    flags = order.flags
    grace = 0 if flags.force and flags.grace_seconds is None else flags.grace_seconds
    try:
        await cluster.delete(
            target.kind,
            name_of(obj),
            namespace_of(obj),
            propagation=flags.propagation,
            grace_seconds=grace,
            uid=uid_of(obj),
        )
    except NotFound:
        return


async def _replace_by_force(cluster: Cluster, order: ResourceRequest, wanted: Object) -> Object:
    """Deletes and creates. Waits for finalizers, because the name must be free."""
    target = order.targets[0]
    for old in await matching_objects(cluster, order, target):
        await _delete(cluster, order, target, old)
        await _until_gone(cluster, target, old)
    return await cluster.create(wanted)


async def _until_gone(cluster: Cluster, target: Target, old: Object) -> None:
    fields = f"metadata.name={target.name}"
    try:
        now = await cluster.get(target.kind, target.name, target.namespace)
    except NotFound:
        return
    if uid_of(now) != uid_of(old):
        return
    changes = cluster.watch(target.kind, target.namespace, fields=fields, resource_version=version_of(now))
    async for event in changes:
        if event.type == "DELETED":
            return


Look: TypeAlias = Callable[[Object | None], bool]
"""Called with the object whenever it changes, and with None once it is gone. Returns True when it has seen enough."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Wait:
    target: Target
    uid: str
    since: int
    """The resourceVersion after our action: earlier changes are outdated."""
    look: Look


class ObjectWatch:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waits: dict[tuple[str, Key], list[Wait]] = {}
        self._informers: dict[str, Informer] = {}
        self._new: asyncio.Queue[Informer] = asyncio.Queue()

    async def run(self) -> None:
        self._new = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(self._follow(informer))
            while True:
                informer = await self._new.get()
                group.create_task(self._follow(informer), name=f"resources {informer.kind.plural}")

    async def made_by(self, kind: Kind, mark: str) -> Object | None:
        """Returns what a step has created, whenever that was. Waits until `run` watches the kind."""
        informer = await self._informer(kind)
        return next(iter(informer.by("mark", mark)), None)

    async def current(self, target: Target) -> Object | None:
        try:
            return await self._cluster.get(target.kind, target.name, target.namespace)
        except NotFound:
            return None

    async def until(self, target: Target, obj: Object, look: Look) -> Wait:
        """Calls `look` with the object, starting at its current state, until it has seen enough. `obj` identifies the
        object (not another one of that name) and the version to start at."""
        await self._informer(target.kind)
        wait = Wait(target, uid_of(obj), _number(version_of(obj)), look)
        self._waits.setdefault(_place(target), []).append(wait)
        # The state that is read now includes everything the watch has reported before.
        self._show(wait, await self.current(target))
        return wait

    def forget(self, wait: Wait) -> None:
        place = _place(wait.target)
        waiting = self._waits.get(place, [])
        if wait in waiting:
            waiting.remove(wait)
        if not waiting:
            self._waits.pop(place, None)

    async def _informer(self, kind: Kind) -> Informer:
        name = kind.resource + kind.version
        informer = self._informers.get(name)
        if informer is None:
            informer = Informer(
                self._cluster, kind, on_change=lambda old, new: self._changed(kind, old, new), indexers={"mark": _mark}
            )
            self._informers[name] = informer
            self._new.put_nowait(informer)
        await informer.synced.wait()
        return informer

    async def _follow(self, informer: Informer) -> None:
        try:
            await informer.run()
        except ApiError as error:
            log.warning("%s cannot be watched: %s", informer.kind.plural, error)
            informer.synced.set()

    def _changed(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        for wait in list(self._waits.get((kind.resource, key_of(after or before or {})), ())):
            self._show(wait, after)

    def _show(self, wait: Wait, obj: Object | None) -> None:
        if wait not in self._waits.get(_place(wait.target), ()):
            return
        if obj is not None and _number(version_of(obj)) < wait.since:
            return
        if wait.look(obj if obj is not None and uid_of(obj) == wait.uid else None):
            self.forget(wait)


def _place(target: Target) -> tuple[str, Key]:
    return target.kind.resource, Key(target.namespace, target.name)


def _mark(obj: Object) -> list[str]:
    mark = annotations_of(obj).get(STEP_ANNOTATION)
    return [mark] if mark else []


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
