"""The form of MLP Cooker's answers, the ways to send a token, and what a client without one can reach."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.dispatch.testing import FakeAdapter
from muster.platform.database.database import Database, sqlite_url
from muster.server.cooker.app import LARGEST_BODY
from muster.server.dispatch.settings import CookerSettings
from muster.server.platform.route_rules import COOKER_RULES
from tests.server.platform.served import PASSWORD, Served, serving

TASK = {"name": "my-job", "command": "true", "jobSpec": {"image": "python:3.11"}}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    database = await Database.open(sqlite_url(tmp_path / "platform.db"), survives_power_cut=False)
    apps = tmp_path / "apps"
    (apps / "qwen").mkdir(parents=True)
    (apps / "qwen" / "app.json").write_text(json.dumps({"name": "Qwen"}))
    cooker = CookerSettings(apps=apps)
    async with serving(database, tmp_path / "home", adapters=[FakeAdapter("cluster")], cooker=cooker) as running:
        yield running
    await asyncio.to_thread(database.close)


async def ask(served: Served, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    data = None if raw is None else io.BytesIO(raw)
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, served.url + path, data=data, headers=headers) as response,
    ):
        return response.status, json.loads(await response.read())


async def log_in(served: Served, **keys: str) -> tuple[int, Any]:
    return await ask(served, "POST", "/api/login/account", keys)


async def test_a_login_gives_a_token_that_works_in_every_form(served: Served) -> None:
    await served.user("ann")
    status, said = await log_in(served, ak="ann", sk=PASSWORD)
    assert (status, said["status"], said["type"], said["currentAuthority"]) == (200, "ok", "account", "user")
    token = said["token"]
    basic = base64.b64encode(f"token:{token}".encode()).decode()
    user: tuple[int, Any] = (200, "ann")
    for headers in ({"Authorization": f"Bearer {token}"}, {"X-Auth-Token": token}, {"Authorization": f"Basic {basic}"}):
        status, said = await ask(served, "GET", "/api/currentUser", **headers)
        assert (status, said["data"]["name"]) == user
    _, said = await ask(served, "GET", f"/api/currentUser?token={token}")
    assert said["data"]["name"] == "ann"
    _, said = await ask(served, "POST", "/api/jobs", {"token": token})
    assert (said["success"], said["data"]["jobs"]) == (True, [])
    await ask(served, "POST", f"/api/login/outLogin?token={token}")
    _, said = await ask(served, "GET", f"/api/currentUser?token={token}")
    assert said["details"]["code"] == "AUTH_FAILED"


async def test_an_api_token_is_a_secret_key_too(served: Served) -> None:
    ann = await served.user("ann")
    secret = (await ann.post("tokens", {"name": "script"}))["secret"]
    status, said = await log_in(served, ak="token", sk=secret)
    assert (status, said["token"]) == (200, secret)
    await ask(served, "POST", f"/api/login/outLogin?token={secret}")
    assert (await ask(served, "GET", f"/api/currentUser?token={secret}"))[1]["success"] is True


async def test_logins_are_limited_and_say_nothing(served: Served) -> None:
    await served.user("ann")
    for keys in (
        {},
        {"ak": "ann"},
        {"ak": "ann", "sk": "wrong"},
        {"ak": "nobody", "sk": "wrong"},
        {"ak": "t", "sk": "mst_x"},
    ):
        status, said = await log_in(served, **keys)
        assert (status, said["status"], said["currentAuthority"]) == (401, "error", "guest")
        assert "token" not in said
    for _ in range(12):
        status, said = await log_in(served, ak="ann", sk="wrong")
    assert (status, "too often" in said["message"] or "attempts" in said["message"]) == (401, True), said
    assert (await log_in(served, ak="ann", sk=PASSWORD))[0] == 401  # from this place, for a while


async def test_without_a_token_only_health_and_login_answer(served: Served) -> None:
    _, said = await ask(served, "GET", "/api/health")
    assert (said["success"], set(said)) == (True, {"success", "message", "timestamp", "version"})
    for key, rule in COOKER_RULES.items():
        method, path = key.split(" ")
        if rule.is_public:
            continue
        status, said = await ask(
            served, method, path.replace("{", "").replace("}", ""), {} if method == "POST" else None
        )
        assert (status, said["success"], said["details"]["code"]) == (200, False, "AUTH_FAILED"), key
    browser = await served.user("ann")
    reply = await browser("GET", "/api/currentUser")  # a session of the platform is not a token
    assert (reply.status, reply.body["success"]) == (200, False)


async def test_every_refusal_has_the_same_form(served: Served) -> None:
    ann = await served.user("ann")
    secret = (await ann.post("tokens", {"name": "script"}))["secret"]
    reader = (await ann.post("tokens", {"name": "reader", "scopes": ["read"]}))["secret"]
    for method, path, body, status, code in (
        ("GET", "/api/jobs/nothing/at/all", None, 404, "cooker.route"),
        ("PUT", "/api/jobs", b"", 404, "cooker.route"),
        ("GET", "/api/jobs/unknown", None, 404, "missing"),
        ("POST", "/api/jobs/create", b"{", 400, "cooker.json"),
        ("POST", "/api/jobs/create", {}, 422, "invalid"),
        ("POST", "/api/jobs/create", {"taskParams": "{"}, 422, "invalid"),
        ("POST", "/api/jobs/create", b" " * (LARGEST_BODY + 1), 413, "request.large"),
        ("GET", "/api/apps/nothing", None, 404, "missing"),
        ("GET", "/api/resources/pools/nothing", None, 404, "missing"),
    ):
        answer, said = await ask(served, method, path, body, **{"X-Auth-Token": secret})
        assert (answer, said["success"]) == (200, False), path
        assert (said["details"]["status"], said["details"]["code"]) == (status, code), said
        assert set(said) == {"success", "message", "details"}
    _, said = await ask(served, "POST", "/api/jobs/create", {"taskParams": TASK}, **{"X-Auth-Token": reader})
    assert said["details"]["status"] == 403


async def test_pools_queues_and_apps(served: Served) -> None:
    ann = await served.user("ann")
    headers = {"X-Auth-Token": (await ann.post("tokens", {"name": "script"}))["secret"]}
    _, said = await ask(served, "GET", "/api/resources/pools", **headers)
    assert [pool["resourcePoolId"] for pool in said["data"]["resourcePools"]] == ["muster"]
    _, said = await ask(served, "GET", "/api/resources/pools/muster", **headers)
    assert said["data"]["resourcePool"]["name"] == "muster"
    _, said = await ask(served, "GET", "/api/resources/queues?includeDetails=true", **headers)
    assert said["data"]["totalCount"] == len(said["data"]["queues"])
    _, said = await ask(served, "GET", "/api/apps", **headers)
    assert [app["id"] for app in said["data"]] == ["qwen"]
    _, said = await ask(served, "GET", "/api/apps/..%2F..%2Fhome", **headers)
    assert said["success"] is False
