"""The Kubernetes events that a Pod's journal gives rise to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from muster.embedded.agent.contract import Entry
from muster.kube.objects import Object, name_of, namespace_of, spec_of, uid_of


class PodEvent(NamedTuple):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def events_of(pod: Object, entry: Entry, notes: Mapping[str, str]) -> list[PodEvent]:
    """`notes` says per container where it comes from, in place of `Pulled`."""
    name = entry.get("c", "")
    match entry.get("e"):
        case "started":
            started = PodEvent("Normal", "Started", f"Started container {name}")
            if entry.get("a", 0) or name not in notes:
                return [started]
            return [PodEvent("Normal", "Pulled", notes[name]), started]
        case "exited":
            return _exited(pod, name, entry)
        case "backoff":
            where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
            return [PodEvent("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {where}")]
        case "unhealthy":
            probe = (entry.get("probe") or "").capitalize()
            return [PodEvent("Warning", "Unhealthy", f"{probe} probe failed: {entry.get('message', '')}")]
        case "killing":
            return [_killing(name, entry)]
        case "finished" if entry.get("reason"):
            message = entry.get("message") or f"Pod ended: {entry['reason']}"
            kind: Literal["Normal", "Warning"] = "Normal" if entry["reason"] == "DeadlineExceeded" else "Warning"
            return [PodEvent(kind, entry["reason"], message)]
    return []


def _exited(pod: Object, name: str, entry: Entry) -> list[PodEvent]:
    reason, message = entry.get("reason") or "", entry.get("message") or ""
    if reason == "OOMKilled":
        limit = _memory_limit(pod, name)
        over = f" (its limit is {limit})" if limit else ""
        return [PodEvent("Warning", "OOMKilling", f"Container {name} was killed for using too much memory{over}")]
    if reason in ("StartError", "ContainerCannotRun", "ContainerStatusUnknown"):
        return [PodEvent("Warning", "Failed", f"Error: {message or reason}")]
    return []


def _killing(name: str, entry: Entry) -> PodEvent:
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
