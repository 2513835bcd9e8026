"""A Pod's status and events, computed from its journal in the words kubelet uses. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.embedded.node.journal import ContainerExit, ContainerProgress, Progress
from muster.embedded.node.supervisor.contract import ContainerRole, JournalEntry
from muster.kube.defaults import qos_class
from muster.kube.objects import Object, meta, name_of, namespace_of, parse_time, spec_of, status_of, uid_of

Phase: TypeAlias = Literal["Pending", "Running", "Succeeded", "Failed"]
_CONDITION_TYPES = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


class WaitingReason(NamedTuple):
    """Why a Pod has not been started. An empty `container` means all containers."""

    reason: str
    message: str
    container: str = ""


class PodPlace(NamedTuple):
    """Where a Pod runs, as its status says."""

    pod_ip: str = ""
    host_ip: str = "127.0.0.1"
    engine: str = "process"
    """The scheme of its containers' ids."""


class PodEvent(NamedTuple):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


_THIS_MACHINE = PodPlace()


def pod_status(
    pod: Object, progress: Progress, now: float, place: PodPlace = _THIS_MACHINE, waiting: WaitingReason | None = None
) -> dict[str, Any]:
    """Returns the whole status. Keeps the conditions of other controllers (readiness gates) and the transition
    times."""
    before, spec = status_of(pod), spec_of(pod)
    inits, mains = spec.get("initContainers") or [], spec.get("containers") or []
    incomplete = _incomplete(inits, progress)
    init_statuses = [
        _container(pod, c, progress, place, waiting, "PodInitializing", once=not is_sidecar(c)) for c in inits
    ]
    idle = "PodInitializing" if inits else "ContainerCreating"
    statuses = [_container(pod, c, progress, place, waiting, idle) for c in mains]
    phase = _phase(mains, progress, not incomplete)
    sidecars = [s for c, s in zip(inits, init_statuses, strict=True) if is_sidecar(c)]
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": _conditions(pod, progress, phase, incomplete, [*sidecars, *statuses], now),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
    }
    if place.pod_ip:
        status["podIP"], status["podIPs"] = place.pod_ip, [{"ip": place.pod_ip}]
    if generation := meta(pod).get("generation"):
        status["observedGeneration"] = generation
    status["startTime"] = before.get("startTime") or format_time(progress.supervised or now)
    finished = progress.finished
    # A Pod that failed before it was started has no containers: clients show its reason, not "ContainerCreating".
    if finished is None or progress.supervised or progress.containers:
        if inits:
            status["initContainerStatuses"] = init_statuses
        status["containerStatuses"] = statuses
    status["qosClass"] = before.get("qosClass") or qos_class(spec)
    if finished is not None:
        reason, message = finished.get("reason"), finished.get("message")
        status.update({k: v for k, v in (("reason", reason), ("message", message)) if v})
    for key in ("nominatedNodeName", "resourceClaimStatuses"):
        if key in before:
            status[key] = before[key]
    return status


def journal_events(pod: Object, entry: JournalEntry, notes: Mapping[str, str]) -> list[PodEvent]:
    """`notes` says where each container runs if no image engine runs it."""
    name = entry.get("c", "")
    match entry.get("e"):
        case "started":
            started = PodEvent("Normal", "Started", f"Started container {name}")
            if entry.get("a", 0) or name not in notes:
                return [started]
            return [PodEvent("Normal", "ImageNotPulled", notes[name]), started]
        case "exited":
            return _exited(pod, name, entry)
        case "backoff":
            where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
            return [PodEvent("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {where}")]
        case "unhealthy":
            reason = "FailedPreStopHook" if entry.get("probe") == "preStop" else "Unhealthy"
            return [PodEvent("Warning", reason, entry.get("message") or "")]
        case "killing":
            return [_killing(name, entry)]
        case "finished" if entry.get("reason"):
            message = entry.get("message") or f"Pod ended: {entry['reason']}"
            kind: Literal["Normal", "Warning"] = "Normal" if entry["reason"] == "DeadlineExceeded" else "Warning"
            return [PodEvent(kind, entry["reason"], message)]
    return []


def has_ended(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container is a sidecar."""
    return container.get("restartPolicy") == "Always"


def containers_of(spec: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], ContainerRole]]:
    """Returns all containers of a Pod with their roles, in the order in which they start."""
    found: list[tuple[Mapping[str, Any], ContainerRole]] = [
        (c, "sidecar" if is_sidecar(c) else "init") for c in spec.get("initContainers") or ()
    ]
    found.extend((c, "main") for c in spec.get("containers") or ())
    return found


def start_time(pod: Object, now: float) -> float:
    """When the Pod started; now if it has not."""
    text = status_of(pod).get("startTime")
    return parse_time(text).timestamp() if text else now


def remaining_grace(pod: Object, now: float) -> float:
    """Returns how much of the deletion's grace period is left."""
    full = float(meta(pod).get("deletionGracePeriodSeconds") or 0)
    left = parse_time(meta(pod)["deletionTimestamp"]).timestamp() - now
    # Timestamps are whole seconds, so a grace period of one second would seem to be over at once.
    return full if left > full - 2.0 else max(0.0, left)


def last_reported_time(pod: Object) -> float:
    """Returns the time up to which the status reports: events before it are recorded. 0 if it reports nothing."""
    status = status_of(pod)
    if not status.get("containerStatuses"):
        return 0.0
    moments = [c.get("lastTransitionTime") for c in status.get("conditions") or ()]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            for detail in state.values():
                moments += [detail.get("startedAt"), detail.get("finishedAt")]
    return max((parse_time(text).timestamp() + 1.0 for text in moments if text), default=0.0)


def go_duration(seconds: float) -> str:
    """Formats `80` as `1m20s`, as kubelet's back-off messages do."""
    whole = round(seconds)
    if whole == 0:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"


@lru_cache(maxsize=512)
def _seconds_text(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def format_time(moment: float) -> str:
    return _seconds_text(int(moment))


def _incomplete(inits: Iterable[Mapping[str, Any]], progress: Progress) -> list[str]:
    """Returns the init containers that the main containers still wait for."""
    names = []
    for container in inits:
        c = progress.containers.get(container["name"])
        if is_sidecar(container):
            done = c is not None and (c.exit is not None or (c.running and _has_started(container, c)))
        else:
            done = c is not None and c.exit is not None and c.exit.code == 0
        if not done:
            names.append(container["name"])
    return names


def _phase(mains: Iterable[Mapping[str, Any]], progress: Progress, initialized: bool) -> Phase:
    if progress.finished is not None:
        return progress.finished.get("phase") or "Failed"
    if not initialized:
        return "Pending"
    known = [progress.containers.get(c["name"]) for c in mains]
    # An ended container counts as well: others may have waited for it and not have started yet.
    if any(c is not None and (c.running or c.exit is not None) for c in known):
        return "Running"
    return "Pending" if any(c is None or c.attempt < 0 for c in known) else "Running"


def _container(
    pod: Object, spec: Mapping[str, Any], progress: Progress, place: PodPlace, waiting: WaitingReason | None, idle: str,
    *, once: bool = False,
) -> dict[str, Any]:  # fmt: skip
    name = spec["name"]
    c = progress.containers.get(name) or ContainerProgress()
    state, started = _state(pod, name, c, place, waiting, idle), c.running and _has_started(spec, c)
    if once:
        ready = c.exit is not None and c.exit.code == 0
    else:
        ready = started and (c.ready is True if spec.get("readinessProbe") else c.ready is not False)
    previous = c.last if c.exit is None or c.backoff_until == 0.0 else c.exit
    return {
        "name": name,
        "state": state,
        "lastState": {"terminated": _terminated(pod, name, previous, place)} if previous is not None else {},
        "ready": ready,
        "restartCount": max(c.attempt, 0),
        "image": spec.get("image") or "",
        "imageID": "",
        "started": started,
        **({"containerID": _id(pod, name, c.attempt, place)} if c.attempt >= 0 else {}),
    }


def _state(
    pod: Object, name: str, c: ContainerProgress, place: PodPlace, waiting: WaitingReason | None, idle: str
) -> dict[str, Any]:
    if c.running:
        return {"running": {"startedAt": format_time(c.started)}}
    if c.backoff_until:
        delay = go_duration(c.backoff_until - c.backoff_from)
        where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
        message = f"back-off {delay} restarting failed container={name} pod={where}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    if c.exit is not None:
        return {"terminated": _terminated(pod, name, c.exit, place)}
    if waiting is not None and waiting.container in ("", name):
        return {"waiting": {"reason": waiting.reason, "message": waiting.message}}
    return {"waiting": {"reason": idle}}


def _terminated(pod: Object, name: str, exit: ContainerExit, place: PodPlace) -> dict[str, Any]:
    terminated: dict[str, Any] = {
        "exitCode": exit.code,
        "reason": exit.reason or ("Completed" if exit.code == 0 else "Error"),
        "startedAt": format_time(exit.started),
        "finishedAt": format_time(exit.ended),
        "containerID": _id(pod, name, exit.attempt, place),
    }
    if exit.signal:
        terminated["signal"] = exit.signal
    if exit.message:
        terminated["message"] = exit.message
    return terminated


def _id(pod: Object, container: str, attempt: int, place: PodPlace) -> str:
    return f"{place.engine}://{uid_of(pod)}/{container}/{attempt}"


def _has_started(spec: Mapping[str, Any], c: ContainerProgress) -> bool:
    return c.startup_passed or not spec.get("startupProbe")


def _conditions(
    pod: Object, progress: Progress, phase: Phase, incomplete: list[str], watched: list[dict[str, Any]], now: float
) -> list[dict[str, Any]]:
    before: list[dict[str, Any]] = status_of(pod).get("conditions") or []
    ended = phase in ("Succeeded", "Failed")
    unready = [s["name"] for s in watched if not s["ready"]]
    if ended:
        ready = containers_ready = (False, "PodCompleted" if phase == "Succeeded" else "PodFailed", "")
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready = containers_ready = (False, "ContainersNotReady", message)
    else:
        containers_ready = (True, "", "")
        ready = _gates(pod, before)
    initialized = (True, "PodCompleted" if phase == "Succeeded" else "", "")
    if incomplete and phase != "Succeeded":
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        initialized = (False, "ContainersNotInitialized", message)
    results = {
        "PodReadyToStartContainers": (bool(progress.supervised) and not ended, "", ""),
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": containers_ready,
        "PodScheduled": (True, "", ""),
    }
    known = {c.get("type"): c for c in before}
    conditions = [_condition(kind, results[kind], known.get(kind), now) for kind in _CONDITION_TYPES]
    conditions += [c for c in before if c.get("type") not in results]
    return conditions


def _gates(pod: Object, conditions: list[dict[str, Any]]) -> tuple[bool, str, str]:
    wanted = [g.get("conditionType") for g in spec_of(pod).get("readinessGates") or ()]
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    missing = [f'corresponding condition of pod readiness gate "{g}" is not "True".' for g in wanted if g not in true]
    return (False, "ReadinessGatesNotReady", ", ".join(missing)) if missing else (True, "", "")


def _condition(
    kind: str, answer: tuple[bool, str, str], before: Mapping[str, Any] | None, now: float
) -> dict[str, Any]:
    status = "True" if answer[0] else "False"
    since = before.get("lastTransitionTime") if before is not None and before.get("status") == status else None
    condition: dict[str, Any] = {
        "type": kind,
        "status": status,
        "lastTransitionTime": since or format_time(now),
    }
    if answer[1]:
        condition["reason"] = answer[1]
    if answer[2]:
        condition["message"] = answer[2]
    return condition


def _exited(pod: Object, name: str, entry: JournalEntry) -> list[PodEvent]:
    reason, message = entry.get("reason") or "", entry.get("message") or ""
    if reason == "OOMKilled":
        limit = _memory_limit(pod, name)
        over = f" (its limit is {limit})" if limit else ""
        return [PodEvent("Warning", "OOMKilling", f"Container {name} was killed for using too much memory{over}")]
    if reason in ("StartError", "ContainerCannotRun", "ContainerStatusUnknown"):
        return [PodEvent("Warning", "Failed", f"Error: {message or reason}")]
    return []


def _killing(name: str, entry: JournalEntry) -> PodEvent:
    reason, message = entry.get("reason") or "", entry.get("message") or ""
    if reason.startswith("Failed"):  # FailedPostStartHook, FailedPreStopHook
        return PodEvent("Warning", reason, message or f"Container {name}: {reason}")
    return PodEvent("Normal", "Killing", message or f"Stopping container {name}")


def _memory_limit(pod: Object, name: str) -> str:
    spec = spec_of(pod)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if container.get("name") == name:
            limits: Mapping[str, Any] = (container.get("resources") or {}).get("limits") or {}
            return str(limits.get("memory") or "")
    return ""
