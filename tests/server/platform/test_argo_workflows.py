"""Workflows that other clients created, over HTTP on a complete Muster: listed with everything that ran, inspected,
stopped, retried and resubmitted by those who may.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from muster.kube.builtin import SECRET
from muster.kube.objects import Object, parse_time
from muster.kube.pod_security import RUN_LABEL
from muster.platform.database.database import sqlite_url
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client
from tests.server.platform.whole import PATIENCE, Whole, ended, events, stored, whole_muster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def muster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    home: Path = tmp_path_factory.mktemp("argo")
    async with whole_muster(home / "home", sqlite_url(home / "platform.db")) as running:
        await running.admin.post("teams", {"name": "ml"})
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(muster: Whole) -> Client:
    return await muster.member("ann", "ml")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(muster: Whole) -> Client:
    return await muster.member("bob")


def workflow(name: str, namespace: str, command: str = "echo hello", **spec: Any) -> Object:
    """A DAG: `load`, then `fit`, which may be retried."""
    container = {"image": "python:3.11", "command": ["sh", "-c", command]}
    tasks = [{"name": "load", "template": "load"}, {"name": "fit", "template": "fit", "dependencies": ["load"]}]
    templates = [
        {"name": "main", "dag": {"tasks": tasks}},
        {"name": "load", "container": {**container, "command": ["echo", "loaded"]}},
        {"name": "fit", "container": container, **spec.pop("fit", {})},
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": namespace, **spec.pop("metadata", {})},
        "spec": {"entrypoint": "main", "templates": templates, **spec},
    }


async def until(client: Client, path: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await client.get(f"argo-workflows/{path}")
            if found["state"] in states:
                return found
            await asyncio.sleep(0.05)


async def listed(client: Client, query: str = "") -> list[tuple[str, str]]:
    items = (await client.get(f"runs/all?{query}"))["items"]
    return [(each["origin"], each["name"]) for each in items]


async def test_a_submitted_workflow_is_listed_and_described(muster: Whole, ann: Client, bob: Client) -> None:
    await muster.cluster.create(workflow("digits", "user-ann", arguments={"parameters": [{"name": "n", "value": "3"}]}))
    done = await until(ann, "user-ann/digits", "succeeded", "failed")
    assert (done["state"], done["owner_name"], done["done"], done["nodes"]) == ("succeeded", "ann", 2, 2)
    assert done["parameters"] == [{"name": "n", "value": "3"}]
    assert done["may"] == ["copy", "delete"]
    drawn = {each["name"]: each for each in done["node_states"]}
    assert {name: each["state"] for name, each in drawn.items()} == {"load": "succeeded", "fit": "succeeded"}
    assert drawn["load"]["children"] == [drawn["fit"]["id"]] and drawn["fit"]["children"] == []
    (row,) = (await ann.get("runs/all?q=digits"))["items"]
    assert (row["origin"], row["state"], row["owner_name"], row["may"]) == (
        "argo",
        "succeeded",
        "ann",
        ["copy", "delete"],
    )
    assert await listed(muster.admin, "q=digits") == [("argo", "digits")]
    assert await listed(bob, "q=digits") == []
    (scope,) = (await ann.get("argo-workflows/user-ann/digits/graph"))["scopes"].values()
    assert [each["key"] for each in scope["nodes"]] == [each["path"] for each in done["node_states"]]
    assert scope["edges"] == [[0, 1]]
    for method, path in (("GET", ""), ("GET", "/yaml"), ("GET", "/graph"), ("POST", "/resubmit"), ("DELETE", "")):
        (await bob(method, f"argo-workflows/user-ann/digits{path}")).refused(404)


async def test_nodes_have_logs_pods_and_events(muster: Whole, ann: Client) -> None:
    await muster.cluster.create(workflow("logs", "user-ann", "echo one; echo two"))
    done = await until(ann, "user-ann/logs", "succeeded", "failed")
    fit = next(each for each in done["node_states"] if each["name"] == "fit")
    path = f"argo-workflows/user-ann/logs/nodes/{fit['id']}"
    found = await ann.get(path)
    (attempt,) = found["attempts"]
    assert (attempt["state"], attempt["exit_code"], found["definition"]["name"]) == ("succeeded", "0", "fit")
    assert await ann.get(f"{path}/log") == "one\ntwo\n"
    told = [event async for event in events(ann, f"{path}/log/events")]
    assert [(e["event"], e["data"].get("text")) for e in told] == [("line", "one"), ("line", "two"), ("end", None)]
    (pod,) = await ann.get(f"{path}/pods")
    assert (pod["name"], pod["phase"]) == (attempt["pod"], "Succeeded")
    reasons: set[str] = set()
    async with asyncio.timeout(PATIENCE):  # events are stored a moment later
        while "Scheduled" not in reasons:
            reasons = {event["reason"] for event in await ann.get(f"{path}/happenings")}
    (await ann("GET", f"{path}/log?attempt=2")).refused(422)
    (await ann("GET", "argo-workflows/user-ann/logs/nodes/other")).refused(404)
    assert "kind: Workflow" in await ann.get("argo-workflows/user-ann/logs/yaml")


async def test_one_that_failed_is_retried_and_resubmitted(muster: Whole, ann: Client) -> None:
    await muster.cluster.create(workflow("again", "user-ann", "exit 3", fit={"retryStrategy": {"limit": 1}}))
    failed = await until(ann, "user-ann/again", "succeeded", "failed")
    fit = next(each for each in failed["node_states"] if each["name"] == "fit")
    assert (failed["state"], fit["state"], fit["attempts"]) == ("failed", "failed", 2)
    assert failed["may"] == ["retry", "copy", "delete"]
    retried = await ann.post("argo-workflows/user-ann/again/retry", {})
    assert retried["state"] in ("waiting", "running", "failed")
    assert (await until(ann, "user-ann/again", "failed"))["may"] == ["retry", "copy", "delete"]
    made = await ann.post("argo-workflows/user-ann/again/resubmit", {})
    assert made["name"] != "again" and made["creator"] == "muster-ann"
    assert (await until(ann, f"user-ann/{made['name']}", "failed"))["state"] == "failed"
    audit = (await muster.admin.get("audit?kind=argo workflow"))["items"]
    done = [(each["action"], each["actor_name"]) for each in audit if each["subject_name"].startswith("again")]
    assert done == [("copy", "ann"), ("retry", "ann")]


async def test_one_that_runs_is_suspended_resumed_stopped_and_deleted(muster: Whole, ann: Client) -> None:
    await muster.cluster.create(workflow("long", "user-ann", "sleep 600"))
    running = await until(ann, "user-ann/long", "running")
    assert running["may"] == ["stop", "suspend", "copy", "delete"]
    suspended = await ann.post("argo-workflows/user-ann/long/suspend", {})
    assert (suspended["state"], suspended["may"]) == ("suspended", ["stop", "resume", "copy", "delete"])
    await ann.post("argo-workflows/user-ann/long/resume", {})
    watched = events(ann, "argo-workflows/user-ann/long/events")
    assert (await anext(watched))["data"]["name"] == "long"
    await ann.post("argo-workflows/user-ann/long/stop", {})
    stopped = await until(ann, "user-ann/long", "stopped", "failed")
    assert (stopped["state"], stopped["message"]) == ("stopped", "")
    (await ann("POST", "argo-workflows/user-ann/long/stop", {})).refused(409)
    (await ann("DELETE", "argo-workflows/user-ann/long")).ok()
    async for event in watched:
        if event["event"] == "gone":
            break
    (await ann("GET", "argo-workflows/user-ann/long")).refused(404)


async def test_a_team_shares_its_workflows(muster: Whole, ann: Client, bob: Client) -> None:
    carl = await muster.member("carl", "ml")
    await muster.cluster.create(workflow("shared", "team-ml"))
    found = await until(carl, "team-ml/shared", "succeeded")
    assert (found["owner_name"], found["team_name"], found["may"]) == (None, "ml", ["copy", "delete"])
    assert await listed(carl, "q=shared") == await listed(ann, "q=shared") == [("argo", "shared")]
    assert await listed(bob, "q=shared") == []
    (await bob("POST", "argo-workflows/team-ml/shared/resubmit", {})).refused(404)


async def test_what_is_in_no_ones_namespace_is_for_admins(muster: Whole, ann: Client) -> None:
    await muster.cluster.create(workflow("house", "default"))
    assert await listed(muster.admin, "q=house") == [("argo", "house")]
    assert await listed(ann, "q=house") == []
    (await ann("GET", "argo-workflows/default/house")).refused(404)


async def test_secrets_are_masked(muster: Whole, ann: Client) -> None:
    secret = {"metadata": {"name": "key", "namespace": "user-ann"}, "stringData": {"token": "hunter22"}}
    await muster.cluster.create({"apiVersion": SECRET.api_version, "kind": "Secret", **secret})
    variable = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}}
    made = workflow("masked", "user-ann", "echo the token is $TOKEN")
    made["spec"]["templates"][2]["container"]["env"] = [variable]
    await muster.cluster.create(made)
    done = await until(ann, "user-ann/masked", "succeeded", "failed")
    fit = next(each for each in done["node_states"] if each["name"] == "fit")
    assert await ann.get(f"argo-workflows/user-ann/masked/nodes/{fit['id']}/log") == "the token is ***\n"


async def test_runs_of_the_platform_are_in_the_list_once(muster: Whole, ann: Client) -> None:
    await stored(ann, "flow", graph(node("a", command="true")))
    run = await ann.post("runs", {"workflow": "flow", "name": "once"})
    await ended(ann, run["id"])
    assert await listed(ann, "q=once") == [("workflow", "once")]
    (row,) = (await ann.get("runs/all?q=once"))["items"]
    assert (row["source"], row["version"], row["may"]) == ("flow", "1", ["copy", "delete"])
    # Its Workflow is changed by the rules of runs only.
    (await ann("POST", f"argo-workflows/user-ann/run-{run['id']}/resubmit", {})).refused(404)
    assert await listed(ann, f"q=run-{run['id']}&origin=argo") == []
    # A label hides nothing: there is no such run.
    await muster.cluster.create(workflow("hidden", "user-ann", metadata={"labels": {RUN_LABEL: run["id"]}}))
    assert await listed(ann, "q=hidden") == [("argo", "hidden")]


async def test_pages_go_through_everything_in_order(muster: Whole, ann: Client) -> None:
    for name in ("page-1", "page-2", "page-3"):
        await muster.cluster.create(workflow(name, "user-ann", "exit 1"))
        await until(ann, f"user-ann/{name}", "failed")
    first = await ann.get("runs/all?limit=500")
    names, cursor = [], ""
    while True:
        page = await ann.get(f"runs/all?limit=2&cursor={cursor}")
        names += [each["id"] for each in page["items"]]
        assert page["total"] == first["total"]
        cursor = page["next"]
        if not cursor:
            break
    assert names == [each["id"] for each in first["items"]] and len(names) == first["total"]
    created = [parse_time(each["created"]) for each in first["items"]]
    assert created == sorted(created, reverse=True)
    (await ann("GET", "runs/all?sort=name")).refused(422)
    (await ann("GET", "runs/all?origin=elsewhere")).refused(422)
    assert {origin for origin, _ in await listed(ann, "origin=argo")} == {"argo"}
    assert {each["state"] for each in (await ann.get("runs/all?state=failed&q=page"))["items"]} == {"failed"}


async def test_the_list_is_told_of_changes_that_the_user_may_see(muster: Whole, ann: Client, bob: Client) -> None:
    watched, others = events(ann, "runs/all/events"), events(bob, "runs/all/events")
    first = asyncio.ensure_future(anext(watched))
    theirs = asyncio.ensure_future(anext(others))
    async with asyncio.timeout(PATIENCE):
        number = 0
        while not first.done():  # the stream begins some time after the request
            number += 1
            await muster.cluster.create(workflow(f"told-{number}", "user-ann", suspend=True))
            await asyncio.wait([first], timeout=0.5)
    assert (await first)["event"] == "changed"
    assert not theirs.done()
    theirs.cancel()
    await asyncio.gather(theirs, return_exceptions=True)
