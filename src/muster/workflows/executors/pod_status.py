"""Derives a node's outcome from its Pod's status, in Argo's words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from graphlib import TopologicalSorter
from math import floor
from typing import Any, Literal

from muster.kube.objects import Object, annotations_of, name_of, namespace_of, parse_time, spec_of, status_of
from muster.kube.quantity import milli_value
from muster.workflows.executors.pod_spec import MAIN, main_containers
from muster.workflows.model import Outcome, Outputs, Template

PROGRESS = "workflows.argoproj.io/progress"

_NEEDS_COMMAND = "ImageNeedsCommand"
_STOPPED_CODES = (137, 143)
_MACHINE_REASONS = ("Evicted", "NodeShutdown", "NodeAffinity", "UnexpectedAdmissionError")
"""The reasons after which Argo restarts a Pod (failedPodRestart)."""
_DEFAULTS = {"cpu": "100m", "memory": "100Mi"}
_UNITS = {"memory": "100Mi", "storage": "10Gi", "ephemeral-storage": "10Gi"}


def pod_outcome(pod: Object, template: Template) -> Outcome:
    """Returns the outcome without outputs to collect."""
    status = status_of(pod)
    phase = status.get("phase") or "Pending"
    if phase == "Pending":
        hopeless = _cannot_start(status)
        if hopeless:
            return Outcome("Error", hopeless, finished=_now_of(pod))
        return Outcome("Pending", pending_reason(status), containers=_containers(pod, template))
    host = str(spec_of(pod).get("nodeName") or "")
    progress = annotations_of(pod).get(PROGRESS) or ""
    if phase == "Running":
        statuses = status.get("containerStatuses") or ()
        return Outcome(
            "Running",
            host=host,
            address=str(status.get("podIP") or ""),
            ready=bool(statuses) and all(s.get("ready") for s in statuses),
            progress=progress,
            started=_started(status),
            containers=_containers(pod, template),
        )
    ending, message = _ending(pod, template)
    code = _exit_code(status)
    return Outcome(
        ending,
        message,
        exit_code=code,
        outputs=Outputs(exitCode=str(code)) if code is not None else Outputs(),
        started=_started(status),
        finished=_finished(status),
        host=host,
        progress=progress,
        containers=_containers(pod, template),
        durations=durations_of(pod),
    )


def failed_before_start(pod: Object, template: Template) -> bool:
    """Whether a Pod failed because of its machine before its work began: it can be created again."""
    status = status_of(pod)
    if status.get("phase") != "Failed" or status.get("reason") not in _MACHINE_REASONS:
        return False
    mains = main_containers(template)
    return not any(
        "running" in state or (state.get("terminated") or {}).get("startedAt")
        for container in status.get("containerStatuses") or ()
        if container["name"] in mains
        for state in (container.get("state") or {}, container.get("lastState") or {})
    )


def pending_reason(status: Mapping[str, Any]) -> str:
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting")
        if waiting is not None:
            return _joined(waiting.get("reason"), waiting.get("message"))
    for condition in status.get("conditions") or ():
        if condition.get("reason") == "Unschedulable":
            return _joined(condition.get("reason"), condition.get("message"))
    return ""


def durations_of(pod: Object) -> dict[str, int]:
    """Returns resourcesDuration: how long the Pod has held its requests, in units of one core, 100Mi ..."""
    status, spec = status_of(pod), spec_of(pod)
    ages = {s["name"]: _age(s) for s in _all_statuses(status)}
    total: dict[str, int] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        amounts = {**_DEFAULTS, **(resources.get("limits") or {}), **(resources.get("requests") or {})}
        age = ages.get(container["name"], 0)
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + (
                milli_value(amount) * age // milli_value(_UNITS.get(name, "1")) if age else 0
            )
    return total


def _ending(pod: Object, template: Template) -> tuple[Literal["Succeeded", "Failed", "Error"], str]:
    if status_of(pod).get("phase") == "Succeeded":
        # A daemon runs until it is no longer needed.
        return ("Failed", "") if template.get("daemon") else ("Succeeded", "")
    return _failure(pod, main_containers(template))


def _failure(pod: Object, mains: list[str]) -> tuple[Literal["Succeeded", "Failed", "Error"], str]:
    status = status_of(pod)
    if status.get("message"):
        return "Failed", str(status["message"])
    inits = status.get("initContainerStatuses") or []
    others = sorted(status.get("containerStatuses") or [], key=lambda s: s["name"] not in mains)
    if not inits and not others:
        return "Failed", f"can't find failed message for pod {name_of(pod)} namespace {namespace_of(pod)}"
    succeeded, unstarted = False, ""
    for container in (*inits, *others):
        name, state = container["name"], container.get("state") or {}
        if state.get("waiting") is not None and not unstarted:
            waiting = state["waiting"]
            unstarted = (
                f"Pod failed before {name} container starts due to {waiting.get('reason') or ''}: "
                f"{waiting.get('message') or ''}"
            )
        ended = state.get("terminated")
        if ended is None:
            continue
        if ended["exitCode"] == 0:
            succeeded = succeeded or name in mains
        elif name in mains or ended["exitCode"] not in _STOPPED_CODES:
            is_ours = container in inits and name == "init"
            return "Error" if is_ours else "Failed", exit_message(name, ended)
    if unstarted:
        return "Error", unstarted
    return ("Succeeded", "") if succeeded else ("Failed", "pod failed: main container did not complete successfully")


def exit_message(container: str, ended: Mapping[str, Any]) -> str:
    text = f"{container}: {ended.get('reason') or 'Error'} (exit code {ended['exitCode']})"
    return f"{text}: {ended['message']}" if ended.get("message") else text


def _containers(pod: Object, template: Template) -> dict[str, Outcome]:
    """Only for a containerSet: each of its containers is a node."""
    if "containerSet" not in template:
        return {}
    status = status_of(pod)
    names = main_containers(template)
    found = {s["name"]: s for s in status.get("containerStatuses") or ()}
    failed = status.get("phase") == "Failed"
    told = {name: _container(found[name], failed) for name in names if name in found}
    return {**told, **_containers_not_run(template, found)} if failed else told


def _containers_not_run(template: Template, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Outcome]:
    """Returns the containers that waited for one that failed, or that did not run for the same reason."""
    failures = {
        name: f"exited with non-zero code: {ended['exitCode']}"
        for name, status in found.items()
        if (ended := (status.get("state") or {}).get("terminated")) and ended["exitCode"]
    }
    out: dict[str, Outcome] = {}
    needs = {c["name"]: c.get("dependencies") or () for c in template["containerSet"].get("containers") or ()}
    for name in TopologicalSorter(needs).static_order():
        state = (found.get(name) or {}).get("state") or {}
        awaited = next((n for n in needs.get(name, ()) if n in failures), "")
        if awaited and "terminated" not in state and "running" not in state:
            out[name] = Outcome("Error", f'dependency "{awaited}" {failures[awaited]}')
            failures[name] = "did not run"
    return out


def _container(status: Mapping[str, Any], has_failed: bool) -> Outcome:
    state = status.get("state") or {}
    ended = state.get("terminated")
    if ended is not None:
        code = int(ended["exitCode"])
        text = (
            "" if code == 0 else f"{exit_message(status['name'], {**ended, 'message': ''})}: {ended.get('message', '')}"
        )
        phase: Literal["Succeeded", "Failed"] = "Succeeded" if code == 0 else "Failed"
        return Outcome(
            phase, text, code, started=str(ended.get("startedAt") or ""), finished=str(ended.get("finishedAt") or "")
        )
    if has_failed:
        return Outcome("Failed", "Pod Failed whilst container running")
    if state.get("running") is not None:
        return Outcome("Running", started=str(state["running"].get("startedAt") or ""))
    return Outcome("Pending")


def _cannot_start(status: Mapping[str, Any]) -> str:
    """A Pod that only another manifest can fix."""
    for container in _all_statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == _NEEDS_COMMAND:
            return str(waiting.get("message") or waiting["reason"])
    return ""


def _exit_code(status: Mapping[str, Any]) -> int | None:
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if container["name"] == MAIN and ended is not None:
            return int(ended["exitCode"])
    return None


def _started(status: Mapping[str, Any]) -> str:
    return min((t for t in _times(status, "startedAt") if t), default="")


def _finished(status: Mapping[str, Any]) -> str:
    return max(_times(status, "finishedAt"), default="")


def _times(status: Mapping[str, Any], field: str) -> Iterator[str]:
    """All have the same format, so they sort as text."""
    for container in _all_statuses(status):
        for state in (container.get("state") or {}).values():
            if state.get(field):
                yield str(state[field])


def _now_of(pod: Object) -> str:
    return str(status_of(pod).get("startTime") or "")


def _age(container: Mapping[str, Any]) -> int:
    ended = (container.get("state") or {}).get("terminated")
    if not ended or not ended.get("startedAt") or ended["startedAt"] == ended.get("finishedAt"):
        return 0
    return floor((_time(ended["finishedAt"]) - _time(ended["startedAt"])).total_seconds())


def _time(text: str) -> datetime:
    return parse_time(text)


def _all_statuses(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))


def _joined(reason: Any, message: Any) -> str:
    return f"{reason}: {message}" if message else str(reason or "")
