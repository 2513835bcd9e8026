"""Carries out one order: one call to the cluster, or a few. Answers the object that it was about."""

from __future__ import annotations

import asyncio

from muster.kube.builtin import POD
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Object, annotations_of, meta, name_of, namespace_of, uid_of, version_of
from muster.kube.patches import json_patch, merge_patch
from muster.kube.strategic import strategic_merge
from muster.workflows.resources.orders import Order, Target

MARK = "muster.dev/step"
"""An annotation on what a step creates: which one, so that a server that starts again finds it."""


def marked(obj: Object, mark: str) -> Object:
    return {**obj, "metadata": meta(obj) | {"annotations": {**annotations_of(obj), MARK: mark}}}


async def carry_out(cluster: Cluster, order: Order, mark: str) -> Object | None:
    """None if there was nothing to `get`. Not for `delete`. Raises ApiError."""
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
        return await cluster.create(marked(wanted, mark), dry_run=flags.dry_run)
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


async def delete(cluster: Cluster, order: Order) -> list[tuple[Target, Object]]:
    """What was there, as it was. Nothing is missed that is not there."""
    found = await asyncio.gather(*(_matching(cluster, order, target) for target in order.targets))
    gone = [
        (Target(target.kind, namespace_of(obj), name_of(obj)), obj)
        for target, objects in zip(order.targets, found, strict=True)
        for obj in objects
    ]
    await asyncio.gather(*(_delete(cluster, order, target, obj) for target, obj in gone))
    return gone


def patched_alone(order: Order, pod: Object) -> Object:
    """The step's own Pod after the order's patch: a resource template has no Pod here, so it is patched on paper."""
    if order.patch_type == "json":
        changed: Object = json_patch(pod, order.patch)
    elif order.patch_type == "merge":
        changed = merge_patch(pod, order.patch)
    else:
        changed = strategic_merge(pod, order.patch, POD.schema)
    return changed


async def _get(cluster: Cluster, order: Order) -> Object | None:
    target, flags = order.targets[0], order.flags
    try:
        if target.name:
            return await cluster.get(target.kind, target.name, target.namespace)
    except NotFound:
        if flags.ignore_not_found:
            return None
        raise
    found = await _matching(cluster, order, target)
    if len(found) == 1 or (not found and flags.ignore_not_found):
        return found[0] if found else None
    raise NotFound(f"{len(found)} {target.kind.plural} match the selector; get takes one")


async def _matching(cluster: Cluster, order: Order, target: Target) -> list[Object]:
    flags = order.flags
    if target.name:
        try:
            return [await cluster.get(target.kind, target.name, target.namespace)]
        except NotFound:
            return []
    page = await cluster.list(target.kind, target.namespace, labels=flags.selector, fields=flags.field_selector)
    return page.items


async def _delete(cluster: Cluster, order: Order, target: Target, obj: Object) -> None:
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


async def _replace_by_force(cluster: Cluster, order: Order, wanted: Object) -> Object:
    """Deletes and creates. Finalizers are waited for: the name must be free."""
    target = order.targets[0]
    for old in await _matching(cluster, order, target):
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
