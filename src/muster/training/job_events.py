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
"""(job_kind, job, what it has come to)"""


def job_events_between(before: Progress, after: Progress) -> list[JobEvent]:
    """Those between two states of a job, both as they are written."""
    passed: list[JobEvent] = []
    if after.conditions and not before.conditions:
        passed.append("created")
    if after.has("Succeeded") and not before.has("Succeeded"):
        passed.append("successful")
    if after.has("Failed") and not before.has("Failed"):
        passed.append("failed")
    return passed
