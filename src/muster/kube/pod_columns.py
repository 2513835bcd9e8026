"""What `get pods` shows of a Pod: how many containers are ready, one word for its state, how often it restarted."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from muster.kube.kinds import Column
from muster.kube.objects import Object, is_deleting, spec_of, status_of
from muster.kube.tables import AGE, age


class PodSummary(NamedTuple):
    ready: int
    containers: int
    status: str
    restarts: int
    last_restart: str
    """When a container last ended to be started again, or ''."""


def summarize(pod: Object) -> PodSummary:
    """As kubectl does: the first init container that is not through speaks for the Pod, else its last container that
    has something to say, and a deletion overrides both."""
    spec, status = spec_of(pod), status_of(pod)
    init_specs = spec.get("initContainers") or []
    sidecars = [c.get("name") for c in init_specs if c.get("restartPolicy") == "Always"]
    word = _phase_word(status)
    init = _init_state(status.get("initContainerStatuses") or [], sidecars, len(init_specs))
    ready, restarts, last_restart = init.ready, init.restarts, init.last_restart
    if init.word and not _is_true(status, "Initialized"):
        word = init.word
    else:
        word, ready_now, restarts, last_restart = _main_state(status, init.word or word, init)
        ready += ready_now
    if is_deleting(pod):
        if status.get("reason") == "NodeLost":
            word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            word = "Terminating"
    return PodSummary(ready, len(spec.get("containers") or []) + len(sidecars), word, restarts, last_restart)


def status_word(pod: Object) -> str:
    """The STATUS column: Running, Init:0/1, CrashLoopBackOff, Completed, Error, OOMKilled, Terminating, ..."""
    return summarize(pod).status


class _InitState(NamedTuple):
    word: str
    ready: int
    restarts: int
    last_restart: str
    sidecar_restarts: int
    sidecar_last_restart: str


def _phase_word(status: Object) -> str:
    gated = any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or []
    )
    return "SchedulingGated" if gated else str(status.get("reason") or status.get("phase") or "")


def _init_state(statuses: list[Object], sidecars: list[Any], total: int) -> _InitState:
    word, ready, restarts, last, sidecar_restarts, sidecar_last = "", 0, 0, "", 0, ""
    for index, container in enumerate(statuses):
        is_sidecar = container.get("name") in sidecars
        restarts += container.get("restartCount") or 0
        last = max(last, _last_end(container))
        if is_sidecar:
            sidecar_restarts += container.get("restartCount") or 0
            sidecar_last = max(sidecar_last, _last_end(container))
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if ended is not None:
            word = "Init:" + _end_word(ended)
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            word = f"Init:{waiting['reason']}"
        else:
            word = f"Init:{index}/{total}"
        break
    return _InitState(word, ready, restarts, last, sidecar_restarts, sidecar_last)


def _main_state(status: Object, word: str, init: _InitState) -> tuple[str, int, int, str]:
    ready, restarts, last, error = 0, init.sidecar_restarts, init.sidecar_last_restart, ""
    for container in reversed(status.get("containerStatuses") or []):
        restarts += container.get("restartCount") or 0
        last = max(last, _last_end(container))
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = str(waiting["reason"])
        elif ended is not None:
            word = _end_word(ended)
            if ended.get("exitCode", 0) != 0:
                error = word
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if word == "Completed":
        if ready and _is_true(status, "Ready"):
            word = "Running"
        elif error:
            word = error
        elif ready:
            word = "NotReady"
    return word, ready, restarts, last


def _end_word(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _last_end(container: Object) -> str:
    return str(((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "")


def _is_true(status: Object, condition: str) -> bool:
    return any(c.get("type") == condition and c.get("status") == "True" for c in status.get("conditions") or [])


def _ready_cell(pod: Object, _: datetime) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.containers}"


def _restarts_cell(pod: Object, now: datetime) -> str:
    summary = summarize(pod)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({age(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def _ip_cell(pod: Object, _: datetime) -> str:
    ips = status_of(pod).get("podIPs") or [{"ip": status_of(pod).get("podIP")}]
    return ips[0].get("ip") or "<none>"


def _gates_cell(pod: Object, _: datetime) -> str:
    gates = spec_of(pod).get("readinessGates") or []
    met = sum(_is_true(status_of(pod), gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}" if gates else "<none>"


POD_COLUMNS = (
    Column("Ready", cell=_ready_cell),
    Column("Status", cell=lambda pod, _: status_word(pod)),
    Column("Restarts", cell=_restarts_cell),
    AGE,
    Column("IP", priority=1, cell=_ip_cell),
    Column("Node", priority=1, cell=lambda pod, _: spec_of(pod).get("nodeName") or "<none>"),
    Column("Nominated Node", priority=1, cell=lambda pod, _: status_of(pod).get("nominatedNodeName") or "<none>"),
    Column("Readiness Gates", priority=1, cell=_gates_cell),
)
