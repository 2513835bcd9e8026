"""A terminal in the browser: a shell in a Pod, its size, its end, and who may have one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from muster.kube.builtin import POD
from muster.kube.objects import status_of
from muster.kube.remote.exec_stream import V5, RemoteProcess
from muster.platform.database.database import Database
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client, serving
from tests.server.platform.whole import ended, eventually, stored, whole_muster
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


async def enter(client: Client, path: str, *command: str) -> tuple[int, str]:
    """Runs a command as `muster debug` does. Returns its exit code, and what it printed."""
    query = urlencode({"command": command}, doseq=True)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{client.url}/api/v1/pods/{path}/terminal?{query}", headers=client._headers, protocols=[V5])
        as ws,
    ):  # fmt: skip
        process = RemoteProcess(ws)
        printed = b"".join([data async for _, data in process.output()])
        code = await process.wait()
        await process.close()
    return code, printed.decode()


async def test_the_owner_of_a_run_enters_a_node_that_failed(database_url: str, tmp_path: Path) -> None:
    async with whole_muster(tmp_path / "home", database_url) as muster:
        ann, ben = await muster.member("ann"), await muster.member("ben")
        await muster.admin.post("teams", {"name": "both"})
        for name in ("ann", "ben"):
            (await muster.admin("PUT", f"teams/both/members/{name}", {"role": "leader"})).ok()
        await stored(ann, "flaky", graph(node("fit", command="echo half > /tmp/notes; exit 3")), team="both")
        run = await ended(ann, (await ann.post("runs", {"workflow": "flaky"}))["id"])
        (pod,) = await ann.get(f"runs/{run['id']}/nodes/fit/pods")
        path = f"{run['namespace']}/{pod['name']}"
        assert (run["state"], pod["phase"]) == ("failed", "Failed")
        assert await enter(ann, path, "sh", "-c", "cat /tmp/notes; exit 4") == (4, "half\n")
        # A member of the same team may see the run, but its Pods hold a token that acts for its owner.
        assert (await ben.get(f"runs/{run['id']}"))["id"] == run["id"]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await enter(ben, path, "true")
        assert refused.value.status == 403
        entries = (await muster.admin.get("audit?kind=pod"))["items"]
        assert [(entry["actor_name"], entry["action"]) for entry in entries] == [("ann", "exec")]
        # Of a Pod that never started, nothing is kept.
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "command": ["/no/such/program"]}]}
        await muster.cluster.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": run["namespace"]}, "spec": spec}
        )

        async def has_failed() -> bool:
            return bool(status_of(await muster.cluster.get(POD, "p", run["namespace"])).get("phase") == "Failed")

        await eventually(has_failed)
        with pytest.raises(aiohttp.WSServerHandshakeError) as gone:
            await enter(ann, f"{run['namespace']}/p", "true")
        assert gone.value.status == 409


async def test_it_ends_with_the_session(scene: Scene) -> None:
    async with terminal(scene, scene.ann) as ws, asyncio.timeout(20):
        (await scene.ann("DELETE", "session")).ok()
        message = await ws.receive()
        while message.type is aiohttp.WSMsgType.BINARY:
            message = await ws.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1008)


async def test_an_unknown_path(scene: Scene) -> None:
    assert await refusal(scene, scene.ann, "a/b/c") == 403
