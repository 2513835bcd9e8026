from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest

from muster.kube.builtin import POD
from muster.kube.objects import is_condition_true, spec_of, status_of
from tests.server.kubernetes.served import Served, on_standing

PODS = "/api/v1/namespaces/default/pods"


async def pod(served: Served, name: str = "web") -> None:
    await served.cluster.create({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    })  # fmt: skip


async def told(response: aiohttp.ClientResponse, status: int) -> Any:
    body = await response.read()
    assert response.status == status, body
    return orjson.loads(body)


async def test_a_log_is_plain_text(served: Served) -> None:
    served.node.write("default", "web", b"one\n")
    served.node.write("default", "web", b"two\n")
    async with served.session() as http, http.get(f"{PODS}/web/log") as response:
        assert (response.status, response.content_type) == (200, "text/plain")
        assert await response.text() == "one\ntwo\n"


async def test_following_a_log(served: Served) -> None:
    served.node.write("default", "web", b"")
    async with served.session() as http, http.get(f"{PODS}/web/log?follow=true") as response, asyncio.timeout(20):
        served.node.write("default", "web", b"now\n")
        assert await response.content.readline() == b"now\n"
        served.node.write("default", "web", b"later\n")
        assert await response.content.readline() == b"later\n"


async def test_log_options(served: Served) -> None:
    served.node.write("default", "web", b"x")
    query = "container=main&previous=true&timestamps=true&tailLines=5&limitBytes=10&sinceSeconds=60"
    async with served.session() as http:
        async with http.get(f"{PODS}/web/log?{query}") as response:
            assert response.status == 200
        async with http.get(f"{PODS}/web/log?sinceTime=2001-01-01T00:00:00Z") as response:
            assert response.status == 200
    first, second = served.node.asked
    assert (first.container, first.previous, first.timestamps, first.follow) == ("main", True, True, False)
    assert (first.tail_lines, first.limit_bytes, first.since_seconds) == (5, 10, 60)
    assert second.since_seconds is not None and second.since_seconds > 700_000_000


@on_standing
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nope/log", 404),
        ("web/log?container=other", 400),
        ("web/log?tailLines=-1", 400),
        ("web/log?tailLines=all", 400),
        ("web/log?sinceTime=noon", 400),
        ("web/log?sinceTime=2001-01-01T00:00:00Z&sinceSeconds=1", 400),
    ],
)
async def test_an_unavailable_log(standing: Served, path: str, status: int) -> None:
    standing.node.write("default", "web", b"x")
    async with standing.session() as http, http.get(f"{PODS}/{path}") as response:
        assert (await told(response, status))["kind"] == "Status"


async def test_a_binding_assigns_a_pod_to_a_node(served: Served) -> None:
    await pod(served)
    await served.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    async with served.session() as http:
        for target, status in (({"kind": "Node", "name": "n2"}, 404), ({}, 400), ({"kind": "Node", "name": "n1"}, 201)):
            async with http.post(f"{PODS}/web/binding", json={"target": target}) as response:
                await told(response, status)
        async with http.post(f"{PODS}/web/binding", json={"target": {"name": "n1"}}) as response:
            await told(response, 409)
    assert spec_of(await served.cluster.get(POD, "web", "default"))["nodeName"] == "n1"


async def test_an_eviction_is_a_deletion(served: Served) -> None:
    await pod(served)
    async with served.session() as http:
        other = {"metadata": {"name": "other"}}
        async with http.post(f"{PODS}/web/eviction", json=other) as response:
            await told(response, 400)
        async with http.post(f"{PODS}/web/eviction", json={"metadata": {"name": "web"}}) as response:
            assert (await told(response, 201))["status"] == "Success"
        async with http.get(f"{PODS}/web") as response:
            await told(response, 404)


async def test_an_evicted_pod_says_that_it_was_disrupted(served: Served) -> None:
    await pod(served)
    held = {"metadata": {"finalizers": ["x.dev/hold"]}}
    await served.cluster.patch(POD, "web", "default", held)
    body = {"metadata": {"name": "web"}}
    async with served.session() as http, http.post(f"{PODS}/web/eviction", json=body) as response:
        await told(response, 201)
    found = await served.cluster.get(POD, "web", "default")
    assert is_condition_true(status_of(found)["conditions"], "DisruptionTarget")


async def test_the_finalizers_of_a_namespace(served: Served) -> None:
    await served.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    path = "/api/v1/namespaces/team"
    async with served.session() as http:
        for finalizers, status in ((["kubernetes", "x.dev/hold"], 200), (7, 400)):
            body = {"metadata": {"name": "team"}, "spec": {"finalizers": finalizers}}
            async with http.put(f"{path}/finalize", json=body) as response:
                await told(response, status)
        async with http.delete(path) as response:
            assert (await told(response, 200))["status"]["phase"] == "Terminating"
        async with http.put(f"{path}/finalize", json={"metadata": {"name": "team"}, "spec": {}}) as response:
            await told(response, 200)
        async with http.get(path) as response:
            await told(response, 404)


async def test_a_token_for_a_service_account(served: Served) -> None:
    await served.cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "default"}}
    )
    path = "/api/v1/namespaces/default/serviceaccounts"
    async with served.session() as http:
        async with http.post(f"{path}/bot/token", json={"spec": {"expirationSeconds": 900}}) as response:
            issued = await told(response, 201)
        async with http.post(f"{path}/nobody/token", json={}) as response:
            await told(response, 404)
        bound = {"spec": {"boundObjectRef": {"kind": "Pod", "name": "web"}}}
        async with http.post(f"{path}/bot/token", json=bound) as response:
            await told(response, 404)
        await pod(served)
        async with http.post(f"{path}/bot/token", json=bound) as response:
            of_pod = (await told(response, 201))["status"]["token"]
    token = issued["status"]["token"]
    assert (await served.identity.authenticate(token)).name == "system:serviceaccount:default:bot"
    assert served.identity.service_accounts.read(of_pod).pod == "web"


async def test_ephemeral_containers_are_refused_with_an_alternative(served: Served) -> None:
    await pod(served)
    async with served.session() as http, http.get(f"{PODS}/web/ephemeralcontainers") as response:
        assert "kubectl exec" in (await told(response, 404))["message"]
