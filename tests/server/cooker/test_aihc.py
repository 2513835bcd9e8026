"""MLP Cooker's API with a loopback AIHC that verifies every request: the jobs go there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.platform.database.database import Database, sqlite_url
from muster.server.dispatch.settings import DispatchSettings, read_dispatch_settings
from tests.dispatch.aihc_server import AK, SK, AihcServer
from tests.server.platform.served import Served, serving
from tests.server.platform.whole import eventually

TASK = {
    "name": "my-job",
    "jobType": "PyTorchJob",
    "command": "for i in 1 2 3 4 5; do echo line $i; done",
    "jobSpec": {
        "replicas": 1,
        "image": "registry.baidubce.com/aihc-aiak/pytorch:latest",
        "resources": [{"name": "baidu.com/a800_80g_cgpu", "quantity": 8}],
        "envs": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "enableRDMA": True,
    },
    "datasources": [{"type": "pfs", "mountPath": "/workspace"}],
    "faultTolerance": True,
}


@pytest.fixture
async def aihc() -> AsyncIterator[AihcServer]:
    with AihcServer(execute=True) as server:
        yield server


@pytest.fixture
def settings(aihc: AihcServer, monkeypatch: pytest.MonkeyPatch) -> DispatchSettings:
    """As a deployment of MLP Cooker has them: in the environment."""
    variables = {"AK": AK, "SK": SK, "BASE_URL": aihc.url, "POOL_ID": "aihc-pool", "QUEUE_ID": "q-1"}
    for name, value in {**variables, "PFS_INSTANCE_ID": "pfs-1"}.items():
        monkeypatch.setenv(f"ML_PLATFORM_RESOURCE_{name}", value)
    return read_dispatch_settings({})


@pytest.fixture
async def served(tmp_path: Path, settings: DispatchSettings) -> AsyncIterator[Served]:
    database = await Database.open(sqlite_url(tmp_path / "platform.db"), survives_power_cut=False)
    async with serving(database, tmp_path / "home", dispatch=settings) as running:
        working = asyncio.create_task(running.platform.dispatch.run())
        yield running
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    await asyncio.to_thread(database.close)


async def test_a_job_is_created_on_aihc(served: Served, aihc: AihcServer) -> None:
    ann = await served.user("ann")
    headers = {"X-Auth-Token": (await ann.post("tokens", {"name": "script"}))["secret"]}

    async def ask(method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body)
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, f"{served.url}{path}", data=data) as response,
        ):
            said = await response.json()
            assert response.status == 200
            return said["data"] if said["success"] else said["details"]

    created = await ask("POST", "/api/jobs/create", {"taskParams": TASK})
    path = f"/api/jobs/{created['jobId']}"

    async def has_ended() -> bool:
        return bool((await ask("GET", path))["job"]["status"] == "Succeeded")

    await eventually(has_ended)
    (sent,) = aihc.jobs.values()
    assert sent.body["jobSpec"]["resources"] == [{"name": "baidu.com/a800_80g_cgpu", "quantity": 8}]
    assert sent.body["datasources"][0]["name"] == "pfs-1"
    assert (sent.body["queue"], sent.body["command"], sent.body["faultTolerance"]) == ("q-1", TASK["command"], True)
    assert "labels" not in sent.body  # nothing of ours goes there

    (pod,) = (await ask("GET", f"{path}?needDetail=true"))["job"]["pods"]
    lines: list[str] = []
    marker = ""
    while True:
        page = await ask("GET", f"{path}/pods/{pod['name']}/logs?marker={marker}")
        lines += page["logs"]
        marker = page["nextMarker"]
        if not marker:
            break
    assert lines == [f"line {number}" for number in range(1, 6)]
    assert (await ask("GET", f"{path}/events"))["total"] > 3

    pools = await ask("GET", "/api/resources/pools?resourcePoolType=dedicatedV2")
    assert [pool["resourcePoolId"] for pool in pools["resourcePools"]] == ["aihc-pool"]
    queues = await ask("GET", "/api/resources/queues?includeDetails=true")
    assert {queue["queueId"]: bool(queue["detail"]) for queue in queues["queues"]} == {"q-1": True, "q-2": True}
    refused = await ask("POST", "/api/jobs/create", {"taskParams": {**TASK, "queue": "q-2"}})
    assert refused["errors"][0]["code"] == "cooker.queue"
    for text in (json.dumps(await ann.get(f"dispatch/jobs/{created['jobId']}")), str(refused)):
        assert AK not in text
        assert SK not in text
