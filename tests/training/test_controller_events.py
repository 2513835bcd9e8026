from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster.kube.objects import Object
from muster.training.controller import JobEvent, job_events_between
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.kinds.pytorch import PyTorch


def conditions(*true: str, false: Sequence[str] = ()) -> Object:
    states = {**dict.fromkeys(false, "False"), **dict.fromkeys(true, "True")}
    return {"status": {"conditions": [{"type": state, "status": status} for state, status in states.items()]}}


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        ({}, conditions("Created"), ["created"]),
        ({}, conditions("Created", "Suspended"), ["created"]),
        ({}, conditions("Failed"), ["created", "failed"]),
        (conditions("Created"), conditions("Created", "Running"), []),
        (conditions("Created", "Running"), conditions("Created", "Succeeded", false=["Running"]), ["successful"]),
        (conditions("Created", "Restarting"), conditions("Created", "Failed"), ["failed"]),
        (conditions("Created", "Succeeded"), conditions("Created", "Succeeded"), []),
    ],
)
def test_events_of_a_status_write(before: Object, after: Object, passed: list[JobEvent]) -> None:
    read = PyTorch().read_progress
    assert job_events_between(read(before), read(after)) == passed


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        (None, "Pending", ["created"]),
        ("Pending", "Starting", []),
        ("Running", "Completed", ["successful"]),
        ("Running", "Failed", ["failed"]),
    ],
)
def test_jobs_whose_status_is_a_phase(before: str | None, after: str, passed: list[JobEvent]) -> None:
    read = PaddleCloud().read_progress
    assert job_events_between(read({"status": {"phase": before}}), read({"status": {"phase": after}})) == passed
