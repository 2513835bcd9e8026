"""Routes of nodes, queues, PodGroups and the usage of virtual clusters."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query

from muster.kube.builtin import NODE, PLUGIN_POD_GROUP, POD, POD_GROUP
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    controller_of,
    meta,
    name_of,
    namespace_of,
    spec_of,
    split_api_version,
    status_of,
)
from muster.kube.quantity import format_amounts, pod_requests
from muster.platform.database.tables import now
from muster.platform.errors import NotFoundProblem
from muster.platform.permissions import Actor, may, require
from muster.platform.records.common import Page, Subject
from muster.platform.records.resources import VirtualCluster
from muster.platform.resources.nodes import (
    describe_node,
    host_of,
    is_finished,
    matches_selector,
    parse_optional_time,
    skus_available,
)
from muster.platform.resources.queues import (
    ListedPodGroup,
    QueueStatus,
    describe_pod_group,
    list_queues,
    list_usage,
    skus_used,
)
from muster.platform.resources.resources import all_clusters, get_cluster
from muster.platform.resources.usage import KEPT, UsageSample, merge_steps, record_usage, step_for, usage_since
from muster.platform.runs.runs import OwningRun, find_owning_runs, run_id_of
from muster.server.platform.rest import ApiModel
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services

router = APIRouter(tags=["cluster"])

_LOOK_SECONDS = 30.0
_MOST_GROUPS = 500


class AmountAnswer(ApiModel):
    resource: str
    used: float
    """Requested by the Pods on the node, in cores, bytes or pieces."""
    allocatable: float
    capacity: float


class NodeCondition(ApiModel):
    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


class MachineAnswer(ApiModel):
    name: str
    ready: bool
    unschedulable: bool
    """Closed for new Pods."""
    labels: dict[str, str]
    taints: list[str]
    conditions: list[NodeCondition]
    amounts: list[AmountAnswer]
    pods: int
    system: str
    created: datetime | None
    clusters: list[str]
    """The virtual clusters that it is part of."""


class PodThere(ApiModel):
    name: str | None
    """Only for admins and users who may inspect its run."""
    namespace: str | None
    phase: str
    run_id: str | None
    run_name: str | None
    owner_name: str | None
    requests: dict[str, str]
    started: datetime | None


class WholeMachine(MachineAnswer):
    there: list[PodThere]
    """The Pods on the node."""


class UsagePoint(ApiModel):
    at: datetime
    """When the step began."""
    mean: float
    peak: int
    total: int | None
    """How many SKUs there were."""


class UsageAnswer(ApiModel):
    step_seconds: int
    """The time between two points. A missing point means that the server was not running."""
    since: datetime
    until: datetime
    points: list[UsagePoint]


@router.get("/nodes", operation_id="list_machines")
async def list_machines(here: Here, who: Who) -> Page[MachineAnswer]:
    """Lists all nodes of the cluster, by name."""
    require(who, "view", Subject("node"))
    nodes = (await here.cluster.list(NODE)).items
    there = _by_host((await here.cluster.list(POD)).items)
    clusters = await here.database.read(all_clusters)
    found = [MachineAnswer(**_machine(node, there[name_of(node)], clusters)) for node in sorted(nodes, key=name_of)]
    return Page(found, None, len(found))


@router.get("/nodes/{node}", operation_id="get_machine")
async def get_machine(node: str, here: Here, who: Who) -> WholeMachine:
    """Returns a node with its Pods."""
    require(who, "view", Subject("node"))
    found = next((each for each in (await here.cluster.list(NODE)).items if name_of(each) == node), None)
    if found is None:
        raise NotFoundProblem.named("node", node)
    pods = _by_host((await here.cluster.list(POD)).items)[node]
    clusters, behind = await here.database.read(
        lambda connection: (all_clusters(connection), find_owning_runs(connection, who, map(run_id_of, pods)))
    )
    shown = [_pod(pod, _run_in(behind, run_id_of(pod), namespace_of(pod)), who) for pod in pods]
    shown.sort(key=lambda pod: (pod.owner_name or "", pod.run_name or "", pod.name or ""))
    return WholeMachine(**_machine(found, pods, clusters), there=shown)


@router.get("/queues", operation_id="list_queues")
async def all_queues(here: Here, who: Who) -> Page[QueueStatus]:
    """Lists all queues, those of virtual clusters first."""
    require(who, "view", Subject("queue"))
    names = await _cluster_names(here)
    found = await list_queues(here.cluster, here.queue_system, names)
    found.sort(key=lambda queue: (queue.cluster_name is None, (queue.cluster_name or queue.name).lower()))
    return Page(found, None, len(found))


@router.get("/pod-groups", operation_id="list_pod_groups")
async def list_pod_groups(
    here: Here,
    who: Who,
    queue: Annotated[str, Query(description="The name of a queue.")] = "",
    phase: Annotated[str, Query(description="Only this phase: Pending, Running, ...")] = "",
) -> Page[ListedPodGroup]:
    """Lists PodGroups, the newest first, with the reason why they wait; at most 500."""
    require(who, "view", Subject("queue"))
    objects = [each for kind in (POD_GROUP, PLUGIN_POD_GROUP) for each in await _list_if_served(here.cluster, kind)]
    found = [(each, describe_pod_group(each)) for each in objects]
    found = [(obj, each) for obj, each in found if queue in ("", each.queue) and phase in ("", each.phase)]
    found.sort(key=lambda pair: meta(pair[0]).get("creationTimestamp") or "", reverse=True)
    chosen = found[:_MOST_GROUPS]
    run_ids = [await _run_behind_group(here.cluster, obj) for obj, _ in chosen]
    behind = await here.database.read(lambda connection: find_owning_runs(connection, who, run_ids))
    names = await _cluster_names(here)
    items = []
    for (obj, each), run_id in zip(chosen, run_ids, strict=True):
        run = _run_in(behind, run_id, namespace_of(obj))
        shown = _describe_occupant(name_of(obj), namespace_of(obj), run, who)
        items.append(ListedPodGroup(**{**asdict(each), **shown, "cluster_name": names.get(each.queue)}))
    return Page(items, None, len(found))


@router.get("/clusters/{cluster}/usage", operation_id="get_cluster_usage")
async def get_cluster_usage(
    cluster: str,
    here: Here,
    who: Who,
    hours: Annotated[int, Query(ge=1, le=KEPT // timedelta(hours=1), description="How far back.")] = 24,
) -> UsageAnswer:
    """Returns how many SKUs were in use. Samples are taken twice a minute and kept for a week."""
    time, until = timedelta(hours=hours), now()
    found = await here.database.read(lambda connection: get_cluster(connection, cluster))
    require(who, "view", found.subject, cluster)
    stretches = await here.database.read(lambda connection: usage_since(connection, found.id, until - time))
    step = step_for(time)
    points = [UsagePoint.model_validate(each) for each in merge_steps(stretches, step)]
    return UsageAnswer(step_seconds=int(step.total_seconds()), since=until - time, until=until, points=points)


async def keep_usage(here: Services) -> None:
    """Samples the usage of all virtual clusters, again and again."""
    while True:
        await look(here, now())
        await asyncio.sleep(_LOOK_SECONDS)


async def look(here: Services, at: datetime) -> None:
    clusters = await here.database.read(all_clusters)
    if not clusters:
        return
    there = await list_usage(here.cluster, here.queue_system)
    nodes = (await here.cluster.list(NODE)).items
    found = {each.id: _look(each, there.get(each.id), nodes) for each in clusters}
    await here.database.write(lambda connection: record_usage(connection, found, at))


def _look(cluster: VirtualCluster, used: Mapping[str, Any] | None, nodes: Iterable[Object]) -> UsageSample:
    available = skus_available(nodes, cluster.node_selector, cluster.sku, cluster.total)
    return UsageSample(skus_used(used, cluster), available)


async def _list_if_served(cluster: Cluster, kind: Kind) -> list[Object]:
    """Returns none where the cluster does not have the kind."""
    try:
        return (await cluster.list(kind)).items
    except NotFound:
        return []


def _by_host(pods: Iterable[Object]) -> Mapping[str, list[Object]]:
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        host = host_of(pod)
        if host and not is_finished(pod):
            found[host].append(pod)
    return found


def _machine(node: Object, pods: list[Object], clusters: Iterable[VirtualCluster]) -> dict[str, Any]:
    part_of = [cluster.name for cluster in clusters if matches_selector(node, cluster.node_selector)]
    return {**asdict(describe_node(node, pods)), "clusters": part_of}


def _pod(pod: Object, run: OwningRun | None, who: Actor) -> PodThere:
    requests = pod_requests(spec_of(pod))
    return PodThere(
        **_describe_occupant(name_of(pod), namespace_of(pod), run, who),
        phase=status_of(pod).get("phase") or "Pending",
        requests=format_amounts({name: amount for name, amount in requests.items() if name != "pods"}),
        started=parse_optional_time(status_of(pod).get("startTime")),
    )


def _describe_occupant(name: str, namespace: str, run: OwningRun | None, who: Actor) -> dict[str, str | None]:
    """Names are for users who may inspect them; owners are for all users."""
    shown = bool(may(who, "inspect", Subject("node"))) or (run is not None and run.open)
    return {
        "name": name if shown else None,
        "namespace": namespace if shown else None,
        "run_id": run.id if run else None,
        "run_name": run.name if run else None,
        "owner_name": run.owner_name if run else None,
    }


def _run_in(runs: Mapping[str, OwningRun], run_id: str, namespace: str) -> OwningRun | None:
    """Returns the run of an object, if the object is where the objects of the run are."""
    run = runs.get(run_id)
    return run if run is not None and run.namespace == namespace else None


async def _run_behind_group(cluster: Cluster, group: Object) -> str:
    """Finds the run of a PodGroup: it belongs to a job, and the job to a run."""
    own = run_id_of(group)
    owner = controller_of(group)
    if own or owner is None:
        return own
    kind = cluster.catalogue.in_group(split_api_version(str(owner.get("apiVersion")))[0], str(owner.get("kind")))
    if kind is None:
        return ""
    try:
        return run_id_of(await cluster.get(kind, str(owner.get("name")), namespace_of(group)))
    except ApiError:
        return ""


async def _cluster_names(here: Services) -> dict[str, str]:
    """The names of virtual clusters by queue."""
    return {each.queue: each.name for each in await here.database.read(all_clusters)}
