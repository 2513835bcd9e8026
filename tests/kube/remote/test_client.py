"""The client against a server with scripted responses. Tests against our own API are in tests/server/kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from muster.kube.builtin import NODE, POD
from muster.kube.cluster import Endpoint
from muster.kube.errors import Gone, NotFound, Unavailable
from muster.kube.objects import name_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import Access
from tests.http_server import serve_http


class Script:
    """Responds in order with an object, an error code, or pieces of a stream. Records the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((request.method, request.path, dict(request.query), orjson.loads(body) if body else None))
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            return web.Response(status=answer)
        if isinstance(answer, dict):
            return web.json_response(answer)
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in answer:
            await response.write(piece)
            await asyncio.sleep(0)
        return response


@asynccontextmanager
async def client(*answers: Any) -> AsyncIterator[tuple[RemoteCluster, Script]]:
    script = Script(*answers)
    async with (
        serve_http(script.__call__) as port,
        RemoteCluster(Access(f"http://127.0.0.1:{port}", namespace="team")) as cluster,
    ):
        yield cluster, script


def pods(*names: str, version: str = "7", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "PodList",
        "metadata": {"resourceVersion": version, **metadata},
        "items": [{"metadata": {"name": name}} for name in names],
    }


async def test_a_whole_list_is_fetched_in_pages() -> None:
    async with client(pods("a", "b", **{"continue": "next"}), pods("c")) as (cluster, script):
        listing = await cluster.list(POD, labels="app=web")
    assert [name_of(pod) for pod in listing.items] == ["a", "b", "c"]
    assert listing.resource_version == "7" and not listing.continue_
    assert [asked[2] for asked in script.asked] == [
        {"labelSelector": "app=web", "limit": "1000"},
        {"labelSelector": "app=web", "limit": "1000", "continue": "next"},
    ]


async def test_the_items_of_a_list_say_what_they_are() -> None:
    async with client(pods("a")) as (cluster, _):
        (pod,) = (await cluster.list(POD, "team")).items
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")


async def test_pages_that_took_too_long_are_fetched_again_in_one() -> None:
    async with client(pods("a", **{"continue": "next"}), 410, pods("a", "b", version="9")) as (cluster, script):
        listing = await cluster.list(POD)
    assert (len(listing.items), listing.resource_version) == (2, "9")
    assert "limit" not in script.asked[-1][2]


async def test_one_page_where_that_is_asked_for() -> None:
    answer = pods("a", remainingItemCount=5, **{"continue": "next"})
    async with client(answer) as (cluster, script):
        listing = await cluster.list(POD, "team", limit=1, continue_="here")
    assert (listing.continue_, listing.remaining) == ("next", 5)
    assert script.asked[0][1:3] == ("/api/v1/namespaces/team/pods", {"limit": "1", "continue": "here"})


EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}\n'


@pytest.mark.parametrize("pieces", [[EVENT, EVENT], [EVENT + EVENT], [EVENT[:20], EVENT[20:] + EVENT[:3], EVENT[3:]]])
async def test_events_arrive_whole_however_they_are_cut(pieces: list[bytes]) -> None:
    async with client(pieces) as (cluster, script):
        events = [event async for event in cluster.watch(POD, resource_version="7", bookmarks=True)]
    assert [(event.type, name_of(event.object), event.object["kind"]) for event in events] == [
        ("ADDED", "a", "Pod")
    ] * 2
    query = script.asked[0][2]
    assert query.pop("timeoutSeconds")
    assert query == {"watch": "true", "resourceVersion": "7", "allowWatchBookmarks": "true"}


async def test_a_version_too_old_is_gone() -> None:
    gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
    async with client([EVENT, gone]) as (cluster, _):
        with pytest.raises(Gone, match="too old"):
            _ = [event async for event in cluster.watch(POD, resource_version="1")]
    async with client(410) as (cluster, _):
        with pytest.raises(Gone):
            _ = [event async for event in cluster.watch(POD, resource_version="1")]


async def test_something_that_is_no_event() -> None:
    async with client([b"<html>\n"]) as (cluster, _):
        with pytest.raises(Unavailable, match="not an event"):
            _ = [event async for event in cluster.watch(POD)]


async def test_where_requests_go() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    async with client(*[pod] * 7) as (cluster, script):
        await cluster.create(pod)
        await cluster.get(POD, "web", "other")
        await cluster.update(pod, subresource="status", dry_run=True)
        await cluster.patch(POD, "web", "", {"a": 1}, type="apply", field_manager="me", force=True)
        await cluster.get(NODE, "n1")
        await cluster.delete(POD, "web", propagation="Foreground", grace_seconds=0, uid="u")
        await cluster.table(POD, labels="a=b")
    writing = {"fieldManager": "muster", "fieldValidation": "Strict"}
    assert script.asked == [
        ("POST", "/api/v1/namespaces/team/pods", writing, pod),
        ("GET", "/api/v1/namespaces/other/pods/web", {}, None),
        ("PUT", "/api/v1/namespaces/team/pods/web/status", {**writing, "dryRun": "All"}, pod),
        ("PATCH", "/api/v1/namespaces/team/pods/web", {**writing, "fieldManager": "me", "force": "true"}, {"a": 1}),
        ("GET", "/api/v1/nodes/n1", {}, None),
        ("DELETE", "/api/v1/namespaces/team/pods/web", {}, {
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"},
        }),
        ("GET", "/api/v1/pods", {"includeObject": "Metadata", "labelSelector": "a=b"}, None),
    ]  # fmt: skip


async def test_a_deletion_that_is_only_confirmed() -> None:
    done = {"kind": "Status", "status": "Success", "details": {"uid": "u-1"}}
    async with client(done) as (cluster, _):
        last = await cluster.delete(POD, "web", "team")
    assert last["metadata"] == {"name": "web", "namespace": "team", "uid": "u-1"}


def groups(*items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "items": list(items)}


def group(name: str, kind: str, plural: str) -> dict[str, Any]:
    resource = {"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list"]}
    return {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": [resource]}]}


async def test_kinds_are_asked_for_when_one_is_needed() -> None:
    widget = {"apiVersion": "acme.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
    answers = groups(group("", "Pod", "pods")), groups(group("acme.io", "Widget", "widgets")), widget
    async with client(*answers) as (cluster, script):
        assert name_of(await cluster.create(widget)) == "w"
        # What Muster knows of a kind is kept; kinds that the server lacks are removed.
        assert await cluster.find("pods") is POD
        with pytest.raises(NotFound):
            await cluster.find("nodes")
        with pytest.raises(NotFound):
            await cluster.create({**widget, "kind": "Gadget"})
    assert [asked[1] for asked in script.asked] == ["/api", "/apis", "/apis/acme.io/v1/namespaces/team/widgets"]


async def test_kinds_of_an_older_server() -> None:
    listed = {
        "groupVersion": "acme.io/v1",
        "resources": [{"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": ["list"]}],
    }
    core = {
        "groupVersion": "v1",
        "resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]}],
    }
    versions = [{"groupVersion": "acme.io/v1"}]
    answers = {"kind": "APIVersions", "versions": ["v1"]}, core, {"groups": [{"versions": versions}]}, listed
    async with client(*answers) as (cluster, _):
        assert (await cluster.find("widgets")).kind == "Widget"


async def test_what_is_not_an_api_server() -> None:
    async with client([b"<html>hello</html>"]) as (cluster, _):
        with pytest.raises(Unavailable, match="not a Kubernetes object"):
            await cluster.get(POD, "web")


async def test_the_address_of_a_pod_is_its_name() -> None:
    async with client() as (cluster, _):
        assert await cluster.endpoint("web-0", "team", 2222, owner={}) == Endpoint("web-0", 2222, ".team.svc")
