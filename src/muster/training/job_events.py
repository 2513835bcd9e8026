"""The events in a job's life that are counted as metrics: created, deleted, successful, failed, restarted.

An event is counted once its status has been written. Only one operator can write it, and only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from muster.kube.objects import Object
from muster.training.job_conditions import Progress
from muster.training.kinds.base import JobKind

JobEvent: TypeAlias = Literal["created", "deleted", "successful", "failed", "restarted"]

OnJobEvent: TypeAlias = Callable[[JobKind, Object, JobEvent], None]
"""(job kind, job, event)"""


def job_events_between(before: Progress, after: Progress) -> list[JobEvent]:
    """Returns the events between two written states of a job."""
    passed: list[JobEvent] = []
    if after.conditions and not before.conditions:
        passed.append("created")
    if after.has("Succeeded") and not before.has("Succeeded"):
        passed.append("successful")
    if after.has("Failed") and not before.has("Failed"):
        passed.append("failed")
    return passed
