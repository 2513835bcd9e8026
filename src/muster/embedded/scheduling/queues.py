"""Queues: shares by weight, caps, and whether they are open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.embedded.scheduling import reasons
from muster.embedded.scheduling.model import DEFAULT_QUEUE
from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.kube.requests import Amounts, amounts

_NOT_CONSIDERED = ("deserved", "guarantee", "parent", "type", "affinity", "extendClusters")


@dataclass(frozen=True, slots=True)
class QueueFacts:
    name: str
    weight: int = 1
    capability: Amounts = field(default_factory=dict)
    """A hard cap on what the Pods of the queue use together."""
    state: str = "Open"
    priority: int = 0
    """A queue of higher priority is served before all of lower priority."""
    fifo: bool = False
    """Nobody passes the first in line, however small."""
    notes: tuple[str, ...] = ()
    """What of the Queue is not considered, for its owner to read."""


def read_queue(obj: Object) -> QueueFacts:
    spec = spec_of(obj)
    return QueueFacts(
        name=name_of(obj),
        weight=max(1, int(spec.get("weight") or 1)),
        capability=amounts(spec.get("capability") or {}),
        state=status_of(obj).get("state") or "Open",
        priority=int(spec.get("priority") or 0),
        fifo=spec.get("dequeueStrategy") == "fifo",
        notes=_notes(spec),
    )


def default_queue() -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": DEFAULT_QUEUE},
        "spec": {"weight": 1, "reclaimable": False},
    }


class Usage:
    """What the Pods of one queue use, and what is set aside for one of them in this pass."""

    __slots__ = ("aside", "used")

    def __init__(self) -> None:
        self.used: Amounts = {}
        self.aside: Amounts = {}

    def add(self, more: Mapping[str, int], times: int = 1) -> None:
        used = self.used
        for name, amount in more.items():
            used[name] = used.get(name, 0) + times * amount

    def share(self, total: Mapping[str, int], weight: int) -> float:
        """The dominant share: of the resource it uses most of, the part of the machine, by weight."""
        parts = [n / total[name] for name, n in self.used.items() if n and total.get(name)]
        return max(parts, default=0.0) / weight

    def over(self, queue: QueueFacts, asked: Mapping[str, int]) -> str:
        """Why the queue's capability does not allow so much more; '' if it does."""
        for name, cap in queue.capability.items():
            wanted = asked.get(name, 0)
            used = self.used.get(name, 0) + self.aside.get(name, 0)
            if wanted and used + wanted > cap:
                return reasons.over_capability(queue.name, name, used, wanted, cap)
        return ""


def never_allowed(queue: QueueFacts, asked: Mapping[str, int]) -> bool:
    """Whether the capability is too small even for an otherwise unused queue."""
    return any(asked.get(name, 0) > cap for name, cap in queue.capability.items())


def queue_status(state: str, phases: Mapping[str, int], allocated: Mapping[str, str]) -> dict[str, Any]:
    """The counts of PodGroups by phase; zeroes are left out, as Volcano's JSON leaves them out."""
    counts = {
        phase: phases.get(phase.capitalize(), 0) for phase in ("pending", "inqueue", "running", "completed", "unknown")
    }
    status: dict[str, Any] = {"state": state, **{phase: n for phase, n in counts.items() if n}}
    if allocated:
        status["allocated"] = dict(allocated)
    return status


def _notes(spec: Mapping[str, Any]) -> tuple[str, ...]:
    notes = [f"spec.{name} is not considered by this scheduler" for name in _NOT_CONSIDERED if spec.get(name)]
    if spec.get("reclaimable"):
        notes.append("spec.reclaimable is not considered: running Pods are never evicted for another queue")
    return tuple(notes)
