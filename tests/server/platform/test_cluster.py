"""Nodes, queues and gangs are visible to every user; names of other users' Pods only to admins."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import NODE, POD_GROUP
from muster.platform.database.database import Database
from muster.server.platform.cluster import look
from tests.server.platform.served import Served
from tests.server.platform.whole import ended, stored, until, whole_muster

SLEEPS: dict[str, Any] = {"format": 1, "nodes": [{"name": "wait", "image": "python:3.11", "command": "sleep 60"}]}


async def test_every_user_sees_nodes_queues_and_gangs(served: Served) -> None:
    cluster = served.platform.cluster
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"pool": "x"}}})
    await cluster.patch(NODE, "n1", "", {"status": {"capacity": capacity}}, subresource="status")
    group = {"name": "secret-job", "namespace": "default"}
    await cluster.create({
        "apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": group, "spec": {"minMember": 2},
    })  # fmt: skip
    await served.admin.post("clusters", {"name": "x", "sku": {"cpu": 4}, "node_selector": {"pool": "x"}, "total": 9})
    ann = await served.user("ann")

    [machine] = (await ann.get("nodes"))["items"]
    assert (machine["name"], machine["clusters"], machine["pods"]) == ("n1", ["x"], 0)
    assert machine["amounts"][0] == {"resource": "cpu", "used": 0, "allocatable": 8, "capacity": 8}
    assert (await ann.get("nodes/n1"))["there"] == []
    (await ann("GET", "nodes/n2")).refused(404)
    [queue] = [each for each in (await ann.get("queues"))["items"] if each["cluster_name"]]
    assert (queue["cluster_name"], queue["capability"]) == ("x", {"cpu": "36"})
    [virtual] = (await ann.get("clusters"))["items"]
    assert (virtual["total"], virtual["available"], virtual["largest"], virtual["used"]) == (9, 2, 2, 0)

    [gang] = (await ann.get("pod-groups"))["items"]
    assert (gang["name"], gang["phase"], gang["members"]) == (None, "Pending", 2)
    [gang] = (await served.admin.get("pod-groups?queue=default&phase=Pending"))["items"]
    assert gang["name"] == "secret-job"
    assert (await ann.get("pod-groups?phase=Running"))["items"] == []


async def test_usage_is_recorded_for_a_week(served: Served) -> None:
    await served.admin.post("clusters", {"name": "x", "sku": {"cpu": 1}})
    await look(served.platform, datetime.now(UTC))
    await look(served.platform, datetime.now(UTC))
    ann = await served.user("ann")
    found = await ann.get("clusters/x/usage?hours=1")
    assert found["step_seconds"] == 300
    assert {(point["mean"], point["peak"], point["total"]) for point in found["points"]} == {(0, 0, 0)}
    (await ann("GET", "clusters/x/usage?hours=169")).refused(422)
    (await ann("GET", "clusters/nothing/usage")).refused(404)


@pytest.mark.parametrize("empty_database_url", ["sqlite"], indirect=True)
async def test_pods_of_other_users_have_no_name(tmp_path: Path, empty_database_url: str) -> None:
    async with whole_muster(tmp_path / "home", empty_database_url) as muster:
        ann, bob = await muster.member("ann"), await muster.member("bob")
        made = await stored(ann, "sleeper", SLEEPS)
        run = await ann.post("runs", {"workflow": made["workflow_id"], "name": "long"})
        await until(ann, run["id"], lambda run: run["state"] == "running")
        there = await _pods(ann)
        assert there[0]["name"].startswith(f"run-{run['id']}")
        assert (there[0]["run_name"], there[0]["owner_name"]) == ("long", "ann")
        [seen] = await _pods(bob)
        assert (seen["name"], seen["namespace"], seen["run_name"]) == (None, None, "long")
        assert (await _pods(muster.admin))[0]["name"] == there[0]["name"]
        await ann.post(f"runs/{run['id']}/stop")
        await ended(ann, run["id"])


async def _pods(client: Any) -> list[dict[str, Any]]:
    [machine] = (await client.get("nodes"))["items"]
    found: list[dict[str, Any]] = (await client.get(f"nodes/{machine['name']}"))["there"]
    return found


async def test_teams_list_actions_and_sessions_mark_the_current_one(served: Served, database: Database) -> None:
    await served.admin.post("teams", {"name": "crew"})
    ann = await served.user("ann")
    (await served.admin("PUT", "teams/crew/members/ann", {"role": "leader"})).ok()
    assert (await served.admin.get("teams/crew"))["may"] == ["edit", "set members", "delete"]
    assert (await ann.get("teams/crew"))["may"] == ["edit", "set members", "leave"]
    await served.log_in("ann")
    assert sorted(each["current"] for each in (await ann.get("sessions"))["items"]) == [False, True]
    assert [each["current"] for each in (await served.admin.get("sessions"))["items"]] == []


async def test_the_audit_log_is_filtered_by_time(served: Served) -> None:
    await served.admin.post("teams", {"name": "crew"})
    [entry] = (await served.admin.get("audit?kind=team"))["items"]
    at = entry["at"].replace("+", "%2B")
    assert (await served.admin.get(f"audit?kind=team&since={at}"))["total"] == 1
    assert (await served.admin.get(f"audit?kind=team&until={at}"))["total"] == 0
    (await served.admin("GET", "audit?since=2026-01-01T00:00:00")).refused(422)
