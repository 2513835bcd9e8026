"""Queues, and the gangs that stand in them, as the scheduler keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muster.kube.builtin import PLUGIN_POD_GROUP
from muster.kube.objects import Object, labels_of, meta, name_of, namespace_of, spec_of, status_of
from muster.platform.resources.machines import moment_of
from muster.platform.resources.queues import LABEL

PHASES = ("pending", "inqueue", "running", "unknown", "completed")
_UNPLACED = ("Pending", "Inqueue", "Unknown", "Scheduling")


@dataclass(frozen=True, slots=True)
class QueueLine:
    name: str
    cluster_id: str
    """Of the virtual cluster that it holds the total of; '' if somebody made it on the cluster itself."""
    state: str
    parent: str
    weight: int
    priority: int
    reclaimable: bool
    capability: dict[str, str]
    """The most of it, by resource; what is not named has no limit."""
    allocated: dict[str, str]
    groups: dict[str, int]
    """How many PodGroups are in which phase."""


@dataclass(frozen=True, slots=True)
class Gang:
    name: str
    namespace: str
    flavour: str
    """volcano or scheduler-plugins"""
    queue: str
    phase: str
    members: int
    """How many have to start together."""
    running: int
    succeeded: int
    failed: int
    reason: str
    """Why it waits, in one word and in a sentence; '' if it does not."""
    message: str
    since: datetime | None
    """Of the reason."""
    created: datetime | None


def queue_line(queue: Object) -> QueueLine:
    spec, status = spec_of(queue), status_of(queue)
    return QueueLine(
        name=name_of(queue),
        cluster_id=labels_of(queue).get(LABEL, ""),
        state=status.get("state") or "Open",
        parent=spec.get("parent") or "",
        weight=int(spec.get("weight") or 1),
        priority=int(spec.get("priority") or 0),
        reclaimable=spec.get("reclaimable") is not False,
        capability=_texts(spec.get("capability")),
        allocated=_texts(status.get("allocated")),
        groups={phase: int(status.get(phase) or 0) for phase in PHASES},
    )


def gang(group: Object) -> Gang:
    spec, status = spec_of(group), status_of(group)
    phase = status.get("phase") or "Pending"
    trouble = _newest(status.get("conditions") or ()) if phase in _UNPLACED else {}
    unplaced = trouble if trouble.get("type") == "Unschedulable" else {}
    plugin = group.get("apiVersion") == PLUGIN_POD_GROUP.api_version
    return Gang(
        name=name_of(group),
        namespace=namespace_of(group),
        flavour="scheduler-plugins" if plugin else "volcano",
        queue="" if plugin else spec.get("queue") or "default",
        phase=phase,
        members=int(spec.get("minMember") or 0),
        running=int(status.get("running") or 0),
        succeeded=int(status.get("succeeded") or 0),
        failed=int(status.get("failed") or 0),
        reason=unplaced.get("reason") or "",
        message=unplaced.get("message") or "",
        since=moment_of(unplaced.get("lastTransitionTime")),
        created=moment_of(meta(group).get("creationTimestamp")),
    )


def _newest(conditions: Any) -> Mapping[str, Any]:
    """Volcano keeps those that no longer hold; the last one counts."""
    return max(conditions, key=lambda each: each.get("lastTransitionTime") or "", default={})


def _texts(resources: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (resources or {}).items()}
