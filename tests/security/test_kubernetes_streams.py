"""Attacks with streams of the Kubernetes and Argo APIs: those that outlive the rights they began with, and those of
Pods in other namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from muster.kube.builtin import ROLE_BINDING, SERVICE_ACCOUNT
from muster.kube.objects import uid_of
from muster.kube.rbac import User
from muster.server.kubernetes import request as requests
from tests.server.argo.served import hello, serving
from tests.server.kubernetes.served import Served

_RBAC = "rbac.authorization.k8s.io"
_PODS = "/api/v1/namespaces/team/pods"
_STREAMS = [
    pytest.param(f"{_PODS}?watch=1", id="watch"),
    pytest.param(f"{_PODS}/talks/log?follow=1", id="log"),
    pytest.param("/api/v1/workflow-events/team", id="Argo watch"),
]
_WAYS = [
    pytest.param("account", id="its service account is deleted"),
    pytest.param("binding", id="its RoleBinding is removed"),
    pytest.param("role", id="its role is narrowed"),
]


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(requests, "RECHECK_SECONDS", 0.05)
    async with serving(tmp_path) as running:
        create = running.cluster.create
        for name in ("team", "other"):
            await create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        rules = [{"apiGroups": ["", "argoproj.io"], "resources": ["*"], "verbs": ["*"]}]
        for kind, more in (("Role", {"rules": rules}), ("RoleBinding", _binding())):
            await create({
                "apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": {"name": "bot", "namespace": "team"}, **more
            })  # fmt: skip
        await create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "team"}})
        container = {"name": "main", "image": "busybox"}
        for namespace in ("team", "other"):
            await create({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talks", "namespace": namespace},
                "spec": {"containers": [container]},
            })  # fmt: skip
            running.node.write(namespace, "talks", b"hello\n")
        workflow = hello("main")
        await create({**workflow, "metadata": {"name": "main", "namespace": "team"}})
        async with asyncio.timeout(20):
            while len(running.identity.grants(User("system:serviceaccount:team:bot"))) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        yield running


def _binding() -> dict[str, Any]:
    return {
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "bot"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "team"}],
    }


async def _token(served: Served) -> str:
    account = await served.cluster.get(SERVICE_ACCOUNT, "bot", "team")
    return served.identity.service_accounts.issue("team", "bot", uid_of(account))[0]


async def _end_of(response: aiohttp.ClientResponse) -> None:
    async with asyncio.timeout(30):
        async for _ in response.content.iter_any():
            pass


async def _take_away(served: Served, what: str) -> None:
    if what == "account":
        await served.cluster.delete(SERVICE_ACCOUNT, "bot", "team")
    elif what == "binding":
        await served.cluster.delete(ROLE_BINDING, "bot", "team")
    else:
        role = served.cluster.catalogue.of(f"{_RBAC}/v1", "Role")
        await served.cluster.patch(role, "bot", "team", {"rules": []})


@pytest.mark.parametrize("what", _WAYS)
@pytest.mark.parametrize("path", _STREAMS)
async def test_a_stream_ends_with_the_rights_it_began_with(served: Served, path: str, what: str) -> None:
    """A watch or log goes on after the rights to it were taken away"""
    async with served.session(await _token(served)) as http, http.get(path) as response:
        assert response.status == 200
        await _take_away(served, what)
        await _end_of(response)


@pytest.mark.parametrize("path", _STREAMS)
async def test_a_stream_ends_when_its_token_expires(served: Served, path: str) -> None:
    """A watch or log goes on after its token has expired"""
    token = served.identity.tokens.issue(
        "shortly", ["system:masters"], expires=datetime.now(UTC) + timedelta(seconds=3)
    )
    async with served.session(token) as http, http.get(path) as response:
        assert response.status == 200
        await _end_of(response)


@pytest.mark.parametrize("what", _WAYS)
async def test_a_command_ends_with_the_rights_it_began_with(served: Served, what: str) -> None:
    """A shell in a Pod stays open after the rights to it were taken away"""
    async with (
        served.session(await _token(served)) as http,
        http.ws_connect(f"{_PODS}/talks/exec?command=cat&stdin=1&stdout=1") as shell,
    ):
        await shell.receive()
        await _take_away(served, what)
        async with asyncio.timeout(30):
            while (await shell.receive()).type is not aiohttp.WSMsgType.CLOSE:
                pass
            assert shell.closed or shell.close_code == 1008


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("pods/talks/log", id="A member reads the log of a Pod in another namespace"),
        pytest.param("pods/talks/exec?command=id", id="A member runs a command in a Pod of another namespace"),
        pytest.param("pods/talks/portforward?ports=1", id="A member forwards a port of a Pod in another namespace"),
        pytest.param("pods/talks/proxy/", id="A member reaches a Pod of another namespace through a proxy"),
        pytest.param("pods/talks/attach", id="A member attaches to a Pod of another namespace"),
        pytest.param("pods?watch=1", id="A member watches the Pods of another namespace"),
        pytest.param("../team/../other/pods", id="A member leaves the namespace with dots in the path"),
        pytest.param("%2e%2e/other/pods", id="A member leaves the namespace with encoded dots"),
    ],
)
async def test_pods_of_other_namespaces_are_out_of_reach(served: Served, path: str) -> None:
    token = await _token(served)
    base = "/api/v1/namespaces/" + ("" if path.startswith("..") else "other/" if "%2e" not in path else "team/")
    async with served.session(token) as http, http.get(URL(served.url + base + path, encoded=True)) as response:
        assert response.status in (403, 404), await response.text()
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    async with served.session(token, **upgrade) as http, http.get(base + path) as response:
        assert response.status in (400, 403, 404), await response.text()
