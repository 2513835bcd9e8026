"""Worker processes: results, errors, limits, fairness, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import pytest

from muster.kube.budgets import Budgets
from muster.kube.errors import ApiError, BadRequest, TooManyRequests, Unavailable
from muster.platform.errors import InvalidProblem
from muster.server.object_checks import parse_yaml, rehearse_write
from muster.server.worker_process import LENGTH
from muster.server.workers import WorkerPool
from tests.server import worker_functions as functions

BUDGETS = replace(Budgets(), check_seconds=30)


@pytest.fixture(autouse=True)
def _workers_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


async def test_results_and_errors_come_back() -> None:
    async with WorkerPool(BUDGETS) as pool:
        assert await pool.run("ada", functions.add, 1, 2) == 3
        assert await pool.run("ada", parse_yaml, "a: 1\n", "x") == ({"a": 1}, "")
        with pytest.raises(InvalidProblem) as refused:
            await pool.run("ada", functions.refuse, "name")
        assert refused.value.errors[0].field == "name"
        with pytest.raises(ValueError, match="too deeply"):
            await pool.run("ada", functions.recurse, 0)


async def test_a_worker_has_neither_the_servers_environment_nor_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE", "postgresql://secret")
    async with WorkerPool(BUDGETS) as pool:
        assert "MUSTER_DATABASE" not in await pool.run("ada", functions.environment)
        assert await pool.run("ada", functions.print_and_return, 5) == 5


async def test_what_takes_too_long_is_ended_and_others_go_on() -> None:
    async with WorkerPool(replace(BUDGETS, check_seconds=1)) as pool:
        with pytest.raises(BadRequest, match=r"longer than 1 seconds \(budgets\.checkSeconds\)"):
            await pool.run("eve", functions.forever)
    async with WorkerPool(BUDGETS) as pool:
        assert await pool.run("ada", functions.add, 1, 2) == 3


async def test_the_time_for_which_a_check_waits_does_not_count() -> None:
    async with WorkerPool(replace(BUDGETS, check_seconds=1)) as pool:
        assert await pool.run("ada", functions.sleep, 1.5) == 1.5


async def test_a_check_does_not_wait_for_ever() -> None:
    async with WorkerPool(replace(BUDGETS, check_seconds=1), wait_seconds=1) as pool:
        with pytest.raises(Unavailable, match="too busy"):
            await pool.run("ada", functions.sleep, 3600)


async def test_what_takes_too_much_memory_is_ended() -> None:
    async with WorkerPool(replace(BUDGETS, check_megabytes=64)) as pool:
        with pytest.raises(BadRequest, match=r"64 MB of memory \(budgets\.checkMegabytes\)"):
            await pool.run("eve", functions.allocate, 2000)
        assert await pool.run("ada", functions.add, 1, 2) == 3


async def test_a_worker_that_dies_is_replaced() -> None:
    async with WorkerPool(BUDGETS) as pool:
        with pytest.raises(ApiError):
            await pool.run("eve", functions.die)
        assert await pool.run("ada", functions.add, 1, 2) == 3


def test_a_worker_whose_server_is_gone_ends_without_a_word() -> None:
    command = [sys.executable, "-P", "-m", "muster.server.worker_process", "64"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as worker:
        assert worker.stdin and worker.stdout and worker.stderr
        worker.stdout.close()
        request = pickle.dumps((functions.__name__, "add", (1, 2)))
        worker.stdin.write(LENGTH.pack(len(request)) + request)
        worker.stdin.flush()
        assert worker.wait(60) == -signal.SIGPIPE
        assert worker.stderr.read() == b""


async def test_one_user_has_one_worker_and_a_limited_queue(tmp_path: Path) -> None:
    async with WorkerPool(replace(BUDGETS, user_checks=3), workers=2) as pool:
        gate = tmp_path / "gate"
        waiting = [asyncio.create_task(pool.run("eve", functions.wait_for, str(gate))) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match=r"budgets\.userChecks"):
            await pool.run("eve", functions.add, 1, 2)
        # The other worker is free for others, however many calls of eve wait.
        assert await pool.run("ada", functions.add, 1, 2) == 3
        gate.touch()
        assert await asyncio.gather(*waiting) == [True, True, True]


async def test_an_object_that_takes_long_to_check_does_not_get_to_the_store() -> None:
    async with WorkerPool(replace(BUDGETS, object_check_seconds=1)) as pool:
        await pool.run_again_soon("ada", rehearse_write, "v1", "ConfigMap", {}, None, {"metadata": {"name": "a"}}, None)
        with pytest.raises(BadRequest, match=r"budgets\.objectCheckSeconds"):
            await pool.run_again_soon("eve", functions.spin, 1.3)


async def test_workers_end_with_the_pool() -> None:
    async with WorkerPool(BUDGETS) as pool:
        pid = await pool.run("ada", functions.pid)
        assert pid != os.getpid()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Unavailable):
        await pool.run("ada", functions.add, 1, 2)
