"""What is counted about jobs: that there is one, how it ends, how often it begins anew.

Counted when it has been written down, which only one operator can do, once: whoever looks later finds it written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from muster.kube.objects import Object
from muster.training.dialect import Dialect
from muster.training.progress import Progress

Milestone: TypeAlias = Literal["created", "deleted", "successful", "failed", "restarted"]

OnMilestone: TypeAlias = Callable[[Dialect, Object, Milestone], None]
"""(dialect, job, what it has come to)"""


def milestones(before: Progress, after: Progress) -> list[Milestone]:
    """Those between two states of a job, both as they are written."""
    passed: list[Milestone] = []
    if after.conditions and not before.conditions:
        passed.append("created")
    if after.has("Succeeded") and not before.has("Succeeded"):
        passed.append("successful")
    if after.has("Failed") and not before.has("Failed"):
        passed.append("failed")
    return passed
