"""kill -9 of the server while a recurring run ticks: no tick is lost, and none is played twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from muster.platform.users.credentials import local_token, platform_folder
from muster.server.pidfile import running_server
from tests.chaos.real_server import RealServer
from tests.server.pipelines.test_app import Api
from tests.server.pipelines.test_runs import one_task
from tests.server.platform.whole import eventually

KILLS, TICKS = 6, 12


def api_of(server: RealServer) -> Api:
    info = running_server(server.home)
    assert info is not None
    return Api(info.web, local_token(platform_folder(server.home)))


async def played(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("runs", page_size=200, sort_by="scheduled_at")).get("runs", [])
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_kills_of_the_server_between_ticks(new_server: Callable[..., RealServer]) -> None:
    random = Random(1871)
    server = new_server(durability="process", web={"port": 0})
    await server.start()
    body = {
        "display_name": "tick",
        "pipeline_spec": one_task("tick", "true"),
        "trigger": {"periodic_schedule": {"interval_second": 1}},
        "max_concurrency": 10,
    }
    made = await api_of(server).post("recurringruns", body)
    for _ in range(KILLS):
        await asyncio.sleep(random.uniform(0.1, 1.5))  # so that it is killed at any moment of a tick
        server.kill()
        await server.start()
    api = api_of(server)

    async def has_ticked() -> bool:
        return len(await played(api)) >= TICKS

    async def all_succeeded() -> bool:
        return {run["state"] for run in await played(api)} == {"SUCCEEDED"}

    await eventually(has_ticked)
    await api.post(f"recurringruns/{made['recurring_run_id']}:disable")
    await eventually(all_succeeded)
    runs = await played(api)
    times = [datetime.fromisoformat(run["scheduled_at"]) for run in runs]
    assert times == [times[0] + timedelta(seconds=number) for number in range(len(times))]
    assert [run["display_name"] for run in runs] == [f"tick-{number + 1}" for number in range(len(runs))]
