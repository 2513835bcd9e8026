"""What the scheduler remembers of groups and queues."""

from __future__ import annotations

from typing import NamedTuple

from muster.embedded.scheduling.admission import Kept
from muster.embedded.scheduling.groups import GroupFacts, Roll
from muster.embedded.scheduling.line import Line
from muster.embedded.scheduling.model import GroupKey, Pod
from muster.embedded.scheduling.queues import QueueFacts, Usage
from muster.kube.requests import Amounts


class Notice(NamedTuple):
    """Something to be said once about a Pod that is not about waiting in line."""

    pod: Pod
    reason: str
    message: str


class Hold(NamedTuple):
    kept: Kept
    demand: Amounts
    queue: str
    until: float


class Queue:
    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: QueueFacts | None = None
        self.usage = Usage()
        self.line = Line()


class Group:
    """A PodGroup and its Pods, either of which may be missing."""

    def __init__(self, key: GroupKey, seq: int) -> None:
        self.key = key
        self.seq = seq
        self.facts: GroupFacts | None = None
        self.pods: dict[str, Pod] = {}
        self.roll: Roll | None = None
        self.hold: Hold | None = None
        self.admitted = False
        self.cool_until = float("-inf")
        """Since its last hold ended without Pods, it is not admitted before this."""
        self.lapses = 0
        """How many holds in a row have ended so."""
        self.waiting_from = float("-inf")
        """The clock of waiting starts here at the earliest: at the last time-out."""
        self.trouble: tuple[str, str] | None = None
        """(reason, message) of why it is not placed."""
        self.said: tuple[str, str] | None = None
        """The trouble there was last an event about."""
        self.in_line: list[tuple[str, str]] = []
        """(queue, owner) of its items."""

    @property
    def owner(self) -> str:
        kind = "PodGroup" if self.key.flavour == "volcano" else "PodGroup.scheduling.x-k8s.io"
        return f"{kind} {self.key}"
