"""Routes of the Kubernetes and Argo APIs: none of them answers without a token."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.objects import join_api_version
from muster.server.argo.app import _downloads, _routes, argo_app
from muster.server.argo.artifacts import Downloads
from muster.server.kubernetes.app import kube_app
from muster.training.registry import training_kinds
from muster.workflows.kinds import workflow_kinds


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[ASGIApp]:
    catalogue = new_catalogue()
    for kind in (*training_kinds(), *workflow_kinds()):
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path / "store", catalogue, durability="process") as cluster:
        identity = Identity.open(tmp_path / "identity", cluster)
        reader: Any = object()
        yield argo_app(cluster, identity, kube_app(cluster, identity), artifacts=reader, metrics=lambda _: "")


async def ask(app: ASGIApp, method: str, path: str, token: str = "") -> tuple[int, bytes]:
    sent: list[Message] = []
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "root_path": "", "scheme": "https", "http_version": "1.1", "client": ("192.0.2.1", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


async def test_argo(app: ASGIApp) -> None:
    """A stranger uses every route of the Argo API without a token, or with one that was made up"""
    reader: Any = object()
    routes = [*_routes(), *_downloads(Downloads(reader))]
    assert len(routes) > 60
    for route in routes:
        path = "/" + re.sub(r"\{[^}]+\}", "default", "/".join(route.pattern))
        for token in ("", "made-up", "mst_" + "0" * 64):
            assert (await ask(app, route.method, path, token))[0] == 401, (route.method, path)


async def test_kubernetes(app: ASGIApp) -> None:
    """A stranger reads, writes and deletes every kind of the Kubernetes API without a token"""
    catalogue = new_catalogue()
    for kind in (*training_kinds(), *workflow_kinds(), *catalogue):
        base = join_api_version(kind.group, kind.version)
        root = f"/apis/{base}" if kind.group else f"/api/{base}"
        for method, path in (("GET", kind.plural), ("POST", kind.plural), ("DELETE", f"{kind.plural}/x")):
            assert (await ask(app, method, f"{root}/namespaces/default/{path}"))[0] == 401, (method, path)


@pytest.mark.parametrize("path", ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/metrics", "/", "/logs"])
async def test_descriptions(app: ASGIApp, path: str) -> None:
    """A stranger asks the Kubernetes API what there is"""
    assert (await ask(app, "GET", path))[0] == 401


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_public_paths(app: ASGIApp, path: str) -> None:
    """A stranger learns more from a public path than that the server runs"""
    status, body = await ask(app, "GET", path)
    assert status == 200
    assert len(body) < 700
