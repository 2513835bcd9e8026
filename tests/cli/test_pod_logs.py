"""Following logs, with a cluster that only writes slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from muster.cli.pod_logs import LogFollower, LogLine, LogSource
from muster.kube.cluster import Cluster, LogQuery


class SlowLog:
    """Writes this many lines with a pause before each."""

    def __init__(self, lines: int, pause: float) -> None:
        self._lines = lines
        self._pause = pause

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        for number in range(self._lines):
            await asyncio.sleep(self._pause)
            yield b"2026-01-01T00:00:00.%09dZ line %d\n" % (number, number)


ENDED: dict[str, Any] = {
    "metadata": {"name": "x", "namespace": "default", "uid": "x"},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated": {}}}]},
}


async def drained(log: SlowLog, silence: float) -> list[str]:
    shown: list[str] = []

    def emit(_: LogSource, lines: list[LogLine]) -> None:
        shown.extend(line.text for line in lines)

    follower = LogFollower(cast(Cluster, log), emit)
    follower.update(ENDED)
    await follower.drain(silence)
    await follower.close()
    return shown


async def test_a_long_log_is_printed_completely() -> None:
    assert await drained(SlowLog(30, pause=0.1), silence=2.0) == [f"line {n}" for n in range(30)]


async def test_a_silent_log_ends_after_a_while() -> None:
    assert await drained(SlowLog(1, pause=3600.0), silence=0.05) == []


ARGO: dict[str, Any] = {
    "metadata": {
        "name": "x",
        "namespace": "default",
        "uid": "x",
        "labels": {"workflows.argoproj.io/workflow": "w"},
    },
    "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "wait"}, {"name": "main"}]},
    "status": {
        "phase": "Succeeded",
        "initContainerStatuses": [{"name": "init", "state": {"terminated": {}}}],
        "containerStatuses": [{"name": name, "state": {"terminated": {}}} for name in ("wait", "main")],
    },
}


class ArgoLog:
    """What Argo's executor and the program write."""

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        times = (f"2026-01-01T00:00:00.{number}Z " for number in range(100, 200))
        lines = [f"hello from {query.container}", 'time=t level=INFO msg="sub-process exited" argo=true error=<nil>']
        yield "".join(f"{next(times)}{line}\n" for line in lines).encode()


async def test_on_a_real_cluster_logs_of_workflows_are_those_of_the_program() -> None:
    shown: list[str] = []
    follower = LogFollower(
        cast(Cluster, ArgoLog()), lambda source, lines: shown.extend(f"{source}: {line.text}" for line in lines)
    )
    follower.update(ARGO)
    await follower.drain(2.0)
    await follower.close()
    assert shown == ["x: hello from main"]


async def test_the_logs_of_the_executor_are_shown_if_its_container_is_named() -> None:
    shown: list[str] = []
    follower = LogFollower(
        cast(Cluster, ArgoLog()), lambda _, lines: shown.extend(line.text for line in lines), container="wait"
    )
    follower.update(ARGO)
    await follower.drain(2.0)
    await follower.close()
    assert shown[0] == "hello from wait"
