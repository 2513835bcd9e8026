"""CPU time of this process and all its descendants, including those that no parent waits for.

If possible, the process gets its own control group, which counts them all. Otherwise the user and system time of the
whole machine (/proc/stat) is used.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_CPUACCT = Path("/sys/fs/cgroup/cpuacct")
_UNIFIED = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Cost:
    """In seconds."""

    wall: float
    group: float | None
    """Of the control group."""
    own: float
    """Of this process alone."""
    machine: float
    """Of the whole machine."""

    @property
    def cpu(self) -> float:
        return self.group if self.group is not None else self.machine


class Meter:
    """Measures from when it is created."""

    def __init__(self) -> None:
        self._group = _own_group()
        self._before = self._read()

    def stop(self) -> Cost:
        now = self._read()
        wall, group, own, machine = (after - before for before, after in zip(self._before, now, strict=True))
        return Cost(wall, group if self._group is not None else None, own, machine)

    def _read(self) -> tuple[float, float, float, float]:
        group = self._group() if self._group is not None else 0.0
        return time.perf_counter(), group, time.process_time(), _machine_seconds()


def enter_group() -> None:
    """A control group for this run. Without permission to create one, /proc/stat is used."""
    name = f"muster-bench-{os.getpid()}"
    with suppress(OSError):
        folder = (_CPUACCT if _CPUACCT.is_dir() else _UNIFIED) / name
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(os.getpid()))
        atexit.register(_leave_group, folder)


def _leave_group(folder: Path) -> None:
    """Removes the group, unless a process that was started in it still runs."""
    with suppress(OSError):
        (folder.parent / "cgroup.procs").write_text(str(os.getpid()))
        folder.rmdir()


def _own_group() -> Callable[[], float] | None:
    name = f"muster-bench-{os.getpid()}"
    version1, version2 = _CPUACCT / name / "cpuacct.usage", _UNIFIED / name / "cpu.stat"
    if version1.exists():
        return lambda: int(version1.read_text()) / 1e9
    if version2.exists():
        return lambda: int(version2.read_text().split()[1]) / 1e6
    return None


def _machine_seconds() -> float:
    with open("/proc/stat") as file:
        fields = file.readline().split()[1:]
    user, nice, system = (int(field) for field in fields[:3])
    return (user + nice + system) / _TICKS
