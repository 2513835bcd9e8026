"""What Pods and the machine use at the moment: the difference between two looks. Nobody asks, nobody looks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping

from muster.embedded.agent.machine import Usage
from muster.kube.metrics import MACHINE, Rate, Rates

_LONGEST = 60.0
_SHORTEST = 0.5


class Meter:
    """`look` tells the CPU seconds and bytes of memory of each Pod, added up since it began."""

    def __init__(self, look: Callable[[], Mapping[str, Usage]]) -> None:
        self._look = look
        self._before: tuple[float, Mapping[str, Usage]] | None = None
        self._measuring = asyncio.Lock()

    async def rates(self) -> tuple[Rates, float]:
        """The rates, and the seconds they were measured over: since the last question if that was a moment ago, else
        the next half second."""
        async with self._measuring:
            before = self._before
            if before is None or not _SHORTEST <= time.monotonic() - before[0] <= _LONGEST:
                before = time.monotonic(), self._all()
                await asyncio.sleep(_SHORTEST)
            now = self._before = time.monotonic(), self._all()
        window = now[0] - before[0]
        return {uid: _rate(before[1].get(uid), usage, window) for uid, usage in now[1].items()}, window

    def _all(self) -> Mapping[str, Usage]:
        return {**self._look(), MACHINE: machine_usage()}


def machine_usage() -> Usage:
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    with open("/proc/meminfo") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
    busy = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return Usage(busy, sizes["MemTotal"] - sizes.get("MemAvailable", sizes["MemFree"]))


def _rate(before: Usage | None, now: Usage, window: float) -> Rate:
    """A Pod that began in between has used what it has used since then."""
    used = now.cpu_seconds - (before.cpu_seconds if before is not None else 0.0)
    return Rate(max(0.0, used / window), now.memory_bytes)
