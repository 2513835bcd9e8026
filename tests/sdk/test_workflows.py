"""The client against the real API."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from muster.platform.users.credentials import local_token
from muster.sdk import Muster, PlatformError
from tests.platform.graphs.samples import graph, node, seed_example
from tests.server.platform.served import Served

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def client(served: Served) -> Muster:
    return Muster(served.url, local_token(served.folder))


async def test_every_method_for_workflows(served: Served) -> None:
    muster = client(served)

    def story() -> None:
        workflows = muster.workflows
        stored = workflows.create("a", seed_example(), description="d")
        assert (stored.workflow_name, stored.version.number, stored.notes) == ("a", 1, [])
        assert isinstance(workflows.get("a").created, datetime)
        assert workflows.add_version("a", workflows.manifest("a"), name="from yaml").version.number == 2
        assert workflows.version("a", "from yaml").hash == stored.version.hash
        assert workflows.diff("a", "1") == []
        assert workflows.document("a")["nodes"][0]["name"] == "step1"
        assert workflows.copy_version("a", "1", new_workflow="b").workflow_name == "b"
        assert workflows.copy_version("a", "1", content=graph(node("x"))).version.nodes == 1
        assert workflows.edit("b", description="new", revision=workflows.get("b").revision).description == "new"
        workflows.archive("a", "3")
        workflows.archive("b")
        assert [w.name for w in workflows.list()] == ["a"]
        assert [w.name for w in workflows.list(archived="too", sort="name")] == ["a", "b"]
        workflows.restore("b")
        workflows.delete("b")
        assert [version.number for version in workflows.versions("a")] == [3, 2, 1]
        assert [scope["edges"] for scope in workflows.graph("a")["scopes"].values()] == [[[0, 1]]]
        assert [finding.code for finding in workflows.check(graph())] == ["graph.empty"]
        assert workflows.import_manifest("a: [").document is None

    await asyncio.to_thread(story)


async def test_a_long_list_is_read_page_by_page(served: Served) -> None:
    muster = client(served)

    def story() -> None:
        for number in range(7):
            muster.workflows.create(f"wf {number}", graph(node("a")))
        names = [w.name for w in muster.workflows.list(sort="name")]
        assert names == [f"wf {number}" for number in range(7)]
        assert [w.name for w in muster.workflows.list(sort="name", most=3)] == names[:3]

    await asyncio.to_thread(story)


async def test_a_refused_request_raises_an_error_with_its_reasons(served: Served) -> None:
    muster = client(served)

    def story() -> None:
        with pytest.raises(PlatformError) as missing:
            muster.workflows.get("nobody")
        assert (missing.value.status, missing.value.type) == (404, "not-found")
        with pytest.raises(PlatformError) as wrong:
            muster.workflows.create("x", graph())
        assert wrong.value.errors[0].code == "graph.empty"
        with pytest.raises(PlatformError) as stranger:
            Muster(served.url, "mst_nonsense").workflows.get("x")
        assert stranger.value.status == 401
        with pytest.raises(PlatformError, match="does not respond"):
            Muster("http://127.0.0.1:1", "x").workflows.get("x")
        with pytest.raises(PlatformError, match="is not a URL"):
            Muster("localhost:80", "x")

    await asyncio.to_thread(story)
