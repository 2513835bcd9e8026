"""Attacks with texts that take long to parse, lint or compile. Workers check them, with limits on time and memory, so
that nobody else waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from muster.embedded.auth.identity import Identity
from muster.kube.budgets import Budgets
from muster.platform.database.database import Database
from muster.server.workers import WorkerPool
from tests.server.argo.served import serving as serving_kubernetes
from tests.server.kubernetes.served import Served as ServedKubernetes
from tests.server.platform.served import Served, serving

pytestmark = [
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),
    pytest.mark.timeout(120),
]
BUDGETS = replace(Budgets(), check_seconds=60)
_CONTAINER = {"image": "busybox", "command": ["true"]}


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with WorkerPool(BUDGETS) as workers, serving(database, tmp_path / "home") as running:
        running.platform.workers = workers
        yield running


@pytest.fixture
async def kubernetes(tmp_path: Path, database_url: str) -> AsyncIterator[ServedKubernetes]:
    async with (
        WorkerPool(replace(BUDGETS, object_check_seconds=1)) as workers,
        serving_kubernetes(tmp_path, workers=workers) as running,
    ):
        assert isinstance(running.identity, Identity)
        yield running


def _nested(count: int, **spec: Any) -> dict[str, Any]:
    """A workflow of templates that call one another."""
    templates: list[dict[str, Any]] = [
        {"name": f"t{number}", "steps": [[{"name": "a", "template": f"t{number + 1}"}]]} for number in range(count)
    ]
    templates.append({"name": f"t{count}", "container": _CONTAINER})
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "nested"},
        "spec": {"entrypoint": "t0", "templates": templates, **spec},
    }


async def test_unknown_fields_of_an_imported_manifest(served: Served) -> None:
    """A member imports 200 KB of unknown fields, each of which is compared with every known one"""
    member = await served.user("eve")
    manifest = orjson.dumps(_nested(1, **{f"unknownField{number}": 1 for number in range(10_000)})).decode()
    found = await member.post("graphs/import", {"manifest": manifest})
    assert found["document"] is None
    assert len(found["problems"]) <= 101


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("graphs/import", id="A member imports a manifest that takes long to check"),
        pytest.param(
            "workflows", id="A member stores a workflow that takes long to check, and other users cannot write"
        ),
        pytest.param("jobs/validate", id="A member validates a job manifest that takes long to read"),
    ],
)
async def test_others_write_while_a_text_is_checked(served: Served, path: str) -> None:
    """A text that takes long to check ends with an error, and others can write meanwhile"""
    eve, ada = await served.user("eve"), await served.user("ada", "admin")
    manifest = orjson.dumps(_nested(9_000)).decode()
    body: Any = {"manifest": manifest}
    if path == "workflows":
        body = {"name": "large", "version": {"manifest": manifest}}
    async with WorkerPool(replace(BUDGETS, check_seconds=1)) as impatient:
        served.platform.workers = impatient
        checked = asyncio.create_task(eve("POST", path, body))
        (await ada("POST", "teams", {"name": "team"})).ok()
        refused = (await checked).refused(400)
    assert "budgets.checkSeconds" in refused["detail"]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"": 1}, id="A document with a field that has no name"),
        pytest.param({"nodes": 1}, id="A document whose nodes are a number"),
        pytest.param({"nodes": [1, None, [], "x"]}, id="A document whose nodes are no objects"),
        pytest.param({"nodes": [{"name": {}, "env": 1, "module": []}]}, id="A node whose fields have the wrong types"),
        pytest.param({"type": "yaml", "manifest": "\x00"}, id="A manifest of a NUL byte"),
        pytest.param({"type": "yaml", "manifest": "[" * 5000}, id="A manifest that is nested too deeply"),
        pytest.param({"format": "1" * 5000}, id="A format that is a long text"),
    ],
)
async def test_an_odd_document_is_refused_with_a_reason(served: Served, document: Any) -> None:
    eve = await served.user("eve")
    (await eve("POST", "workflows", {"name": "odd", "version": {"document": document}})).refused(422)
    assert (await eve.post("graphs/check", {"document": document}))["problems"]


async def test_a_run_is_compiled_by_a_worker(served: Served) -> None:
    """A run of a large workflow is compiled inside of the server"""
    eve = await served.user("eve")
    body = {"name": "nested", "version": {"manifest": orjson.dumps(_nested(3)).decode()}}
    await eve.post("workflows", body)
    run = await eve.post("runs", {"workflow": "nested"})
    assert run["state"] == "waiting"
    assert served.platform.workers is not None
    await served.platform.workers.__aexit__()  # without workers, nothing is compiled
    (await eve("POST", "runs", {"workflow": "nested"})).refused(503)


async def test_one_member_does_not_take_all_workers(served: Served) -> None:
    """A member sends many texts at once, so that those of others wait"""
    eve, ada = await served.user("eve"), await served.user("ada")
    manifest = orjson.dumps(_nested(3_000)).decode()
    async with WorkerPool(replace(BUDGETS, user_checks=4)) as pool:
        served.platform.workers = pool
        many = [asyncio.create_task(eve("POST", "graphs/import", {"manifest": manifest})) for _ in range(12)]
        small = {"manifest": orjson.dumps(_nested(1)).decode()}
        assert (await ada("POST", "graphs/import", small)).status == 200
        statuses = [(await each).status for each in many]
    assert statuses.count(429) >= 1
    assert set(statuses) <= {200, 429}


async def test_a_large_object_is_checked_before_the_store_gets_it(kubernetes: ServedKubernetes) -> None:
    """An object of megabytes that takes seconds to validate blocks the cluster's store"""
    async with kubernetes.session(**{"Content-Type": "application/json"}) as http:
        workflow = _nested(40_000)
        for path, body in (
            ("/apis/argoproj.io/v1alpha1/namespaces/default/workflows", workflow),
            ("/api/v1/workflows/default", {"workflow": workflow}),
        ):
            async with http.post(path, data=BytesIO(orjson.dumps(body))) as response:
                assert response.status == 400
                assert "budgets.objectCheckSeconds" in await response.text()
        data = {"metadata": {"name": "large"}, "data": {f"k{number}": "v" * 50 for number in range(5_000)}}
        async with http.post("/api/v1/namespaces/default/configmaps", json=data) as response:
            assert response.status == 201, await response.text()


async def test_a_large_yaml_body_is_read_by_a_worker(kubernetes: ServedKubernetes) -> None:
    """YAML of megabytes takes the event loop's time"""
    lines = "".join(f"  k{number}: {'v' * 50}\n" for number in range(5_000))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: yaml}}\ndata:\n{lines}"
    async with kubernetes.session(**{"Content-Type": "application/yaml"}) as http:
        path = "/api/v1/namespaces/default/configmaps"
        async with http.post(path, data=text.encode()) as response:
            assert response.status == 201, await response.text()
        async with http.post(path, data=(text + "data: 1\n").encode()) as response:
            assert response.status == 400
            assert "already set" in await response.text()


async def test_selectors_of_events_are_evaluated_by_a_worker(kubernetes: ServedKubernetes) -> None:
    """A member has many WorkflowEventBindings with slow selectors, and sends one event"""
    path = "/apis/argoproj.io/v1alpha1/namespaces/default/workfloweventbindings"
    slow = {"event": {"selector": "len(filter(1..400, len(filter(1..400, # > 0)) > 0)) < 0"}}
    async with kubernetes.session() as http:
        for number in range(20):
            async with http.post(path, json={"metadata": {"name": f"b{number}"}, "spec": slow}) as response:
                assert response.status == 201, await response.text()
        sent = asyncio.create_task(_post_event(http))
        longest = 0.0
        while not sent.done():
            before = asyncio.get_running_loop().time()
            await asyncio.sleep(0.01)
            longest = max(longest, asyncio.get_running_loop().time() - before)
    assert "takes more than 200000 steps" in await sent
    assert longest < 1, "the server, which runs on this event loop, did nothing else meanwhile"


async def _post_event(http: aiohttp.ClientSession) -> str:
    async with http.post("/api/v1/events/default/x", json={"a": 1}) as response:
        return await response.text()
