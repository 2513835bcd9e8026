"""Dispatchers that are killed at random, over a bad network: no job is lost, and none runs twice."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.dispatch import LocalAdapter
from tests.chaos.dispatch_crew import PATIENCE, Crew
from tests.chaos.dispatch_shop import LEDGER, make_dispatcher
from tests.chaos.real_server import RealServer
from tests.platform.databases import postgres_server


def story(folder: Path, home: Path, *, jobs: int, dispatchers: int, kills: int, pause: float) -> None:
    dispatcher = make_dispatcher(folder, LocalAdapter(home=home))
    crew = Crew([sys.executable, "-m", "tests.chaos.dispatch_shop", str(folder), str(home)], folder, dispatchers)
    try:
        handles = []
        for number in range(jobs):
            type = "function" if number % 2 else "program"
            handles.append(dispatcher.submit(type, {"number": number}, key=f"job-{number}"))
            if crew.kills < kills * number / jobs:
                crew.kill_one()
                time.sleep(random.uniform(0, pause))
        while crew.kills < kills:
            crew.kill_one()
            time.sleep(random.uniform(0, pause))
        results = [handle.result(PATIENCE) for handle in handles]
    finally:
        crew.end()
    assert results == [number * number for number in range(jobs)]
    runs = Counter({handle.id: len((folder / "jobs" / handle.id / LEDGER).read_text().split()) for handle in handles})
    assert {id: count for id, count in runs.items() if count != 1} == {}
    assert {job.attempt for job in dispatcher.list(limit=10_000).items} == {1}
    dispatcher.close()


@pytest.mark.timeout(240)
def test_a_few_jobs_survive_their_dispatchers(shared_server: RealServer, tmp_path: Path) -> None:
    story(tmp_path, shared_server.home, jobs=16, dispatchers=2, kills=5, pause=1.0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_200_jobs_3_dispatchers_50_kills(
    new_server: Callable[..., RealServer], tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server()
    asyncio.run(server.start())
    if database == "sqlite":
        story(tmp_path, server.home, jobs=200, dispatchers=3, kills=50, pause=2.0)
        return
    with postgres_server() as postgres:
        monkeypatch.setitem(os.environ, "SHOP_DATABASE", postgres.url(postgres.new_database()))
        story(tmp_path, server.home, jobs=200, dispatchers=3, kills=50, pause=2.0)
