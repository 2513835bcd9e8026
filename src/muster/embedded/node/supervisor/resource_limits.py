"""Limits on what a Pod uses: memory, CPU and processes with control groups, version 1 or 2, if this user may create
them; processes, open files and core dumps with limits that every process inherits from the supervisor.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable
from contextlib import suppress

from muster.embedded.node.supervisor.contract import PodLimits

CONTROLLERS = ("memory", "cpu", "pids")
_PERIOD_MICROSECONDS = 100_000
_PROCESS_GROUP = "muster-processes-"
_PODS_GROUP = "muster-pods-"
_REMOVE_TRIES = 20
_JOIN_TRIES = 3


class Cgroup:
    """The control group of one attempt of a container. A process joins it by writing 0 to each descriptor in
    `procs`."""

    def __init__(self, folders: dict[str, tuple[int, str]]) -> None:
        self._folders = folders
        self.procs: list[int] = []
        self.limits_memory, self.limits_cpu = "memory" in folders, "cpu" in folders

    @property
    def paths(self) -> list[str]:
        return sorted({path for _, path in self._folders.values()})

    def was_out_of_memory(self) -> bool:
        if "memory" not in self._folders:
            return False
        version, path = self._folders["memory"]
        text = _read(f"{path}/{'memory.events' if version == 2 else 'memory.oom_control'}")
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in text.splitlines())

    def close(self) -> None:
        for descriptor in self.procs:
            os.close(descriptor)
        self.procs.clear()

    def remove(self) -> None:
        """Call it when the last process has ended; the kernel may notice that a moment later."""
        self.close()
        for path in self.paths:
            remove_cgroup(path)


def create_cgroup(name: str, memory: int | None, cpu: float | None, processes: int = 0) -> Cgroup | None:
    """Creates a control group. Returns None if this machine allows none or neither memory nor CPU is limited.
    `limits_memory` and `limits_cpu` say what is limited. `processes` are limited in version 2, where joining this group
    means leaving the one of `ProcessLimit`."""
    places = find_parents(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo")) if memory or cpu else {}
    folders: dict[str, tuple[int, str]] = {}
    for controller, value in (("memory", memory), ("cpu", cpu)):
        if value:
            for version, parent in places.get(controller, ()):
                path = f"{parent}/{name}"
                if _make(version, parent, path, controller) and _set(version, path, controller, value):
                    folders[controller] = (version, path)
                    break
    if not folders:
        return None
    for version, path in set(folders.values()):
        if processes and version == 2 and _make(2, os.path.dirname(path), path, "pids"):
            _set(2, path, "pids", processes)
    cgroup = Cgroup(folders)
    try:
        for path in cgroup.paths:
            cgroup.procs.append(os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        cgroup.remove()
        return None
    return cgroup


class ProcessLimit:
    """Limits the number of processes and threads of this process and its descendants. Joining a group takes the kernel
    some milliseconds, so this process does it once and its children inherit it."""

    def __init__(self) -> None:
        self._path = ""
        self._limit = 0
        self._failures = 0
        self._is_impossible = False

    def set(self, limit: int) -> bool:
        """Returns False if this machine does not allow it."""
        if limit == self._limit or self._is_impossible:
            return not self._is_impossible
        if not self._path:
            self._path = _join_own_group()
        self._is_impossible = not self._path or not _write(f"{self._path}/pids.max", f"{limit}")
        self._limit = limit
        return not self._is_impossible

    def forget_failures(self) -> None:
        self._failures = self._count_failures()

    def was_reached(self) -> bool:
        """Whether a process could not be started because of the limit since the last `forget_failures`."""
        return self._count_failures() > self._failures

    def _count_failures(self) -> int:
        text = _read(f"{self._path}/pids.events") if self._path else ""
        return sum(int(line[4:]) for line in text.splitlines() if line.startswith("max "))


def enter_pods_group(name: str, memory: int) -> bool:
    """Moves this process into a control group whose processes, with those that they start, may use so much memory
    together: the zygote, and so all Pods. The server is outside, so that the kernel ends a Pod and not the server.
    Returns False if this machine does not allow it."""
    for version, parent in find_parents(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo")).get("memory", ()):
        _remove_empty_groups(parent)
        for _ in range(_JOIN_TRIES):  # another server that starts may remove the group while it is empty
            if _join_pods_group(version, parent, f"{parent}/{_PODS_GROUP}{name}", memory):
                return True
    return False


def _join_pods_group(version: int, parent: str, path: str, memory: int) -> bool:
    if not _make(version, parent, path, "memory"):
        return False
    if not _write(f"{path}/{'memory.max' if version == 2 else 'memory.limit_in_bytes'}", f"{memory}"):
        remove_cgroup(path)
        return False
    if version == 2:
        # Groups for single Pods are created next to this one: none may be below a group with processes.
        for controller in CONTROLLERS:
            _write(f"{path}/cgroup.subtree_control", f"+{controller}")
        path = f"{path}/zygote"
        with suppress(OSError):
            os.mkdir(path)
    return _write(f"{path}/cgroup.procs", "0")


def _remove_empty_groups(parent: str) -> None:
    """Removes the groups of Pods of servers that are gone. In a group with a process, those without one stay: they may
    be for containers that are just being started."""
    with suppress(OSError):
        for group in os.scandir(parent):
            if group.name.startswith(_PODS_GROUP):
                paths = [*(each.path for each in os.scandir(group) if each.is_dir()), group.path]
                if not any(_read(f"{path}/cgroup.procs") for path in paths):
                    for path in paths:
                        with suppress(OSError):
                            os.rmdir(path)


class SharedMemory:
    """Whether the kernel has ended processes because all Pods together used too much memory."""

    def __init__(self) -> None:
        self._file = ""
        self._kills = 0

    def forget_kills(self) -> None:
        if not self._file:
            places = find_parents(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo")).get("memory") or [(0, "")]
            version, path = places[0]
            self._file = f"{path}/{'memory.events' if version == 2 else 'memory.oom_control'}"
        self._kills = self._count_kills()

    def was_exhausted(self) -> bool:
        return _PODS_GROUP in self._file and self._count_kills() > self._kills

    def _count_kills(self) -> int:
        return sum(int(line[9:]) for line in _read(self._file).splitlines() if line.startswith("oom_kill "))


def _join_own_group() -> str:
    """Creates a group for this process and joins it. Removes groups of processes that are gone: none can remove its
    own."""
    for version, parent in find_parents(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo")).get("pids", ()):
        path = f"{parent}/{_PROCESS_GROUP}{os.readlink('/proc/self')}"
        if _make(version, parent, path, "pids") and _write(f"{path}/cgroup.procs", "0"):
            _remove_old_groups(parent)
            return path
    return ""


def _remove_old_groups(parent: str) -> None:
    with suppress(OSError):
        for name in os.listdir(parent):
            pid = name.removeprefix(_PROCESS_GROUP)
            if pid != name and not os.path.exists(f"/proc/{pid}"):
                with suppress(OSError):
                    os.rmdir(f"{parent}/{name}")


def can_limit() -> tuple[bool, bool]:
    """Returns whether memory and CPU can be limited here, by trying."""
    cgroup = create_cgroup(f"muster-probe-{os.getpid()}", 1 << 30, 1.0)
    if cgroup is None:
        return False, False
    cgroup.remove()
    return cgroup.limits_memory, cgroup.limits_cpu


def remove_leftovers(prefix: str) -> None:
    """Kills the processes in all groups whose names have this prefix, and removes the groups."""
    places = find_parents(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo"))
    for parent in {parent for found in places.values() for _, parent in found}:
        with suppress(OSError):
            for name in os.listdir(parent):
                if name.startswith(prefix):
                    for pid in _read(f"{parent}/{name}/cgroup.procs").split():
                        with suppress(OSError):
                            os.kill(int(pid), 9)
                    remove_cgroup(f"{parent}/{name}")


def remove_cgroup(path: str) -> None:
    for _ in range(_REMOVE_TRIES):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)


def find_parents(own: str, mountinfo: str) -> dict[str, list[tuple[int, str]]]:
    """Returns where groups for each of CONTROLLERS may be created, the nearest first: (version, folder). `own` is the
    text of /proc/self/cgroup. Version 2 allows none below a group with processes, so its parents are candidates as
    well."""
    mine: dict[str, str] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            mine[controller] = path
    places: dict[str, list[tuple[int, str]]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split(" ")[3:5]
        if kind == "cgroup":
            for controller in CONTROLLERS:
                if controller in options.split(","):
                    places.setdefault(controller, []).insert(
                        0, (1, _path_in_mount(root, point, mine.get(controller, "/")))
                    )
        elif kind == "cgroup2":
            folder = _path_in_mount(root, point, mine.get("", "/"))
            for candidate in _ancestors(folder, point):
                for controller in CONTROLLERS:
                    places.setdefault(controller, []).append((2, candidate))
    return places


def _path_in_mount(root: str, point: str, path: str) -> str:
    """A mount shows the hierarchy below `root`."""
    if root != "/":
        path = path[len(root) :] if path == root or path.startswith(root + "/") else "/"
    return (point + path).rstrip("/") or "/"


def _ancestors(folder: str, top: str) -> Iterable[str]:
    while True:
        yield folder
        if folder == top or not folder.startswith(top + "/"):
            return
        folder = os.path.dirname(folder)


def _make(version: int, parent: str, path: str, controller: str) -> bool:
    if version == 2:
        if controller not in _read(f"{parent}/cgroup.controllers").split():
            return False
        enabled = controller in _read(f"{parent}/cgroup.subtree_control").split()
        if not enabled and not _write(f"{parent}/cgroup.subtree_control", f"+{controller}"):
            return False
    try:
        os.mkdir(path)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def _set(version: int, path: str, controller: str, value: float) -> bool:
    if controller == "pids":
        return _write(f"{path}/pids.max", f"{int(value)}")
    if controller == "cpu":
        quota = max(1000, int(value * _PERIOD_MICROSECONDS))
        if version == 2:
            return _write(f"{path}/cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
        _write(f"{path}/cpu.cfs_period_us", f"{_PERIOD_MICROSECONDS}")
        return _write(f"{path}/cpu.cfs_quota_us", f"{quota}")
    if version == 2:
        _write(f"{path}/memory.swap.max", "0")
        _write(f"{path}/memory.oom.group", "1")
        return _write(f"{path}/memory.max", f"{value}")
    limited = _write(f"{path}/memory.limit_in_bytes", f"{value}")
    _write(f"{path}/memory.memsw.limit_in_bytes", f"{value}")
    return limited


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        return False
    return True


_ENDLESS = 1 << 62


class ResourceLimits:
    """A supervisor runs several Pods, one after the other, so limits can also be raised again."""

    def __init__(self) -> None:
        self._processes = ProcessLimit()
        self._memory = SharedMemory()
        self._applied: PodLimits | None = None
        self._open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_processes = resource.getrlimit(resource.RLIMIT_NPROC)

    def apply(self, limits: PodLimits) -> None:
        """Applies the limits to this process, and so to the ones that it starts from now on."""
        self._processes.forget_failures()
        self._memory.forget_kills()
        if limits == self._applied:
            return
        self._applied = limits
        _set_limit(resource.RLIMIT_CORE, (0, 0), 0)
        _set_limit(resource.RLIMIT_NOFILE, self._open_files, limits.get("openFiles") or 0)
        processes = limits.get("processes") or 0
        if processes and limits.get("inOwnGroup") and self._processes.set(processes):
            processes = 0
        # Without a control group, the kernel counts all processes of the same user. It does not limit root.
        _set_limit(resource.RLIMIT_NPROC, self._most_processes, processes)

    @property
    def memory_was_exhausted(self) -> bool:
        return self._memory.was_exhausted()

    @property
    def explanation(self) -> str:
        """Why processes could not be started, or ''."""
        if not self._processes.was_reached() or self._applied is None:
            return ""
        return (
            f"the Pod reached its limit of {self._applied.get('processes')} processes and threads; start fewer, "
            f"or raise {self._applied.get('processesSetting')}"
        )


def _set_limit(kind: int, original: tuple[int, int], wanted: int) -> None:
    """Sets the hard limit, so that no process of the Pod can raise it again; 0 for the original one. This process can
    if it has CAP_SYS_RESOURCE. Otherwise later Pods of this supervisor keep the lower one."""
    soft, hard = (_ENDLESS if number == resource.RLIM_INFINITY else number for number in original)
    hard = min(hard, wanted or _ENDLESS)
    now = resource.getrlimit(kind)[1]
    if os.geteuid() != 0 and now != resource.RLIM_INFINITY:
        hard = min(hard, now)
    soft = min(soft, hard)
    soft, hard = (resource.RLIM_INFINITY if number == _ENDLESS else number for number in (soft, hard))
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (soft, hard))
