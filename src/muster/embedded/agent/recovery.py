"""What a supervisor does first when there was another one before it, which was killed: the Pod's processes have gone
with that one, but the journal tells how far they had come."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from muster.embedded.agent import cgroups
from muster.embedded.agent.attempt import cgroup_prefix
from muster.embedded.agent.contract import Entry, PreparedPod
from muster.embedded.agent.launching import StartError
from muster.embedded.agent.lifecycle import BackOff, Pod, Start, apply, exited
from muster.embedded.agent.processes import kill_marked
from muster.embedded.agent.sandbox import MARK, Sandbox

_LOST_CODE = 137
_LOST_SIGNAL = 9


def restore(state: Pod, entries: Sequence[Entry], now: float) -> list[Entry]:
    """Brings the state to where the journal ends. Answers the exits that nobody has noted."""
    names = {container.name for container in state.containers}
    for entry in entries:
        name = entry.get("c")
        if name not in names or name is None:
            continue
        event, attempt, time = entry["e"], entry.get("a", 0), entry["t"]
        if event == "starting":
            apply(state, Start(name, attempt), time)
        elif event == "started":
            state[name].started = time
        elif event == "exited":
            exited(state, name, entry["code"], time)
        elif event == "backoff":
            apply(state, BackOff(name, attempt, entry["until"]), time)
    lost: list[Entry] = []
    for container in state.containers:
        if container.is_active:
            exited(state, container.name, _LOST_CODE, now)
            lost.append(
                {
                    "t": now,
                    "e": "exited",
                    "c": container.name,
                    "a": container.attempt,
                    "code": _LOST_CODE,
                    "signal": _LOST_SIGNAL,
                    "reason": "ContainerStatusUnknown",
                    "message": "The container was killed together with the process that supervised it",
                }
            )
    return lost


def clear_away(pod: PreparedPod, sandbox: Sandbox, nothing: int) -> None:
    """Ends what may have outlived the earlier supervisor: the kernel has seen to that where the Pod had a process
    namespace, but not elsewhere."""
    cgroups.remove_leftovers(cgroup_prefix(pod["uid"]))
    if pod["isolation"] == "none":
        kill_marked(f"{MARK}={pod['uid']}/".encode())
    for container in pod["containers"]:
        engine = container.get("engine")
        if engine:
            with suppress(StartError, ChildProcessError):
                os.waitpid(sandbox.run_engine(container, 0, engine["remove"], [nothing] * 3), 0)
