"""Settings of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

OUR_NAMES = frozenset({"", "default-scheduler", "volcano", "scheduler-plugins", "scheduler-plugins-scheduler"})


@dataclass(frozen=True)
class SchedulerSettings:
    """All times are in seconds."""

    reserve_after_seconds: float = 30.0
    """So long smaller jobs may pass a waiting gang; then capacity is kept free for it."""

    hold_seconds: float = 30.0
    """So long the capacity of an admitted PodGroup without Pods waits for them. A group whose hold has lapsed waits as
    long again before it is admitted anew, and twice as long each time after that."""

    retell_seconds: float = 10.0
    """How often at most a waiting Pod is told that its reason has changed."""

    patience_seconds: float = 2.0
    """So long a gang may be incomplete before its Pods are told: they come one after another."""

    queue_status_seconds: float = 1.0
    """How often at most a Queue's counts are written."""

    pods_per_pass: int = 1000
    """So many Pods are placed before the rest of the cluster gets its turn on the event loop."""

    scheduler_names: frozenset[str] = OUR_NAMES
    """The values of a Pod's schedulerName that mean us."""
