"""Explains why a Pod does not run or has failed, from the Pod and its events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from muster.kube.events import last_event_time
from muster.kube.objects import Object, is_deleting, meta, spec_of, status_of

MAX_DIAGNOSED_PODS = 3
"""How many Pods to diagnose at most."""


class ContainerFailure(NamedTuple):
    """How one run of a container ended."""

    container: str
    exit_code: int
    reason: str
    message: str
    init: bool
    running_again: bool

    @property
    def failed_to_start(self) -> bool:
        return self.reason in ("StartError", "ContainerCannotRun")

    def __str__(self) -> str:
        role = "init container" if self.init else "container"
        if self.failed_to_start:
            return f'{role} "{self.container}" could not be started: {self.message or self.reason}'
        reason = f" ({self.reason})" if self.reason and self.reason != "Error" else ""
        meaning = _MEANING.get(self.reason) or _CODES.get(self.exit_code, "")
        return f'{role} "{self.container}" exited with code {self.exit_code}{reason}' + (
            f": {meaning}" if meaning else ""
        )


_MEANING = {"OOMKilled": "it used more memory than its limit allows"}
_CODES = {
    126: "the command is not executable",
    127: "command not found",
    134: "aborted (SIGABRT)",
    137: "killed (SIGKILL)",
    139: "segmentation fault (SIGSEGV)",
    143: "asked to end (SIGTERM)",
}


def diagnose_pod(pod: Object, events: Sequence[Object] = ()) -> list[str]:
    """Returns one line per cause, the nearest first; none when all is well. Without events, only the Pod's status is
    used."""
    causes: list[str] = []
    for cause in _causes(pod, events):
        # The status often repeats an event in almost the same words.
        core = cause.partition(": ")[2].removeprefix("Error: ") or cause
        if not any(core in known for known in causes):
            causes.append(cause)
    return causes


def find_pending_cause(events: Sequence[Object]) -> str:
    """Returns what a Pod that has not started waits for if its status does not say: the last problem, or the image that
    is being pulled; '' if another event followed. The events are those of the Pod, in the order of time."""
    last = next((event for event in reversed(events) if _is_waiting_event(event)), None)
    if last is None or last_event_time(last) < last_event_time(events[-1]):
        return ""
    return _join_reason(last.get("reason"), last.get("message"))


def find_failed_containers(pod: Object) -> list[ContainerFailure]:
    """Returns the containers whose last run exited with a code other than 0, current runs first."""
    found = []
    for init, statuses in ((True, "initContainerStatuses"), (False, "containerStatuses")):
        for status in status_of(pod).get(statuses) or ():
            now = (status.get("state") or {}).get("terminated")
            before = (status.get("lastState") or {}).get("terminated")
            end = now or before
            if end and int(end.get("exitCode") or 0) != 0:
                found.append(
                    ContainerFailure(
                        str(status.get("name")),
                        int(end["exitCode"]),
                        str(end.get("reason") or ""),
                        str(end.get("message") or "").strip(),
                        init,
                        running_again=now is None,
                    )
                )
    return sorted(found, key=lambda end: end.running_again)


def select_pods_to_diagnose(pods: Sequence[Object]) -> list[Object]:
    """Returns the Pods that explain a failure: those that failed, otherwise those that never ran."""
    failed = [p for p in pods if status_of(p).get("phase") == "Failed" or find_failed_containers(p)]
    return failed or [p for p in pods if status_of(p).get("phase") not in ("Succeeded", "Failed")]


def _causes(pod: Object, events: Sequence[Object]) -> Iterator[str]:
    status = status_of(pod)
    phase = status.get("phase")
    if phase == "Succeeded":
        return
    if status.get("message") or (status.get("reason") and phase == "Failed"):
        yield ": ".join(text for text in (status.get("reason"), status.get("message")) if text)
    if phase == "Pending":
        yield from _scheduling_causes(pod, events)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            yield f'container "{container.get("name")}": ' + _join_reason(reason, waiting.get("message"))
    for end in find_failed_containers(pod):
        again = " (the run before this one)" if end.running_again and phase == "Running" else ""
        yield str(end) + again
        if end.message and not end.failed_to_start:
            yield f'container "{end.container}" said: {end.message}'
    if phase in ("Pending", "Running") and not is_deleting(pod):
        yield from _warnings(events)
    if is_deleting(pod):
        yield from _deletion_causes(pod)


def _scheduling_causes(pod: Object, events: Sequence[Object]) -> Iterator[str]:
    if spec_of(pod).get("nodeName"):
        return
    for condition in status_of(pod).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield _join_reason(condition.get("reason"), condition.get("message"))
            return
    refusals = [event for event in events if event.get("reason") == "FailedScheduling"]
    if refusals:
        yield f"FailedScheduling: {refusals[-1].get('message', '')}"
    else:
        yield "no node has been chosen yet"


def _warnings(events: Sequence[Object]) -> Iterator[str]:
    latest = {e.get("reason"): e for e in events if e.get("type") == "Warning"}
    for reason, event in latest.items():
        if reason not in ("FailedScheduling", "BackOff"):
            yield _join_reason(reason, event.get("message"))


def _is_waiting_event(event: Object) -> bool:
    if event.get("reason") == "FieldIgnored":
        return False
    return event.get("type") == "Warning" or event.get("reason") == "Pulling"


def _deletion_causes(pod: Object) -> Iterator[str]:
    finalizers = meta(pod).get("finalizers")
    if finalizers:
        yield f"being deleted; waiting for the finalizers {', '.join(finalizers)}"


def _join_reason(reason: Any, message: Any) -> str:
    return ": ".join(str(text) for text in (reason, message) if text)
