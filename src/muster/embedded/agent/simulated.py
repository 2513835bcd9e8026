"""Pods on simulated nodes: they run nothing, but look and take their time as if they did. Pure."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from muster.embedded.agent.containers import containers_of
from muster.embedded.agent.contract import Entry
from muster.embedded.agent.journal import progress_of
from muster.embedded.agent.status import Place, pod_status, time_text
from muster.kube.objects import Object, annotations_of, is_deleting, parse_time, spec_of, status_of, uid_of

SECONDS = "muster.dev/simulated-seconds"
"""Annotation: after so many seconds the Pod has Succeeded. Without it, it runs until it is deleted."""


def simulated_status(pod: Object, now: float) -> tuple[dict[str, Any], float | None]:
    """The status as of now, and in how many seconds it will change, if ever."""
    started = _started(pod, now)
    seconds = _seconds(pod)
    end = started + seconds if seconds is not None else None
    if is_deleting(pod):
        end = now
    containers = containers_of(spec_of(pod))
    entries: list[Entry] = [{"t": started, "e": "supervised"}]
    for container, role in containers:
        name = str(container.get("name") or "")
        entries.append({"t": started, "e": "started", "c": name, "a": 0})
        entries.append({"t": started, "e": "startup", "c": name, "a": 0})
        entries.append({"t": started, "e": "ready", "c": name, "a": 0, "ready": True})
        if role == "init":
            entries.append({"t": started, "e": "exited", "c": name, "a": 0, "code": 0})
    over = end is not None and now >= end
    if over:
        moment = end or now
        entries.extend(
            {"t": moment, "e": "exited", "c": str(c.get("name") or ""), "a": 0, "code": 0}
            for c, role in containers
            if role != "init"
        )
        entries.append({"t": moment, "e": "finished", "phase": "Succeeded"})
    status = pod_status(pod, progress_of(entries), now, Place(_address(pod), "10.255.0.1", "simulated"))
    status["startTime"] = status_of(pod).get("startTime") or time_text(started)
    return status, None if over or end is None else end - now


def _started(pod: Object, now: float) -> float:
    text = status_of(pod).get("startTime")
    return parse_time(text).timestamp() if text else now


def unreadable_seconds(pod: Object) -> str | None:
    """The annotation, if it is not a number."""
    text = annotations_of(pod).get(SECONDS)
    return text if text is not None and _seconds(pod) is None else None


def _seconds(pod: Object) -> float | None:
    try:
        return max(0.0, float(annotations_of(pod).get(SECONDS, "")))
    except ValueError:
        return None


def _address(pod: Object) -> str:
    """Of no use but to look at: taken from the uid, so that it stays the same."""
    number = crc32(uid_of(pod).encode())
    return f"10.{number >> 16 & 127}.{number >> 8 & 255}.{number & 255}"
