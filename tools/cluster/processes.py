"""The cluster's processes: started in its network and its control group, known by pid and start time, ended for sure.

The control group is what makes ending sure: whatever a component starts, such as the shims of containerd, is in it.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from tools.cluster import network
from tools.cluster.layout import Layout

CGROUPS = Path("/sys/fs/cgroup")
_JOIN = 'echo $$ > "$0"/cgroup.procs && exec "$@"'


class ComponentFailed(RuntimeError):
    """Names the component, what happened, and the last lines of its log."""


@dataclass(frozen=True, slots=True)
class Health:
    """Where a component reports that it is ready."""

    port: int
    path: str = "/healthz"
    tls: bool = False
    host: str = "127.0.0.1"

    def is_good(self, layout: Layout) -> bool:
        connection = (
            http.client.HTTPSConnection(self.host, self.port, timeout=5, context=_unverified())
            if self.tls
            else http.client.HTTPConnection(self.host, self.port, timeout=5)
        )
        try:
            with network.entered(layout.network):
                connection.connect()
            connection.request("GET", self.path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Component:
    """A process of the cluster: how it is started and how it reports that it is ready."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    """In addition to our own environment."""
    health: Health | None = None
    seconds: float = 90.0
    """How long it may take to become ready."""


def start(layout: Layout, component: Component) -> bool:
    """False if it runs already."""
    if is_running(layout, component.name):
        return False
    group = control_groups(layout)[0] / "system"
    group.mkdir(parents=True, exist_ok=True)
    with log_of(layout, component.name).open("w") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _JOIN, str(group), *network.inside(layout, component.command)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **(component.environment or {})}, cwd="/",
        )  # fmt: skip
    # The parent of a process reaps it; it may end long before this process.
    Thread(target=process.wait, name=f"reaper of {component.name}", daemon=True).start()
    record = {"pid": process.pid, "started": _start_time(process.pid), "command": list(component.command)}
    unfinished = layout.processes / f".{component.name}"
    unfinished.write_text(json.dumps(record))
    unfinished.rename(layout.processes / component.name)
    return True


def wait_ready(layout: Layout, component: Component) -> None:
    health = component.health
    if health is not None:
        wait_until(layout, component.name, lambda: health.is_good(layout), component.seconds)
    elif not is_running(layout, component.name):
        raise failure(layout, component.name, "ended")


def wait_until(layout: Layout, name: str, is_so: Callable[[], bool], seconds: float, what: str = "ready") -> None:
    """Waits until the condition holds. Raises an error as soon as the component exits."""
    end = time.monotonic() + seconds
    while not is_so():
        if not is_running(layout, name):
            raise failure(layout, name, "ended")
        if time.monotonic() > end:
            raise failure(layout, name, f"was not {what} after {seconds:.0f} s")
        time.sleep(0.2)


def stop(layout: Layout, name: str, *, seconds: float = 10.0, force: bool = False) -> None:
    """Stops it and waits until it is gone. With `force`, it cannot shut down cleanly."""
    pid = pid_of(layout, name)
    if pid:
        _signal(pid, signal.SIGKILL if force else signal.SIGTERM)
        if not _gone(layout, name, seconds):
            _signal(pid, signal.SIGKILL)
            _gone(layout, name, 10.0)
    (layout.processes / name).unlink(missing_ok=True)


def stop_everything(layout: Layout) -> None:
    """Stops the recorded processes first, then whatever else is in the cluster's control groups."""
    for name in recorded(layout):
        if pid := pid_of(layout, name):
            _signal(pid, signal.SIGTERM)
    end = time.monotonic() + 1
    while any(is_running(layout, name) for name in recorded(layout)) and time.monotonic() < end:
        time.sleep(0.05)
    end = time.monotonic() + 20
    while members := list(_members(layout)):
        for pid in members:
            _signal(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise ComponentFailed(f"these processes of the cluster do not end: {', '.join(map(str, members))}")
        time.sleep(0.05)
    for name in recorded(layout):
        (layout.processes / name).unlink()


def recorded(layout: Layout) -> list[str]:
    """The names of started components, in that order."""
    if not layout.processes.exists():
        return []
    found = [path for path in layout.processes.iterdir() if not path.name.startswith(".")]
    return [path.name for path in sorted(found, key=lambda path: path.stat().st_mtime_ns)]


def is_running(layout: Layout, name: str) -> bool:
    return pid_of(layout, name) is not None


def pid_of(layout: Layout, name: str) -> int | None:
    """None if it does not run. A pid that the kernel has reused for another process does not count."""
    record = _record(layout, name)
    pid = int(record.get("pid") or 0)
    started = _start_time(pid)
    return pid if started is not None and started == record["started"] else None


def command_of(layout: Layout, name: str) -> list[str]:
    """How it was started last."""
    return [str(word) for word in _record(layout, name).get("command") or ()]


def log_of(layout: Layout, name: str) -> Path:
    return layout.logs / f"{name}.log"


def failure(layout: Layout, name: str, what: str) -> ComponentFailed:
    log = log_of(layout, name)
    lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
    end = "\n".join(f"  {line[:400]}" for line in lines) or "  (nothing)"
    return ComponentFailed(f"{name} {what}. The end of {log}:\n{end}")


def control_groups(layout: Layout) -> list[Path]:
    """The cluster's group in every hierarchy. The first one lists its processes."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / layout.identity]
    hierarchies = sorted(path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists())
    hierarchies.sort(key=lambda path: path.name != "pids")
    return [path / layout.identity for path in hierarchies if not path.is_symlink()]


def _record(layout: Layout, name: str) -> dict[str, Any]:
    try:
        record = json.loads((layout.processes / name).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _members(layout: Layout) -> Iterator[int]:
    for group in control_groups(layout):
        for folder in [group, *group.rglob("*/")] if group.exists() else ():
            try:
                yield from map(int, (folder / "cgroup.procs").read_text().split())
            except OSError:
                continue


def _gone(layout: Layout, name: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_running(layout, name):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _start_time(pid: int) -> str | None:
    """In clock ticks since boot; None if there is no such process, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # Its first thread may have ended before the others, which then still hold its ports.
        is_left_over = fields[0] in "ZX" and len(list(Path(f"/proc/{pid}/task").iterdir())) <= 1
    except OSError:
        return None
    return None if is_left_over else fields[19]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _unverified() -> ssl.SSLContext:
    """Health needs no authentication, and components create their own certificates for it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
