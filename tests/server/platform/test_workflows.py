"""Workflows and versions over HTTP, on SQLite and on PostgreSQL."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.kube.manifests import load_manifests
from tests.platform.graphs.samples import CONTEXT, graph, node, seed_example
from tests.server.platform.served import Client, Served

SECRET = graph(node("a", env=[{"name": "KEY", "value": "hunter2", "secret": True}]))


@pytest.fixture
async def ann(served: Served) -> AsyncIterator[Client]:
    served.platform.load_context = lambda *_: CONTEXT
    yield await served.user("ann")


async def made(client: Client, name: str = "demo", document: Any = None) -> Any:
    return await client.post("workflows", {"name": name, "version": {"document": document or seed_example()}})


async def test_from_the_first_version_to_the_archive(served: Served, ann: Client) -> None:
    created = await made(ann)
    assert (created["workflow_name"], created["version"]["number"], created["notes"]) == ("demo", 1, [])

    changed = copy.deepcopy(seed_example())
    changed["nodes"][1]["image"] = "alpine"
    second = await ann.post("workflows/demo/versions", {"name": "alpine", "document": changed})
    assert (second["version"]["number"], second["version"]["name"]) == (2, "alpine")

    listed = await ann.get("workflows/demo/versions")
    assert [(v["number"], v["nodes"], v["author_name"]) for v in listed["items"]] == [(2, 2, "ann"), (1, 2, "ann")]
    assert "document" not in listed["items"][0]

    difference = await ann.get("workflows/demo/versions/1/diff?to=latest")
    assert [change["text"] for change in difference["changes"]] == ['image of step2 changed from "busybox" to "alpine"']

    fork = {"workflow": {"name": "fork", "description": "mine"}, "version": {"name": "first"}}
    copied = await ann.post("workflows/demo/versions/alpine/copy", fork)
    assert copied["version"]["copied_from"] == second["version"]["id"]
    assert copied["version"]["hash"] == second["version"]["hash"]
    again = await ann.post("workflows/demo/versions/1/copy", {})
    assert (again["workflow_name"], again["version"]["number"]) == ("demo", 3)

    await ann.post("workflows/demo/versions/3/archive")
    assert (await ann.get("workflows/demo/versions/latest"))["number"] == 2
    assert (await ann.get("workflows/demo/versions?archived=only"))["total"] == 1
    await ann.post("workflows/demo/archive")
    assert [w["name"] for w in (await ann.get("workflows"))["items"]] == ["fork"]
    (await ann("POST", "workflows/demo/versions", {"document": changed})).refused(409)
    await ann.post("workflows/demo/restore")
    assert (await ann.get("workflows?archived=too&sort=name"))["total"] == 2
    assert (await ann("DELETE", "workflows/fork")).status == 204
    (await ann("GET", "workflows/fork")).refused(404)
    audit = await served.admin.get("audit?kind=version&limit=100")
    assert {entry["action"] for entry in audit["items"]} == {"create", "archive"}


async def test_a_version_is_returned_completely_and_has_an_etag(ann: Client) -> None:
    document = graph(node("a"), parameters=[{"name": "lr", "default": "0.1"}, {"name": "must", "required": True}])
    created = await made(ann, document=document)
    first = await ann("GET", "workflows/demo/versions/v1")
    assert first.ok()["document"]["nodes"][0]["command"] == "true"
    assert [(p["name"], p["default"], p["required"]) for p in first.body["parameters"]] == [
        ("lr", "0.1", False),
        ("must", None, True),
    ]
    assert (await ann.get(f"versions/{created['version']['id']}")) == first.body
    again = await ann("GET", "workflows/demo/versions/v1", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, "")
    drawn = await ann("GET", "workflows/demo/versions/v1/graph")
    assert [node["key"] for node in drawn.ok()["scopes"][""]["nodes"]] == ["a"]
    again = await ann("GET", "workflows/demo/versions/v1/graph", headers={"If-None-Match": drawn.headers["ETag"]})
    assert (again.status, again.body) == (304, "")


async def test_concurrent_changes_do_not_overwrite_each_other(ann: Client) -> None:
    await made(ann)
    tag = (await ann("GET", "workflows/demo")).headers["ETag"]
    edited = await ann("PATCH", "workflows/demo", {"description": "better"}, headers={"If-Match": tag})
    assert edited.ok()["description"] == "better"
    (await ann("PATCH", "workflows/demo", {"name": "x"}, headers={"If-Match": tag})).refused(412)
    stale = await ann("POST", "workflows/demo/versions", {"document": seed_example()}, headers={"If-Match": tag})
    stale.refused(412)
    fresh = {"If-Match": edited.headers["ETag"]}
    assert (await ann("POST", "workflows/demo/versions", {"document": seed_example()}, headers=fresh)).status == 201


async def test_problems_list_each_field_and_a_code(ann: Client) -> None:
    bad = graph(node("a", task={"type": "compute", "cluster": "A100"}), node("b"), edges="a>b b>a")
    refused = (await ann("POST", "workflows", {"name": "x", "version": {"document": bad}})).refused(422)
    by_field = {error["field"]: error for error in refused["errors"]}
    cluster = by_field["version.document.nodes[0].task.cluster"]
    assert cluster["code"] == "task.cluster"
    assert cluster["arguments"] == {"cluster": "A100", "clusters": ["RTX2080x8", "cpu-only"]}
    assert "use one of RTX2080x8, cpu-only" in cluster["message"]
    assert by_field["version.document.edges[1]"]["code"] == "cycle"

    checked = await ann.post("graphs/check", {"document": graph(node("a", command="echo $x"))})
    assert [(p["code"], p["severity"]) for p in checked["problems"]] == [("command.undeclared", "warning")]
    assert (await ann.get("graphs/schema"))["properties"]["nodes"]["type"] == "array"


async def test_a_manifest_is_imported_and_exported(ann: Client) -> None:
    await made(ann)
    reply = await ann("GET", "workflows/demo/versions/1/manifest")
    assert reply.headers["Content-Type"].startswith("application/yaml")
    (exported,) = load_manifests(reply.ok(), "exported")
    assert exported.object["kind"] == "Workflow"
    imported = await ann.post("graphs/import", {"manifest": reply.body})
    assert imported["problems"] == []
    assert imported["document"]["nodes"][0]["name"] == "step1"
    stored = await ann.post("workflows/demo/versions", {"manifest": reply.body})
    assert (stored["version"]["type"], stored["version"]["hash"]) == (
        "graph",
        (await ann.get("workflows/demo/versions/1"))["hash"],
    )
    refused = (await ann("POST", "workflows/demo/versions", {"manifest": "kind: Pod"})).refused(422)
    assert refused["errors"][0]["field"] == "manifest"


async def test_secrets_are_not_shown_to_others(served: Served, ann: Client) -> None:
    await made(ann, document=SECRET)
    eve = await served.user("eve")
    assert (await ann.get("workflows/demo/versions/1"))["document"]["nodes"][0]["env"][0]["value"] == "hunter2"
    seen = await eve.get("workflows/demo/versions/1")
    assert seen["hidden"]
    assert seen["document"]["nodes"][0]["env"] == [{"name": "KEY", "secret": True}]
    for path in ("versions/1/manifest", "versions/1/diff?to=1", "versions"):
        assert "hunter2" not in str((await eve("GET", f"workflows/demo/{path}")).ok())
    fork = (await eve("POST", "workflows/demo/versions/1/copy", {"workflow": {"name": "fork"}})).refused(422)
    assert fork["errors"][0]["code"] == "env.secret-value"
    (await eve("POST", "workflows/demo/versions", {"document": seed_example()})).refused(403)
    (await eve("PATCH", "workflows/demo", {"name": "mine"})).refused(403)
    assert (await eve.get("workflows/demo"))["may"] == []
    (await eve("DELETE", "workflows/demo")).refused(403)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("workflows", {"name": "x", "version": {}}, "version.document"),
        ("workflows", {"name": " x", "version": {"document": seed_example()}}, "name"),
        ("workflows", {"name": "x", "version": {"document": {"format": 9}}}, "version.document.format"),
        ("workflows", {"name": "x", "versoin": {}}, "versoin"),
        ("workflows/demo/versions", {"name": "7", "document": seed_example()}, "name"),
        ("workflows/demo/versions/1/copy", {"into": "demo", "workflow": {"name": "y"}}, "into"),
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_bad_requests_name_the_field(ann: Client, path: str, body: Any, field: str) -> None:
    await made(ann)
    refused = (await ann("POST", path, body)).refused(422)
    assert field in {error["field"] for error in refused["errors"]}
