"""How much disk space a Pod uses for itself: /tmp, emptyDir volumes, its layer of a root file system.

A Pod that uses more than it may is evicted, as kubelet does.

Measuring reads every folder, so it happens in a thread, only for Pods that run for a while, and rarely for Pods that
use little, unless the disk fills up.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import ENAMETOOLONG
from typing import Any, NamedTuple

from muster.kube.budgets import Budgets, setting_name
from muster.kube.objects import Object, spec_of
from muster.kube.quantity import whole_value

PERIOD_SECONDS = 5.0
_RARE_SECONDS = 60.0
_MOST_SECONDS = 20.0
"""How long one Pod may be measured. What was found until then counts."""
_ENTRY_BYTES = 4096
"""What a file needs besides its content, so that empty files count, too."""
_PAUSE_ENTRIES, _PAUSE_SECONDS = 1000, 0.002
"""The thread pauses, so that the event loop can run."""
_OTHERS = ("kept",)
"""Folders of a Pod that have a budget of their own."""


class ScratchUsage(NamedTuple):
    total: int
    volumes: Mapping[str, int]
    """Of each emptyDir volume."""
    is_too_deep: bool = False
    """Whether there are folders whose paths are too long for the system. What they contain cannot be measured."""


def measure_scratch(folder: str, more: Iterable[str] = (), processes: Iterable[int] = ()) -> ScratchUsage:
    """Measures a Pod's folder, the folders in `more`, and the deleted files that its processes have open. Follows no
    links."""
    until = time.monotonic() + _MOST_SECONDS
    counter = _Counter(until)
    volumes: dict[str, int] = {}
    for path in (folder, *more):
        for name in _list(path):
            if name == "volumes":
                volumes.update((v, counter.count(f"{path}/{name}/{v}")) for v in _list(f"{path}/{name}"))
            elif name not in _OTHERS:
                counter.count(f"{path}/{name}")
    return ScratchUsage(counter.total + _deleted_bytes(folder, processes), volumes, counter.is_too_deep)


def eviction_message(pod: Object, usage: ScratchUsage, budgets: Budgets) -> str:
    """Returns why a Pod with this usage has to end, or ''."""
    spec = spec_of(pod)
    for volume in spec.get("volumes") or ():
        source: Mapping[str, Any] = volume.get("emptyDir") or {}
        limit = source.get("sizeLimit")
        if limit and source.get("medium") != "Memory" and usage.volumes.get(volume["name"], 0) > whole_value(limit):
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}".'
    limits = [((c.get("resources") or {}).get("limits") or {}).get("ephemeral-storage") for c in spec["containers"]]
    if any(limits):
        most = sum(whole_value(limit) for limit in limits if limit)
        if usage.total > most:
            return f"Pod ephemeral local storage usage exceeds the total limit of containers {most >> 20}Mi."
    budget, setting = budgets.pod_scratch_megabytes, setting_name("pod_scratch_megabytes")
    if usage.total > budget << 20:
        return (
            f"The Pod uses more than {budget}Mi of disk space for /tmp, emptyDir volumes and its own files ({setting})."
        )
    if usage.is_too_deep:
        return f"The Pod nests folders too deeply to measure the disk space that it uses ({setting})."
    return ""


def uses_claims(pod: Object) -> bool:
    return any("persistentVolumeClaim" in v or "ephemeral" in v for v in spec_of(pod).get("volumes") or ())


def claims_message(namespace: str, usage: ScratchUsage, budgets: Budgets) -> str:
    """Returns why the Pods of a restricted namespace that use claims have to end, or ''. A folder has no size, so the
    capacity of a claim limits nothing."""
    budget, setting = budgets.member_volume_megabytes, setting_name("member_volume_megabytes")
    if usage.total > budget << 20:
        return f"The volumes of namespace {namespace} use more than {budget}Mi of disk space ({setting}). Delete some."
    if usage.is_too_deep:
        return f"A volume of namespace {namespace} nests folders too deeply to measure what it uses ({setting})."
    return ""


def is_scarce(available: int, total: int) -> bool:
    """Whether so little of the disk or the memory is left that nothing is kept which is not needed. kubelet has the
    same threshold for disks."""
    return available * 10 < total


class ScratchSchedule:
    """Which Pods (or namespaces) to measure now. `budget` is in bytes."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._due: dict[str, float] = {}
        self._free = 0

    def choose(self, running: Iterable[str], free: int, now: float) -> list[str]:
        """`running` are the uids of running Pods, `free` the bytes that are left on the disk. A new Pod is not measured
        at once: most end soon."""
        known = self._due
        self._due = {uid: known.get(uid, now + PERIOD_SECONDS) for uid in running}
        if self._free - free > self._budget // 8:
            self._free = free
            return [uid for uid in self._due if uid in known]
        self._free = max(self._free, free)
        return [uid for uid, due in self._due.items() if due <= now]

    def measured(self, uid: str, usage: ScratchUsage, seconds: float, now: float) -> None:
        """The more a Pod uses, the sooner it is measured again; the longer that takes, the later."""
        pause = PERIOD_SECONDS if usage.total > self._budget // 8 else _RARE_SECONDS
        self._due[uid] = now + max(pause, 20 * seconds)


class _Counter:
    def __init__(self, until: float) -> None:
        self.total = self._entries = 0
        self.is_too_deep = False
        self._until = until

    def count(self, path: str) -> int:
        """Returns what is at the path and below."""
        before = self.total
        pending = [path]
        while pending and time.monotonic() < self._until:
            try:
                with os.scandir(pending.pop()) as entries:
                    for entry in entries:
                        self._add(entry.stat(follow_symlinks=False))
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
            except NotADirectoryError:
                self._add(os.lstat(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.is_too_deep |= error.errno == ENAMETOOLONG
        return self.total - before

    def _add(self, status: os.stat_result) -> None:
        self.total += status.st_blocks * 512 + _ENTRY_BYTES
        self._entries += 1
        if self._entries % _PAUSE_ENTRIES == 0:
            time.sleep(_PAUSE_SECONDS)


def _deleted_bytes(folder: str, processes: Iterable[int]) -> int:
    """Returns the size of files that have no name any more, but still use the disk because they are open."""
    try:
        device = os.stat(folder).st_dev
    except OSError:
        return 0
    sizes: dict[int, int] = {}
    for pid in processes:
        for name in _list(f"/proc/{pid}/fd"):
            with suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{name}")
                if status.st_nlink == 0 and status.st_dev == device and stat.S_ISREG(status.st_mode):
                    sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
