"""Settings of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

SCHEDULER_NAMES = frozenset({"", "default-scheduler", "volcano", "scheduler-plugins", "scheduler-plugins-scheduler"})


@dataclass(frozen=True)
class SchedulerSettings:
    """All times are in seconds."""

    reserve_after_seconds: float = 30.0
    """How long smaller jobs may overtake a waiting gang. After that, capacity is kept free for it."""

    hold_seconds: float = 30.0
    """How long capacity is held for the Pods of an admitted PodGroup. After a hold has expired, the group waits as long
    until it is admitted again, and twice as long each time after that."""

    report_again_seconds: float = 10.0
    """The minimum time between two reports of a changed reason to a waiting Pod."""

    patience_seconds: float = 2.0
    """How long a gang may be incomplete before this is reported: its Pods are created one after another."""

    queue_status_seconds: float = 1.0
    """The minimum time between two writes of a Queue's counts."""

    pods_per_cycle: int = 1000
    """How many Pods are placed before the rest of the process gets the event loop."""

    scheduler_names: frozenset[str] = SCHEDULER_NAMES
    """The values of schedulerName that this scheduler handles."""
