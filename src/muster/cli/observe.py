"""One object over time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from muster.kube.cluster import Cluster
from muster.kube.errors import Gone, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, version_of


async def states_of(cluster: Cluster, kind: Kind, name: str, namespace: str) -> AsyncGenerator[Object | None, None]:
    """The object as it is, and again after every change. None, and no more, once it is gone."""
    while True:
        try:
            obj = await cluster.get(kind, name, namespace)
        except NotFound:
            yield None
            return
        yield obj
        watch = cluster.watch(kind, namespace, fields=f"metadata.name={name}", resource_version=version_of(obj))
        try:
            async for event in watch:
                if event.type == "DELETED":
                    yield None
                    return
                if event.type != "BOOKMARK":
                    yield event.object
        except Gone:
            continue


def observed(cluster: Cluster, kind: Kind, name: str, namespace: str) -> aclosing[AsyncGenerator[Object | None, None]]:
    """The same for `async with`, so that the watch ends with the block."""
    return aclosing(states_of(cluster, kind, name, namespace))
