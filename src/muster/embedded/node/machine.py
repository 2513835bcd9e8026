"""This machine: its CPUs, memory and GPUs, what Pods use of them, and which Pod holds which GPU."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from muster.kube.metrics_api import WHOLE_NODE, ResourceUsage, UsageByPod
from muster.kube.quantity import whole_value

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
_VARIABLES = {
    NVIDIA: ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    AMD: ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LONGEST = 60.0
_SHORTEST = 0.5


@dataclass(frozen=True, slots=True)
class MachineInfo:
    hostname: str
    cores: int
    memory_bytes: int
    storage_bytes: int
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """GPUs by resource name; the ids are valid in CUDA_VISIBLE_DEVICES."""
    architecture: str = "amd64"
    kernel: str = ""
    os_image: str = ""
    machine_id: str = ""
    boot_id: str = ""


def inspect_machine(storage: Path) -> MachineInfo:
    """`storage` is the folder of the Pods' files. Takes some milliseconds, and longer if there are GPUs to query."""
    return MachineInfo(
        hostname=platform.node().partition(".")[0].lower() or "localhost",
        cores=_cores(),
        memory_bytes=usable_memory(),
        storage_bytes=_storage(storage),
        devices=find_gpus(),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=_read("/etc/machine-id"),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
    )


def find_gpus() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    nvidia = nvidia_gpus(_output(["nvidia-smi", "-L"]))
    if nvidia:
        found[NVIDIA] = nvidia
    amd = amd_gpus(_output(["rocm-smi", "--showid"]))
    if amd:
        found[AMD] = amd
    return found


def nvidia_gpus(listing: str) -> tuple[str, ...]:
    """Parses the output of `nvidia-smi -L`: `GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-...)`."""
    return tuple(re.findall(r"^GPU (\d+):", listing, re.MULTILINE))


def amd_gpus(listing: str) -> tuple[str, ...]:
    """Parses the output of `rocm-smi --showid`: several lines `GPU[0] : Device Name: ...` for each GPU."""
    return tuple(dict.fromkeys(re.findall(r"^GPU\[(\d+)\]", listing, re.MULTILINE)))


class DeviceAllocator:
    """The real devices of this machine, by resource name, and the Pods that hold them."""

    def __init__(self, found: Mapping[str, Iterable[str]]) -> None:
        self._all = {resource: list(ids) for resource, ids in found.items()}
        self._holders: dict[str, dict[str, list[str]]] = {}

    def allocate(
        self, uid: str, containers: Iterable[Mapping[str, Any]], earlier: Iterable[Mapping[str, Any]] = ()
    ) -> dict[str, dict[str, str]]:
        """Returns variables by container name. `earlier` are init containers: they end before the others start, so they
        share their devices. If the settings declare more devices than exist, the last containers get fewer. A container
        that requests none sees none."""
        if not self._all:
            return {}
        held = self._holders[uid] = {resource: [] for resource in self._all}
        variables: dict[str, dict[str, str]] = {}
        for group, again in ((containers, False), (earlier, True)):
            for container in group:
                limits = (container.get("resources") or {}).get("limits") or {}
                mine = variables.setdefault(str(container.get("name") or ""), {})
                for resource in self._all:
                    given = self._assign(held[resource], resource, whole_value(limits.get(resource) or 0), again)
                    mine.update((variable, ",".join(given)) for variable in _VARIABLES[resource])
        return variables

    def reserve(self, uid: str, environments: Iterable[Mapping[str, str]]) -> None:
        """Marks the devices that a Pod got before the server restarted."""
        held = self._holders.setdefault(uid, {})
        for environment in environments:
            for resource in self._all:
                given = environment.get(_VARIABLES[resource][0], "")
                mine = held.setdefault(resource, [])
                mine.extend(part for part in given.split(",") if part and part not in mine)

    def release(self, uid: str) -> None:
        self._holders.pop(uid, None)

    def _assign(self, held: list[str], resource: str, count: int, again: bool) -> list[str]:
        taken = {device for other in self._holders.values() for device in other.get(resource, ())}
        free = [device for device in self._all[resource] if device not in taken]
        given = ([*held, *free] if again else free)[:count]
        held.extend(device for device in given if device not in held)
        return given


class Usage(NamedTuple):
    """What a Pod has used. CPU time is cumulative; a rate needs two measurements."""

    cpu_seconds: float
    memory_bytes: int


def measure_usage(roots: Mapping[str, int]) -> dict[str, Usage]:
    """Returns what all processes below each Pod's supervisor use. `roots` are the process numbers of supervisors."""
    if not roots:
        return {}
    return sum_trees(roots, dict(_processes()))


def machine_usage() -> Usage:
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    available, total = memory_of_machine()
    busy = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return Usage(busy, total - available)


def memory_of_machine() -> tuple[int, int]:
    """Returns the available and the total bytes."""
    with open("/proc/meminfo") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
    return sizes.get("MemAvailable", sizes["MemFree"]), sizes["MemTotal"]


class UsageMeter:
    """Measures rates. `measure` returns the CPU seconds and bytes of memory of each Pod, cumulative since its start."""

    def __init__(self, measure: Callable[[], Mapping[str, Usage]]) -> None:
        self._measure = measure
        self._before: tuple[float, Mapping[str, Usage]] | None = None
        self._measuring = asyncio.Lock()

    async def rates(self) -> tuple[UsageByPod, float]:
        """Returns the rates and the seconds they cover: since the last call if it is recent, otherwise the next half
        second."""
        async with self._measuring:
            before = self._before
            if before is None or not _SHORTEST <= time.monotonic() - before[0] <= _LONGEST:
                before = time.monotonic(), self._measure_all()
                await asyncio.sleep(_SHORTEST)
            now = self._before = time.monotonic(), self._measure_all()
        window = now[0] - before[0]
        return {uid: _rate(before[1].get(uid), usage, window) for uid, usage in now[1].items()}, window

    def _measure_all(self) -> Mapping[str, Usage]:
        return {**self._measure(), WHOLE_NODE: machine_usage()}


class _Process(NamedTuple):
    parent: int
    ticks: int
    pages: int


def sum_trees(roots: Mapping[str, int], processes: Mapping[int, _Process]) -> dict[str, Usage]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[str, Usage] = {}
    for uid, root in roots.items():
        if root not in processes:
            continue
        ticks = pages = 0
        # Without the supervisor itself: it may have run other Pods before.
        pending = list(children.get(root, ()))
        while pending:
            pid = pending.pop()
            pending.extend(children.get(pid, ()))
            ticks += processes[pid].ticks
            pages += processes[pid].pages
        found[uid] = Usage(ticks / _CLOCK_TICKS, pages * _PAGE)
    return found


def child_processes() -> dict[int, list[int]]:
    """Returns the children of every process of this machine."""
    children: dict[int, list[int]] = {}
    for pid, process in _processes():
        children.setdefault(process.parent, []).append(pid)
    return children


def processes_below(root: int, children: Mapping[int, list[int]]) -> list[int]:
    """Returns the descendants of a process."""
    found, pending = list[int](), [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def parse_stat(text: str) -> _Process:
    """Parses /proc/PID/stat. CPU time includes that of ended children that were waited for."""
    fields = text[text.rindex(")") + 2 :].split()
    return _Process(int(fields[1]), sum(map(int, fields[11:15])), int(fields[21]))


def _processes() -> Iterable[tuple[int, _Process]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            text = _read(f"/proc/{name}/stat")
            if text:
                yield int(name), parse_stat(text)


def _rate(before: Usage | None, now: Usage, window: float) -> ResourceUsage:
    """A Pod that started in between is measured since its start."""
    used = now.cpu_seconds - (before.cpu_seconds if before is not None else 0.0)
    return ResourceUsage(max(0.0, used / window), now.memory_bytes)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def usable_memory() -> int:
    """The machine's memory, or less if this process is limited to a part of it."""
    found = re.search(r"MemTotal:\s+(\d+) kB", _read("/proc/meminfo"))
    total = int(found[1]) * 1024 if found is not None else 0
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = _read(path)
        if limit.isdigit():
            total = min(total, int(limit)) if total else int(limit)
    return total


def _storage(path: Path) -> int:
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).total


def _os_image() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.MULTILINE)
    return found[1] if found is not None else platform.system()


def _output(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
