"""Virtual clusters and storage roots in the database, and who may use them: on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from muster.platform.database.database import Database
from muster.platform.database.queries import PageRequest
from muster.platform.errors import (
    ConflictProblem,
    ForbiddenProblem,
    InvalidProblem,
    NotFoundProblem,
    PreconditionFailedProblem,
)
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.resources.queues import queue_for, skus_used
from muster.platform.resources.resources import (
    NewCluster,
    NewRoot,
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
from muster.platform.users.teams import create_team, delete_team
from muster.platform.workflows.graph_context import resource_context

BOSS = Actor("boss", "boss", admin=True)
ANN = Actor("ann", "ann")


async def test_admins_create_change_and_delete_virtual_clusters(database: Database) -> None:
    def story(connection: Connection) -> None:
        with pytest.raises(ForbiddenProblem):
            create_cluster(connection, ANN, NewCluster("x", {"cpu": 1}))
        new = NewCluster("RTX2080x8", {"gpu": 1, "cpu": "10", "memory": "80G"}, "eight", {"pool": "rtx"}, 8)
        made = create_cluster(connection, BOSS, new)
        assert (made.sku["nvidia.com/gpu"], made.total, made.revision) == ("1", 8, 1)
        with pytest.raises(PreconditionFailedProblem):
            edit_cluster(connection, BOSS, "RTX2080x8", {"total": 4}, revision=2)
        assert edit_cluster(connection, BOSS, "RTX2080x8", {"total": None}, revision=1).total is None
        assert edit_cluster(connection, BOSS, made.id, {"sku": {"cpu": "1"}}).sku == {"cpu": "1"}
        assert edit_cluster(connection, BOSS, made.id, {"sku": {"cpu": "1"}}).revision == 3, "unchanged"
        assert [c.name for c in list_clusters(connection, PageRequest(), q="EIGHT").items] == ["RTX2080x8"]
        with pytest.raises(ForbiddenProblem):
            delete_cluster(connection, ANN, made.id)
        delete_cluster(connection, BOSS, "RTX2080x8")
        with pytest.raises(NotFoundProblem):
            get_cluster(connection, made.id)

    await database.write(story)


@pytest.mark.parametrize(
    ("new", "fields"),
    [
        (NewCluster("", {}), ["name", "sku"]),
        (NewCluster("a/b", {"cpu": 1}, total=-1), ["name", "total"]),
        (NewCluster("ok", {"cpu": 1}, node_selector={"a b": "c"}), ["node_selector.a b"]),
        (NewCluster("ok", {"cpu": 1}, tolerations=["gpu", "pool=ml:Never"]), ["tolerations"]),
    ],
)
async def test_problems_of_a_cluster_are_reported_together(
    database: Database, new: NewCluster, fields: list[str]
) -> None:
    with pytest.raises(InvalidProblem) as refused:
        await database.write(lambda connection: create_cluster(connection, BOSS, new))
    assert [error.field for error in refused.value.errors] == fields


async def test_names_are_unique(database: Database) -> None:
    await database.write(lambda connection: create_cluster(connection, BOSS, NewCluster("a", {"cpu": 1})))
    with pytest.raises(ConflictProblem):
        await database.write(lambda connection: create_cluster(connection, BOSS, NewCluster("a", {"cpu": 2})))
    await database.write(lambda connection: create_root(connection, BOSS, NewRoot("a", "/a")))
    with pytest.raises(ConflictProblem):
        await database.write(lambda connection: create_root(connection, BOSS, NewRoot("a", "/b")))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"path": "data"}, "path"),
        ({"path": "/"}, "path"),
        ({"path": "/a/../etc"}, "path"),
        ({"path": "/a", "host_path": "/b/../c"}, "host_path"),
        ({"path": "/a", "claim": "Not_A_Claim"}, "claim"),
        ({"path": "/a", "claim": "claim", "host_path": "/b"}, "claim"),
    ],
)
async def test_invalid_storage_roots(database: Database, values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidProblem) as refused:
        await database.write(lambda connection: create_root(connection, BOSS, NewRoot("r", **values)))
    assert [error.field for error in refused.value.errors] == [field]


async def test_admins_create_change_and_delete_storage_roots(database: Database) -> None:
    def story(connection: Connection) -> None:
        with pytest.raises(ForbiddenProblem):
            create_root(connection, ANN, NewRoot("x", "/x"))
        made = create_root(connection, BOSS, NewRoot("华为盘", "/hw", host_path="/mnt/hw", read_only=True))
        with pytest.raises(InvalidProblem):
            edit_root(connection, BOSS, made.id, {"claim": "both"})
        changed = edit_root(connection, BOSS, made.id, {"claim": "pvc", "host_path": ""}, revision=1)
        assert (changed.claim, changed.host_path, changed.read_only) == ("pvc", "", True)
        assert [root.name for root in list_roots(connection, PageRequest(), q="/hw").items] == ["华为盘"]
        delete_root(connection, BOSS, made.id)
        with pytest.raises(NotFoundProblem):
            get_root(connection, made.id)

    await database.write(story)


async def test_resources_of_a_team_are_visible_to_others_but_not_usable(database: Database) -> None:
    def story(connection: Connection) -> None:
        team = create_team(connection, SYSTEM, "crew")
        create_cluster(connection, BOSS, NewCluster("ours", {"cpu": 1}, team="crew"))
        create_cluster(connection, BOSS, NewCluster("all", {"cpu": 1}))
        create_root(connection, BOSS, NewRoot("ours", "/ours", team="crew"))
        member = Actor("eve", "eve", teams={team.id: "member"})
        for actor, usable in ((ANN, False), (member, True), (BOSS, True)):
            found = resource_context(connection, actor)
            assert {name: c.usable for name, c in found.clusters.items()} == {"all": True, "ours": usable}
            assert found.roots["ours"].usable is usable
        with pytest.raises(ConflictProblem, match="owns virtual clusters"), connection.begin_nested():
            delete_team(connection, SYSTEM, "crew")

    await database.write(story)


async def test_a_queue_has_the_total_as_its_limit(database: Database) -> None:
    new = NewCluster("c", {"cpu": "10", "memory": "80G"}, total=3)
    made = await database.write(lambda connection: create_cluster(connection, BOSS, new))
    queue = queue_for(made)
    assert queue["metadata"]["name"] == f"vc-{made.id}"
    assert queue["spec"]["capability"] == {"cpu": "30", "memory": "240G"}
    assert skus_used({"cpu": "15", "pods": "9"}, made) == 2
    assert skus_used(None, made) == 0
