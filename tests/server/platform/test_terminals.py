"""A terminal in the browser: a shell in a Pod, its size, its end, and who may have one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.kube.builtin import POD
from muster.platform.database.database import Database
from tests.server.platform.served import Client, serving
from tests.server.proxy.scene import Scene, opened

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def scene(database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    async with serving(database, tmp_path / "home") as served, opened(served) as scene:
        cluster = served.platform.cluster
        await cluster.patch(POD, "lab", scene.namespace, {"status": {"phase": "Running"}}, subresource="status")
        yield scene


@asynccontextmanager
async def terminal(
    scene: Scene, client: Client, path: str = "", **headers: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    url = f"{scene.served.url}/api/v1/pods/{path or f'{scene.namespace}/lab'}/terminal"
    sent = {"Origin": scene.served.url, **client._headers, **headers}
    async with (
        aiohttp.ClientSession(cookie_jar=client.jar) as session,
        session.ws_connect(url, headers={name: value for name, value in sent.items() if value}) as ws,
    ):
        yield ws


async def refusal(scene: Scene, client: Client, path: str = "", **headers: str) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with terminal(scene, client, path, **headers):
            pass
    return error.value.status


async def test_a_shell_answers_and_ends(scene: Scene) -> None:
    async with terminal(scene, scene.ann) as ws, asyncio.timeout(20):
        await ws.send_str('{"rows": 30, "columns": 100}')
        await ws.send_bytes(b"echo $((6 * 7)); exit 3\n")
        shown, last = b"", ""
        async for message in ws:
            if message.type is aiohttp.WSMsgType.BINARY:
                shown += message.data
            else:
                last = message.data
    assert b"42" in shown
    assert last == '{"exit":3}'
    entries = (await scene.served.admin.get("audit?kind=pod"))["items"]
    assert [(entry["action"], entry["subject_name"]) for entry in entries] == [("exec", f"{scene.namespace}/lab")]


async def test_messages_that_mean_nothing_are_ignored(scene: Scene) -> None:
    async with terminal(scene, scene.ann) as ws, asyncio.timeout(20):
        for text in ("", "x", "[]", '{"rows": -1, "columns": 1}', '{"rows": "a", "columns": 99999999}'):
            await ws.send_str(text)
        await ws.send_bytes(b"exit\n")
        assert [m.data async for m in ws if m.type is aiohttp.WSMsgType.TEXT] == ['{"exit":0}']


async def test_who_may_open_one(scene: Scene) -> None:
    assert await refusal(scene, scene.served.client()) == 401
    assert await refusal(scene, scene.ben) == 403
    assert await refusal(scene, scene.ben, f"{scene.namespace}/no-such-pod") == 403
    assert await refusal(scene, scene.ann, f"{scene.namespace}/no-such-pod") == 404
    reader = scene.served.client((await scene.ann.post("tokens", {"name": "r", "scopes": ["read"]}))["secret"])
    assert await refusal(scene, reader) == 403
    script = scene.served.client((await scene.ann.post("tokens", {"name": "s"}))["secret"])
    async with terminal(scene, script, Origin=""):
        pass


@pytest.mark.parametrize("origin", ["", "null", "http://evil.example", "http://127.0.0.1:1"])
async def test_pages_of_others_open_none(scene: Scene, origin: str) -> None:
    assert await refusal(scene, scene.ann, Origin=origin) == 403


async def test_a_pod_that_does_not_run_has_none(scene: Scene) -> None:
    cluster: Any = scene.served.platform.cluster
    await cluster.patch(POD, "lab", scene.namespace, {"status": {"phase": "Succeeded"}}, subresource="status")
    assert await refusal(scene, scene.ann) == 409


async def test_it_ends_with_the_session(scene: Scene) -> None:
    async with terminal(scene, scene.ann) as ws, asyncio.timeout(20):
        (await scene.ann("DELETE", "session")).ok()
        message = await ws.receive()
        while message.type is aiohttp.WSMsgType.BINARY:
            message = await ws.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1008)


async def test_an_unknown_path(scene: Scene) -> None:
    assert await refusal(scene, scene.ann, "a/b/c") == 403
