"""Applies operations to workflows in a cluster, embedded or real. Only what the operation changes is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from muster.kube import builtin
from muster.kube.cluster import Cluster
from muster.kube.errors import Gone, NotFound
from muster.kube.objects import Object, name_of, namespace_of, version_of
from muster.kube.patches import diff_merge
from muster.workflows.kinds import WORKFLOW
from muster.workflows.operations.retry import RetryResult
from muster.workflows.operations.retry import retry as retried

_PATIENCE = 60.0
"""Seconds to wait for Pods to be deleted before their names are used again."""


async def write(cluster: Cluster, before: Object, after: Object, *, unchanged_since: bool = False) -> Object:
    """Writes only what the operation has changed, so that concurrent writes of the controller are not undone.
    `unchanged_since`: raises Conflict if the workflow has changed since it was read."""
    patch: dict[str, Any] = diff_merge(before, after)
    if not patch:
        return before
    if unchanged_since:
        patch = {**patch, "metadata": {**(patch.get("metadata") or {}), "resourceVersion": version_of(before)}}
    return await cluster.patch(WORKFLOW, name_of(before), namespace_of(before), patch)


async def retry(
    cluster: Cluster,
    workflow: Object,
    *,
    restart_successful: bool = False,
    node_field_selector: str = "",
    parameters: Sequence[str] = (),
) -> Object:
    """`workflow` includes its nodes."""
    plan = retried(
        workflow,
        restart_successful=restart_successful,
        node_field_selector=node_field_selector,
        parameters=parameters,
    )
    return await carry_out_retry(cluster, workflow, plan)


async def carry_out_retry(cluster: Cluster, workflow: Object, plan: RetryResult) -> Object:
    """Deletes the Pods whose names are used again, and writes the workflow. Raises Conflict if it has changed since it
    was read."""
    await delete_pods(cluster, namespace_of(workflow), plan.pods_to_delete)
    return await write(cluster, workflow, plan.workflow, unchanged_since=True)


async def delete_pods(cluster: Cluster, namespace: str, names: Iterable[str]) -> None:
    """Returns when they are gone."""
    left = set()
    for name in names:
        try:
            await cluster.delete(builtin.POD, name, namespace)
            left.add(name)
        except NotFound:
            continue
    async with asyncio.timeout(_PATIENCE):
        while left:
            page = await cluster.list(builtin.POD, namespace)
            left &= {name_of(pod) for pod in page.items}
            if left:
                await _until_one_goes(cluster, namespace, left, page.resource_version)


async def _until_one_goes(cluster: Cluster, namespace: str, names: set[str], version: str) -> None:
    try:
        async for event in cluster.watch(builtin.POD, namespace, resource_version=version):
            if event.type == "DELETED" and name_of(event.object) in names:
                return
    except Gone:
        return
