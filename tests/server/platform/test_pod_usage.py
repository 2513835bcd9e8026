"""What Pods use over time, over HTTP on a complete Muster: measured while they run, and there when they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from muster.kube.builtin import POD
from muster.platform.database.database import sqlite_url
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client
from tests.server.platform.whole import PATIENCE, Whole, ended, stored, whole_muster

pytestmark = pytest.mark.asyncio(loop_scope="module")

BUSY = 'while [ ! -e "{stop}" ]; do :; done'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def muster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    home: Path = tmp_path_factory.mktemp("usage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.server.platform.pod_usage.INTERVAL_SECONDS", 0.3)
        async with whole_muster(home / "home", sqlite_url(home / "platform.db")) as running:
            yield running


async def measured(client: Client, path: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await client.get(path)
            if found["pods"] and any(cores > 0 for cores in found["pods"][0]["cpu"]):
                return found
            await asyncio.sleep(0.1)


async def test_the_usage_of_a_node_is_there_when_its_pod_is_gone(muster: Whole, tmp_path: Path) -> None:
    ann, bob = await muster.member("ann"), await muster.member("bob")
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    await muster.admin.post("storage", {"name": "shared", "path": str(shared)})
    command = BUSY.format(stop=shared / "stop")
    await stored(ann, "busy", graph(node("a", command=command, storage=[{"root": "shared"}])))
    run = await ann.post("runs", {"workflow": "busy"})
    path = f"runs/{run['id']}/nodes/a/usage"
    found = await measured(ann, path)
    assert found["is_measured"]
    (pod,) = found["pods"]
    assert len(pod["times"]) == len(pod["cpu"]) == len(pod["memory"])
    assert pod["memory"][-1] > 0 and pod["limits"]["memory"] > 0  # a monitor task has limits
    (await bob("GET", path)).refused(403)
    (shared / "stop").touch()
    await ended(ann, run["id"])
    await muster.cluster.delete(POD, pod["pod"], (await ann.get(f"runs/{run['id']}"))["namespace"])
    assert [each["pod"] for each in (await ann.get(path))["pods"]] == [pod["pod"]]
