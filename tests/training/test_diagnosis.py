from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.training.diagnosis import diagnose_job

GOING: Object = {
    "metadata": {
        "name": "job-worker-0",
        "uid": "u",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["a/b"],
    },
    "spec": {"nodeName": "here", "containers": [{"name": "main"}]},
    "status": {"phase": "Running"},
}
GROUP: Object = {"status": {"phase": "Pending", "conditions": [{"status": "True", "message": "no room"}]}}
WARNING: Object = {"type": "Warning", "reason": "FailedCreatePod", "message": "quota"}


def job(state: str, message: str = "") -> Object:
    return {"status": {"conditions": [{"type": state, "status": "True", "message": message}]}}


@pytest.mark.parametrize(
    ("of", "around", "codes"),
    [
        (job("Running"), {}, []),
        (job("Succeeded"), {"pods": [GOING], "events": [WARNING]}, []),
        (job("Failed", "out of memory"), {"events": [WARNING]}, ["failed"]),
        # Its Pods are deleted because it is suspended, and earlier failures to create some no longer matter.
        (job("Suspended"), {"pods": [GOING], "events": [WARNING], "group": GROUP}, ["suspended"]),
        (job("Created"), {"group": GROUP}, ["gang waits"]),
        (job("Created"), {"events": [WARNING]}, ["warning"]),
        (job("Running"), {"pods": [GOING]}, ["pod"]),
    ],
)
def test_the_nearest_cause_comes_first(of: Object, around: dict[str, Any], codes: list[str]) -> None:
    found = diagnose_job(of, around.get("pods", ()), around.get("group"), around.get("events", ()), {})
    assert [reason.code for reason in found] == codes
