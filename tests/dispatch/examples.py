"""Jobs for tables and stories of the adapters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from muster.dispatch.model import Job, Resources, Spec, Tracking

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = Spec(image="shop/train:1.4", command=("python", "train.py", "--name", "two words"), env={"SEED": "7"})


def make_job(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "id": "j1",
        "type": "train",
        "args": {},
        "on": "aihc",
        "state": "starting",
        "created": CREATED,
        "resources": Resources(cpu=8, memory="64Gi"),
    }
    return Job(**given | fields)


def unclear(job: Job) -> Job:
    """The job as it is after `start` was called, and no answer came or the dispatcher died."""
    return replace(job, tracking=Tracking(sent=True, unclear=True))


def started(job: Job, external_id: str) -> Job:
    return replace(job, state="preparing", external_id=external_id)
