"""`pods/proxy` and `services/proxy`: HTTP to a Pod through the API, with a real server as the Pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from muster.kube.builtin import POD
from muster.kube.errors import BadRequest, Unavailable
from muster.kube.objects import Object
from muster.server.kubernetes.pod_proxy import ProxyName, parse_name, pod_port, service_backend
from muster.server.kubernetes.request import Target, parse_target, required_action
from tests.server.kubernetes.served import Served, on_standing

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str = "web", **more: Any) -> Object:
    ports = [{"name": "http", "containerPort": 8080}, {"name": "admin", "containerPort": 9090}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "busybox", "ports": more.pop("ports", ports)}]},
        **more,
    }


READY = {"podIP": "127.1.0.1", "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("web", ProxyName("web", "")),
        ("web:80", ProxyName("web", "80")),
        ("http:web:http", ProxyName("web", "http")),
        (":web:80", ProxyName("web", "80")),
        ("https:web:443", "port-forward"),
        ("a:b:c:d", "NAME:PORT"),
    ],
)
def test_names_in_urls(text: str, found: ProxyName | str) -> None:
    if isinstance(found, ProxyName):
        assert parse_name(text) == found
    else:
        with pytest.raises(BadRequest, match=found):
            parse_name(text)


@pytest.mark.parametrize(("wanted", "number"), [("", 8080), ("admin", 9090), ("77", 77), ("none", None), ("0", None)])
def test_ports_of_a_pod(wanted: str, number: int | None) -> None:
    if number is not None:
        assert pod_port(pod(), wanted) == number
    else:
        with pytest.raises(BadRequest, match="has no port"):
            pod_port(pod(), wanted)
    assert pod_port(pod(ports=[]), "") == 80


@pytest.mark.parametrize(
    ("wanted", "status", "number", "problem"),
    [
        ("", READY, None, "name one of its ports"),
        ("http", READY, 8080, ""),
        ("81", READY, 9090, ""),
        ("82", READY, None, "has no port"),
        ("http", {**READY, "conditions": []}, None, "no endpoints available"),
        ("http", {}, None, "no endpoints available"),
    ],
)
def test_pods_behind_a_service(wanted: str, status: Object, number: int | None, problem: str) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "x", "port": 81, "targetPort": 9090}]
    service = {"metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    if number is not None:
        assert service_backend(service, [pod(status=status)], wanted)[1] == number
    else:
        with pytest.raises((BadRequest, Unavailable), match=problem):
            service_backend(service, [pod(status=status)], wanted)


@pytest.mark.parametrize(
    ("path", "name", "verb"),
    [
        (f"{PODS}/web:80/proxy", "web", "get"),
        (f"{PODS}/http:web:80/proxy/a//b", "web", "get"),
        ("/api/v1/namespaces/default/services/web/proxy/x/", "web", "get"),
    ],
)
def test_a_role_names_the_pod_without_its_port(path: str, name: str, verb: str) -> None:
    target = parse_target(path)
    assert isinstance(target, Target)
    assert target.subresource == "proxy"
    action = required_action(target, "GET", {})
    assert (action.name, action.verb, action.subresource) == (name, verb, "proxy")


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    """Says what it was sent."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/away":
            raise web.HTTPFound("/elsewhere")
        told = {
            "method": request.method,
            "path": request.raw_path,
            "body": await request.text(),
            "headers": {name.lower(): value for name, value in request.headers.items()},
        }
        response = web.json_response(told, status=201 if request.method == "POST" else 200)
        response.set_cookie("a", "b")
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@on_standing
async def test_requests_reach_the_pod_without_credentials(standing: Served) -> None:
    await standing.cluster.create(pod())
    async with echo_server() as port, standing.session(Cookie="session=1") as http:
        async with http.get(f"{PODS}/web:{port}/proxy/a%2Fb/?q=1&q=2") as response:
            told = await response.json()
            assert (response.status, told["path"]) == (200, "/a%2Fb/?q=1&q=2")
            assert not told["headers"].keys() & {"authorization", "cookie", "impersonate-user"}
            assert "Set-Cookie" not in response.headers
            assert response.headers["Content-Security-Policy"].startswith("sandbox")
        async with http.post(f"{PODS}/web:{port}/proxy/", data=b"x" * 100_000) as response:
            told = await response.json()
            assert (response.status, told["method"], len(told["body"])) == (201, "POST", 100_000)
        async with http.get(f"{PODS}/web:{port}/proxy/away", allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (302, "/elsewhere")
    await standing.cluster.delete(POD, "web", "default", grace_seconds=0)


@on_standing
async def test_what_cannot_be_reached(standing: Served) -> None:
    await standing.cluster.create(pod())
    reader = standing.identity.tokens.issue("nobody")
    async with echo_server() as port:
        standing.node.foreign_ports.add(port)
        try:
            async with standing.session() as http, http.get(f"{PODS}/web:{port}/proxy/") as response:
                assert response.status == 409, "the listener belongs to another namespace"
        finally:
            standing.node.foreign_ports.clear()
        async with standing.session(reader) as http, http.get(f"{PODS}/web:{port}/proxy/") as response:
            assert response.status == 403
    async with standing.session() as http:
        for path, status in ((f"{PODS}/none:1/proxy/", 404), (f"{PODS}/web:{port}/proxy/", 503)):
            async with http.get(path) as response:
                assert response.status == status, await response.text()
    await standing.cluster.delete(POD, "web", "default", grace_seconds=0)


@on_standing
async def test_a_service_leads_to_a_ready_pod(standing: Served) -> None:
    made = await standing.cluster.create(pod())
    await standing.cluster.update({**made, "status": READY}, subresource="status")
    async with echo_server() as port:
        spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": port}]}
        metadata = {"name": "front", "namespace": "default"}
        await standing.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        path = "/api/v1/namespaces/default/services/front:http/proxy/hello"
        async with asyncio.timeout(20), standing.session() as http, http.get(path) as response:
            assert (await response.json())["path"] == "/hello"
    await standing.cluster.delete(POD, "web", "default", grace_seconds=0)
