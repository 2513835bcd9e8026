"""Waits for a state of the cluster by watching it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.kinds import Kind
from muster.kube.objects import Object, is_condition_true, name_of, status_of


async def until(
    cluster: Cluster, kind: Kind, name: str, namespace: str, so: Callable[[Object], bool], seconds: float = 90.0
) -> Object:
    """Returns the object as soon as `wanted` holds. Fails with its last state otherwise."""
    last: Any = "never seen"
    try:
        async with asyncio.timeout(seconds):
            while True:
                events: Any = cluster.watch(kind, namespace, fields=f"metadata.name={name}")
                async with aclosing(events):
                    async for event in events:
                        last = event.object.get("status")
                        if name_of(event.object) == name and event.type != "DELETED" and so(event.object):
                            found: Object = event.object
                            return found
    except TimeoutError:
        raise AssertionError(f"{kind.kind} {namespace}/{name} did not get there; last: {last}") from None


async def until_all(
    cluster: Cluster, kind: Kind, namespace: str, so: Callable[[Mapping[str, Object]], bool], seconds: float = 90.0
) -> dict[str, Object]:
    """Returns all objects of a kind in a namespace by name, as soon as `wanted` holds for them."""
    found: dict[str, Object] = {}
    try:
        changed = asyncio.Event()
        informer = Informer(cluster, kind, namespace, on_change=lambda before, after: changed.set())
        async with asyncio.timeout(seconds), informer:
            while True:
                found = {name_of(obj): obj for obj in informer.objects.values()}
                if so(found):
                    return found
                changed.clear()
                await changed.wait()
    except TimeoutError:
        last = {name: obj.get("status") for name, obj in found.items()}
        raise AssertionError(f"the {kind.resource} in {namespace} did not get there; last: {last}") from None


def phase_of(obj: Object) -> str:
    return str(status_of(obj).get("phase") or "")


def has(condition: str) -> Callable[[Object], bool]:
    """True if the condition of this type is true."""
    return lambda obj: is_condition_true(status_of(obj).get("conditions") or [], condition)
