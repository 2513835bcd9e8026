"""What this machine has and can do: for its Node object, for `muster doctor`, and for `muster top`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from muster.embedded.agent.devices import AMD, NVIDIA

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Machine:
    hostname: str
    cores: int
    memory_bytes: int
    storage_bytes: int
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """GPUs by resource name; the ids are what CUDA_VISIBLE_DEVICES takes."""
    architecture: str = "amd64"
    kernel: str = ""
    os_image: str = ""
    machine_id: str = ""
    boot_id: str = ""


def look_at_machine(storage: Path) -> Machine:
    """`storage` is where Pods' files go. Takes some milliseconds, and longer where there are GPUs to ask."""
    return Machine(
        hostname=platform.node().partition(".")[0].lower() or "localhost",
        cores=_cores(),
        memory_bytes=_memory(),
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
    """From `nvidia-smi -L`: `GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-...)`."""
    return tuple(re.findall(r"^GPU (\d+):", listing, re.MULTILINE))


def amd_gpus(listing: str) -> tuple[str, ...]:
    """From `rocm-smi --showid`: `GPU[0] : Device Name: ...`, several lines each."""
    return tuple(dict.fromkeys(re.findall(r"^GPU\[(\d+)\]", listing, re.MULTILINE)))


class Usage(NamedTuple):
    """What a Pod uses. CPU time adds up; whoever wants a rate asks twice."""

    cpu_seconds: float
    memory_bytes: int


class _Process(NamedTuple):
    parent: int
    ticks: int
    pages: int


def usage_of(roots: Mapping[str, int]) -> dict[str, Usage]:
    """Per Pod what everything below its supervisor (the pid given) uses."""
    if not roots:
        return {}
    return sum_trees(roots, dict(_processes()))


def sum_trees(roots: Mapping[str, int], processes: Mapping[int, _Process]) -> dict[str, Usage]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[str, Usage] = {}
    for uid, root in roots.items():
        if root not in processes:
            continue
        ticks = pages = 0
        # Not the supervisor itself: it may have had other Pods before.
        pending = list(children.get(root, ()))
        while pending:
            pid = pending.pop()
            pending.extend(children.get(pid, ()))
            ticks += processes[pid].ticks
            pages += processes[pid].pages
        found[uid] = Usage(ticks / _CLOCK_TICKS, pages * _PAGE)
    return found


def parse_stat(text: str) -> _Process:
    """A line of /proc/PID/stat. CPU time includes that of children that have ended and were waited for."""
    fields = text[text.rindex(")") + 2 :].split()
    return _Process(int(fields[1]), sum(map(int, fields[11:15])), int(fields[21]))


def _processes() -> Iterable[tuple[int, _Process]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            text = _read(f"/proc/{name}/stat")
            if text:
                yield int(name), parse_stat(text)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _memory() -> int:
    """The machine's, or less where this process may use only a part of it."""
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
