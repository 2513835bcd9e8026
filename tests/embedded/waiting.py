"""Waiting for a state of the cluster by watching it, without sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from muster.kube.cluster import Cluster
from muster.kube.kinds import Kind
from muster.kube.objects import Object, key_of, name_of


class Component(Protocol):
    async def run(self) -> None: ...


@asynccontextmanager
async def run_components(*components: Component) -> AsyncIterator[None]:
    """Runs the components for the duration of the block."""
    tasks = [asyncio.create_task(component.run()) for component in components]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for(
    cluster: Cluster, kind: Kind, name: str, so: Callable[[Object], bool], namespace: str = "default"
) -> Object:
    """Returns the object of that name when the condition holds."""
    async with asyncio.timeout(30):
        async for event in cluster.watch(kind, namespace if kind.namespaced else ""):
            if event.type != "DELETED" and name_of(event.object) == name and so(event.object):
                return event.object
    raise AssertionError("the watch ended")


async def wait_for_all(cluster: Cluster, kind: Kind, so: Callable[[list[Object]], bool]) -> list[Object]:
    """Returns all objects of a kind when the condition holds for the list."""
    there = await cluster.list(kind)
    found = {key_of(obj): obj for obj in there.items}
    if so(list(found.values())):
        return list(found.values())
    async with asyncio.timeout(30):
        async for event in cluster.watch(kind, resource_version=there.resource_version):
            if event.type == "DELETED":
                found.pop(key_of(event.object), None)
            else:
                found[key_of(event.object)] = event.object
            if so(list(found.values())):
                return list(found.values())
    raise AssertionError("the watch ended")


async def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Waits for a condition that cannot be watched."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("that did not come")
