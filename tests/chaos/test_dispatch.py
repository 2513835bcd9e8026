"""Dispatchers that are killed at random, over a bad network: no job is lost, and none runs twice."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.dispatch import Job
from muster.kube.builtin import POD
from tests.chaos.dispatch_crew import PATIENCE, Crew
from tests.chaos.dispatch_shop import LEDGER, make_dispatcher
from tests.chaos.faulty_proxy import ProxyProcess
from tests.chaos.real_server import RealServer
from tests.platform.databases import postgres_server


@dataclass
class Storm:
    """How many jobs, and what happens to the dispatchers meanwhile."""

    jobs: int
    dispatchers: int
    kills: int
    pause: float


FEW = Storm(jobs=12, dispatchers=2, kills=4, pause=0.5)
MANY = Storm(jobs=200, dispatchers=3, kills=50, pause=2.0)


def weather(folder: Path, kind: str, place: Path, storm: Storm) -> Sequence[Job]:
    """Runs the jobs, checks that none is lost and that no program ran twice, and returns them."""
    dispatcher = make_dispatcher(folder, kind, place)
    command = [sys.executable, "-m", "tests.chaos.dispatch_shop", str(folder), kind, str(place)]
    crew = Crew(command, folder, storm.dispatchers)
    try:
        handles = []
        for number in range(storm.jobs):
            type = "function" if number % 2 else "program"
            handles.append(dispatcher.submit(type, {"number": number}, key=f"job-{number}"))
            if crew.kills < storm.kills * number / storm.jobs:
                crew.kill_one()
                time.sleep(random.uniform(0, storm.pause))
        while crew.kills < storm.kills:
            crew.kill_one()
            time.sleep(random.uniform(0, storm.pause))
        results = [handle.result(PATIENCE) for handle in handles]
    finally:
        crew.end()
    assert results == [number * number for number in range(storm.jobs)]
    jobs = dispatcher.list(limit=10_000).items
    with_ledger = [job for job in jobs if kind == "local" or job.type == "program"]
    runs = {job.id: len((folder / "jobs" / job.id / LEDGER).read_text().split()) for job in with_ledger}
    assert {id: count for id, count in runs.items() if count != 1} == {}
    assert {job.attempt for job in jobs} == {1}
    dispatcher.close()
    return jobs


def weather_on_cluster(folder: Path, server: RealServer, storm: Storm, seed: int) -> str:
    """Returns the figures."""
    with ProxyProcess(server.home / "kubeconfig", folder / "kubeconfig", fault_rate=0.1, seed=seed) as proxy:
        jobs = weather(folder, "cluster", proxy.kubeconfig, storm)
        counts = proxy.counts()
    assert counts["creations"] == {f"Pod/{job.external_name}": 1 for job in jobs}  # each once, and nothing else
    assert sum(counts["faults"].values()) > 0
    left = asyncio.run(pods_of(server))
    return f"{len(jobs)} jobs, calls {counts['calls']}, faults {counts['faults']}, {left} Pods not removed"


async def pods_of(server: RealServer) -> int:
    async with server.client() as cluster:
        return len((await cluster.list(POD, "default")).items)


@pytest.mark.timeout(240)
def test_a_few_jobs_survive_their_dispatchers(shared_server: RealServer, tmp_path: Path) -> None:
    weather(tmp_path, "local", shared_server.home, FEW)


@pytest.mark.timeout(240)
def test_a_few_jobs_on_a_cluster(shared_server: RealServer, tmp_path: Path) -> None:
    weather_on_cluster(tmp_path, shared_server, FEW, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_200_jobs_3_dispatchers_50_kills(
    new_server: Callable[..., RealServer], tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server()
    asyncio.run(server.start())
    if database == "sqlite":
        weather(tmp_path, "local", server.home, MANY)
        return
    with postgres_server() as postgres:
        monkeypatch.setitem(os.environ, "SHOP_DATABASE", postgres.url(postgres.new_database()))
        weather(tmp_path, "local", server.home, MANY)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_200_jobs_3_dispatchers_50_kills_on_a_cluster(new_server: Callable[..., RealServer], tmp_path: Path) -> None:
    server = new_server()
    asyncio.run(server.start())
    print(weather_on_cluster(tmp_path, server, MANY, seed=random.randrange(1000)))
