"""Virtual clusters and storage roots."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.kube.builtin import NODE
from muster.kube.objects import Object
from muster.platform.permissions import Actor, may, require
from muster.platform.records.common import Page, Subject
from muster.platform.records.resources import SkuUse, StorageRoot, VirtualCluster, VirtualClusterDetail
from muster.platform.resources.nodes import largest_skus, skus_available
from muster.platform.resources.queues import list_usage, skus_used, sync_queues
from muster.platform.resources.resources import (
    MOST_SKUS,
    NewCluster,
    NewRoot,
    all_clusters,
    create_cluster,
    create_root,
    delete_cluster,
    delete_root,
    edit_cluster,
    edit_root,
    get_cluster,
    get_root,
    list_clusters,
    list_roots,
)
from muster.platform.runs.runs import find_sku_users
from muster.server.platform.rest import IfMatch, Paging, RequestBody, Search, etag, vars_of
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services

router = APIRouter(tags=["resources"])

_SETTLE_SECONDS = 60.0
_Name = Annotated[str, Field(max_length=200)]
_Text = Annotated[str, Field(max_length=10_000)]
_Place = Annotated[str, Field(max_length=4096)]
_Sku = dict[str, int | str]
_Taints = Annotated[list[_Name], Field(max_length=100)]


class _There(NamedTuple):
    """The current state of the cluster."""

    used: Mapping[str, Mapping[str, Any]]
    """What is used of each virtual cluster, by its id."""
    nodes: Sequence[Object]


class ClusterBody(RequestBody):
    name: _Name
    sku: _Sku
    """The content of one SKU: gpu, cpu, memory, or any resource of the cluster by its full name."""
    description: _Text = ""
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: _Taints = Field(default_factory=list)
    """Taints of its nodes that its Pods tolerate, as `kubectl taint` writes them: `pool=ml:NoSchedule`."""
    total: Annotated[int, Field(ge=0, le=MOST_SKUS)] | None = None
    """The number of SKUs; null for as many as the nodes have."""
    team: _Name = ""
    """The id or name of the team that may use it; '' for all users."""


class ClusterChange(RequestBody):
    name: _Name = ""
    sku: _Sku = Field(default_factory=dict)
    description: _Text = ""
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: _Taints = Field(default_factory=list)
    total: Annotated[int, Field(ge=0, le=MOST_SKUS)] | None = None
    team: _Name = ""


class RootBody(RequestBody):
    name: _Name
    path: _Place
    """Where nodes find it, and the host path if `host_path` and `claim` are empty."""
    description: _Text = ""
    host_path: _Place = ""
    claim: _Name = ""
    """The PersistentVolumeClaim, instead of a host path."""
    read_only: bool = False
    team: _Name = ""
    """The id or name of the team that may use it; '' for all users."""


class RootChange(RequestBody):
    name: _Name = ""
    path: _Place = ""
    description: _Text = ""
    host_path: _Place = ""
    claim: _Name = ""
    read_only: bool = False
    team: _Name = ""


@router.get("/clusters", operation_id="list_clusters")
async def all_virtual_clusters(here: Here, who: Who, paging: Paging, q: Search = "") -> Page[VirtualCluster]:
    """Lists virtual clusters by name, created or total."""
    require(who, "view", Subject("virtual cluster"))
    page = await here.database.read(lambda connection: list_clusters(connection, paging, q=q))
    there = await _there(here)
    items = [_describe(cluster, there, who) for cluster in page.items]
    return Page(items, page.next, page.total)


@router.post("/clusters", status_code=201, operation_id="create_cluster")
async def new_virtual_cluster(body: ClusterBody, here: Here, who: Who, response: Response) -> VirtualCluster:
    new = NewCluster(body.name, body.sku, body.description, body.node_selector, body.total, body.team, body.tolerations)
    cluster = await here.database.write(lambda connection: create_cluster(connection, who, new))
    return await _apply_cluster(here, who, cluster, response)


@router.get("/clusters/{cluster}", operation_id="get_cluster")
async def one_virtual_cluster(cluster: str, here: Here, who: Who, response: Response) -> VirtualClusterDetail:
    """Returns a virtual cluster by id or name, with the nodes that use it."""

    def read(connection: Connection) -> tuple[VirtualCluster, list[tuple[str, SkuUse]]]:
        found = get_cluster(connection, cluster)
        require(who, "view", found.subject, cluster)
        uses = find_sku_users(connection, found.name)
        # The token of a run reaches no other run.
        return found, [(state, use) for state, use in uses if may(who, "view", Subject("run", use.run_id))]

    found, uses = await here.database.read(read)
    response.headers["ETag"] = etag(found.id, found.revision)
    return VirtualClusterDetail(
        **vars_of(_describe(found, await _there(here), who)),
        uses=[use for state, use in uses if state == "running"],
        waiting=[use for state, use in uses if state == "waiting"],
    )


@router.patch("/clusters/{cluster}", operation_id="edit_cluster")
async def change_virtual_cluster(
    cluster: str, body: ClusterChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> VirtualCluster:
    found = await here.database.write(lambda connection: edit_cluster(connection, who, cluster, body.changes(), seen))
    return await _apply_cluster(here, who, found, response)


@router.delete("/clusters/{cluster}", status_code=204, operation_id="delete_cluster")
async def drop_virtual_cluster(cluster: str, here: Here, who: Who, seen: IfMatch) -> None:
    """Deletes a virtual cluster. Versions that use it can no longer be run."""
    await here.database.write(lambda connection: delete_cluster(connection, who, cluster, seen))
    await settle(here)
    await here.namespaces.sync()


@router.get("/storage", operation_id="list_storage")
async def list_storage(here: Here, who: Who, paging: Paging, q: Search = "") -> Page[StorageRoot]:
    """Lists storage roots by name, created or path."""
    require(who, "view", Subject("storage root"))
    page = await here.database.read(lambda connection: list_roots(connection, paging, q=q))
    return page.map(lambda root: _root(root, who))


@router.post("/storage", status_code=201, operation_id="create_storage")
async def create_storage(body: RootBody, here: Here, who: Who, response: Response) -> StorageRoot:
    new = NewRoot(**body.model_dump())
    root = await here.database.write(lambda connection: create_root(connection, who, new))
    await here.namespaces.sync()
    return _with_tag(root, who, response)


@router.get("/storage/{root}", operation_id="get_storage")
async def get_storage(root: str, here: Here, who: Who, response: Response) -> StorageRoot:
    """By id or name."""
    require(who, "view", Subject("storage root"))
    return _with_tag(await here.database.read(lambda connection: get_root(connection, root)), who, response)


@router.patch("/storage/{root}", operation_id="edit_storage")
async def edit_storage(
    root: str, body: RootChange, here: Here, who: Who, seen: IfMatch, response: Response
) -> StorageRoot:
    found = await here.database.write(lambda connection: edit_root(connection, who, root, body.changes(), seen))
    await here.namespaces.sync()
    return _with_tag(found, who, response)


@router.delete("/storage/{root}", status_code=204, operation_id="delete_storage")
async def delete_storage(root: str, here: Here, who: Who, seen: IfMatch) -> None:
    """Deletes a storage root. The stored files stay."""
    await here.database.write(lambda connection: delete_root(connection, who, root, seen))
    await here.namespaces.sync()


async def keep_queues(here: Services) -> None:
    """Keeps the scheduler's queues in sync with the virtual clusters."""
    while True:
        await settle(here)
        await asyncio.sleep(_SETTLE_SECONDS)


async def settle(here: Services) -> None:
    async with here.leases.hold("queues"):
        await sync_queues(here.cluster, await here.database.read(all_clusters), here.queue_system)


async def _apply_cluster(here: Services, who: Actor, cluster: VirtualCluster, response: Response) -> VirtualCluster:
    await settle(here)
    await here.namespaces.sync()
    response.headers["ETag"] = etag(cluster.id, cluster.revision)
    return _describe(cluster, await _there(here), who)


async def _there(here: Services) -> _There:
    return _There(await list_usage(here.cluster, here.queue_system), (await here.cluster.list(NODE)).items)


def _describe(cluster: VirtualCluster, there: _There, who: Actor) -> VirtualCluster:
    used = skus_used(there.used.get(cluster.id), cluster)
    available = skus_available(there.nodes, cluster.node_selector, cluster.sku, cluster.total)
    largest = largest_skus(there.nodes, cluster.node_selector, cluster.sku)
    usable = bool(may(who, "use", cluster.subject))
    return replace(cluster, used=used, available=available, largest=largest, usable=usable)


def _with_tag(root: StorageRoot, who: Actor, response: Response) -> StorageRoot:
    response.headers["ETag"] = etag(root.id, root.revision)
    return _root(root, who)


def _root(root: StorageRoot, who: Actor) -> StorageRoot:
    return replace(root, usable=bool(may(who, "use", root.subject)))
