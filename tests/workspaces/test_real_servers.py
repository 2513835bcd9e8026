"""The real JupyterLab and the real TensorBoard, in the sandbox, for a member: from the form to a chart."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.kube.builtin import POD
from muster.platform.database.database import sqlite_url
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from muster.workspaces.addresses import Upstream, find_upstream
from muster.workspaces.kinds import NOTEBOOK, TENSORBOARD
from tests.server.platform.served import Client
from tests.server.platform.whole import Whole, eventually
from tests.workspaces.event_records import scalar_record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

JUPYTER = {"name": "minimal", "image": "kubeflownotebookswg/jupyter:v1.9.2", "requirements": ["jupyterlab>=4.2,<5"]}


@pytest.fixture
async def muster(tmp_path: Path) -> AsyncIterator[Whole]:
    config = {
        "durability": "process",
        "web": {"port": 0},
        "database": sqlite_url(tmp_path / "platform.db"),
        "workspaces": {"images": [JUPYTER]},
    }
    async with run_server(read_settings(tmp_path / "home", config), web=True) as server:
        yield Whole(server.info.web, tmp_path / "home", server.cluster)


async def until_running(client: Client, path: str) -> list[float]:
    """Returns the progress of the installation that was seen meanwhile."""
    seen: list[float] = []
    async with asyncio.timeout(900):
        while True:
            found = await client.get(path)
            assert found["state"] in ("starting", "running"), found
            if found["progress"] is not None:
                seen.append(found["progress"]["fraction"])
            if found["state"] == "running":
                return seen
            await asyncio.sleep(0.5)


@asynccontextmanager
async def connect(upstream: Upstream) -> AsyncIterator[aiohttp.ClientSession]:
    base = f"http://{upstream.host}:{upstream.port}"
    async with aiohttp.ClientSession(base, headers=dict(upstream.headers)) as session:
        yield session


async def execute(session: aiohttp.ClientSession, code: str) -> str:
    """Runs code in a new kernel, and returns what it printed."""
    async with session.post("/api/kernels", json={"name": "python3"}) as response:
        assert response.status == 201, await response.text()
        kernel = (await response.json())["id"]
    message = {
        "header": {"msg_id": "1", "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"},
        "parent_header": {},
        "metadata": {},
        "content": {"code": code, "silent": False, "store_history": False, "allow_stdin": False},
        "channel": "shell",
    }
    printed, waits_for = "", {"execute_reply", "idle"}  # on two channels, so they come in any order
    async with session.ws_connect(f"/api/kernels/{kernel}/channels") as socket, asyncio.timeout(120):
        await socket.send_str(json.dumps(message))
        while waits_for:
            said: dict[str, Any] = json.loads((await socket.receive()).data)
            if said["parent_header"].get("msg_id") != "1":
                continue
            if said["msg_type"] == "stream":
                printed += said["content"]["text"]
            if said["msg_type"] == "error":
                raise AssertionError(said["content"])
            waits_for -= {said["msg_type"], said["content"].get("execution_state")}
    return printed


@pytest.mark.smoke
async def test_a_member_computes_in_a_notebook_and_looks_at_curves(muster: Whole) -> None:
    ann = await muster.member("ann")
    await ann.post("notebooks", {"name": "lab", "home_size": "1Gi"})
    path, namespace = "notebooks/user-ann/lab", "user-ann"
    fractions = await until_running(ann, path)
    assert fractions == sorted(fractions)
    assert len(fractions) > 1
    upstream = await find_upstream(muster.cluster, NOTEBOOK, namespace, "lab")
    assert upstream is not None
    async with aiohttp.ClientSession(f"http://{upstream.host}:{upstream.port}") as stranger:
        for private in ("/api/kernels", "/api/contents", "/api/terminals"):
            async with stranger.get(private) as response:
                assert response.status == 403
    records = (scalar_record("loss", step, 1_700_000_000.0 + step, 1.0 / (step + 1)) for step in range(5))
    events = b64encode(b"".join(records)).decode()
    code = f"""
import base64, os, pathlib
folder = pathlib.Path.home() / "logs"
folder.mkdir(exist_ok=True)
(folder / "events.out.tfevents.1700000000.lab").write_bytes(base64.b64decode("{events}"))
print(6 * 7, pathlib.Path.cwd(), os.getuid() != 0)
"""
    async with connect(upstream) as session:
        assert await execute(session, code) == "42 /home/jovyan True\n"
        async with session.post("/api/terminals") as response:
            assert response.status == 200
        async with session.get("/lab") as response:
            assert "JupyterLab" in await response.text()
    log = (await ann("GET", f"{path}/log")).ok()
    assert "Jupyter Server" in log
    assert upstream.headers[0][1].removeprefix("token ") not in log

    board = await ann.post("tensorboards", {"notebook": {"namespace": namespace, "name": "lab"}})
    await until_running(ann, f"tensorboards/{namespace}/{board['name']}")
    shown = await find_upstream(muster.cluster, TENSORBOARD, namespace, board["name"])
    assert shown is not None
    address = f"http://{shown.host}:{shown.port}/data/plugin/scalars/tags"
    async with aiohttp.ClientSession() as stranger, stranger.get(address) as response:
        assert response.status == 401
    async with connect(shown) as session, asyncio.timeout(60):
        tags: dict[str, Any] = {}
        while not tags:
            async with session.get("/data/plugin/scalars/tags") as response:
                tags = await response.json()
        assert "loss" in next(iter(tags.values()))

    await ann.post(f"{path}/stop")

    async def has_stopped() -> bool:
        return not (await ann.get(path))["reason"]

    await eventually(has_stopped)
    await ann.post(f"{path}/start")
    await until_running(ann, path)
    again = await find_upstream(muster.cluster, NOTEBOOK, namespace, "lab")
    assert again is not None
    async with connect(again) as session:
        assert await execute(session, "import os; print(os.listdir('logs'))") == (
            "['events.out.tfevents.1700000000.lab']\n"
        )
    for workspace in (path, f"tensorboards/{namespace}/{board['name']}"):
        assert (await ann("DELETE", workspace)).status == 204

    async def are_gone() -> bool:
        return not (await muster.cluster.list(POD, namespace)).items

    await eventually(are_gone)
