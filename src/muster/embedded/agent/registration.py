"""Makes this machine's nodes known to the cluster, and those of the settings that run here or are only simulated."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from muster import __version__
from muster.embedded.agent.machine import Machine
from muster.embedded.agent.node import DECLARED, is_simulated, merged, node_objects
from muster.embedded.agent.settings import AgentSettings
from muster.kube.builtin import NODE
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Object, annotations_of, name_of, timestamp


async def register_nodes(
    cluster: Cluster, settings: AgentSettings, machine: Machine
) -> tuple[dict[str, Object], set[str]]:
    """Answers the nodes whose Pods run here, by name, and the names of the simulated ones. Nodes of an earlier life
    that the settings no longer have are taken away."""
    runtime = f"{settings.runtime}://{__version__}"
    wanted = node_objects(settings, machine, f"v{__version__}", runtime, timestamp())
    found = {name_of(node): node for node in (await cluster.list(NODE)).items}
    await asyncio.gather(*(_put(cluster, node, found.get(name_of(node))) for node in wanted))
    names = {name_of(node) for node in wanted}
    gone = [name for name, node in found.items() if annotations_of(node).get(DECLARED) and name not in names]
    await asyncio.gather(*(_remove(cluster, name) for name in gone))
    simulated = {name_of(node) for node in wanted if is_simulated(node)}
    return {name_of(node): node for node in wanted if name_of(node) not in simulated}, simulated


async def _put(cluster: Cluster, node: Object, found: Object | None) -> None:
    if found is None:
        stored = await cluster.create(node)
    else:
        node = merged(found, node)
        stored = await cluster.update(node)
    await cluster.update({**stored, "status": node["status"]}, subresource="status")


async def _remove(cluster: Cluster, name: str) -> None:
    with suppress(NotFound):
        await cluster.delete(NODE, name)
