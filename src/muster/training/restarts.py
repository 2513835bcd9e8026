"""How often members of a job were started again: an annotation on the job, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import orjson

from muster.kube.objects import Object, annotations_of, status_of
from muster.training.model import Replica, TrainingJob

RESTARTS = "muster.dev/restarts"
"""Annotation on a job: how often each member (or the whole `gang`) was started again, and the job `resumed`."""

GANG = "gang"
RESUMED = "resumed"
_LONGEST_PAUSE = 300.0


def restarts_of(job: TrainingJob) -> dict[str, int]:
    text = annotations_of(job.object).get(RESTARTS)
    return dict(orjson.loads(text)) if text else {}


def written(restarts: Mapping[str, int]) -> str:
    return orjson.dumps(restarts).decode()


def restarts_that_count(restarts: Mapping[str, int]) -> int:
    """In the sense of backoffLimit: resuming is no failure."""
    return sum(number for name, number in restarts.items() if name != RESUMED)


def attempt_of(restarts: Mapping[str, int], replica: Replica) -> int:
    """Which of its attempts a member is in, from 0 on."""
    return sum(restarts.get(name, 0) for name in (replica.suffix, GANG, RESUMED))


def gang_attempt(job: TrainingJob) -> int:
    """Counts the times that all members began anew, together: then they may meet elsewhere."""
    restarts = restarts_of(job)
    return restarts.get(GANG, 0) + restarts.get(RESUMED, 0)


def pause_left(attempt: int, ended: datetime | None, now: datetime) -> float:
    """Seconds until a failed member may start again. One that fails again and again starts later and later, as a
    container would be by its node."""
    if attempt == 0 or ended is None:
        return 0.0
    pause = min(2.0 ** min(attempt - 1, 30), _LONGEST_PAUSE)
    return pause - (now - ended).total_seconds()


def restarts_in_place(pod: Object) -> int:
    """What the node did by itself."""
    return sum(container.get("restartCount", 0) for container in status_of(pod).get("containerStatuses") or ())
