from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.node.nodes import SIMULATED_SECONDS_ANNOTATION, simulated_status, unreadable_seconds
from muster.kube.objects import Object


def pod(seconds: str | None = None, status: dict[str, Any] | None = None, deleted: bool = False) -> Object:
    metadata: dict[str, Any] = {"name": "p", "namespace": "team", "uid": "u"}
    if seconds is not None:
        metadata["annotations"] = {SIMULATED_SECONDS_ANNOTATION: seconds}
    if deleted:
        metadata["deletionTimestamp"] = "1970-01-01T00:01:00Z"
    probe = {"exec": {"command": ["x"]}}
    containers = [{"name": "main", "image": "i", "startupProbe": probe, "readinessProbe": probe}]
    return {
        "metadata": metadata,
        "spec": {"initContainers": [{"name": "init", "image": "i"}], "containers": containers},
        "status": status or {},
    }


def test_it_runs_at_once_and_for_ever() -> None:
    status, again = simulated_status(pod(), 1000.0)
    assert (status["phase"], again) == ("Running", None)
    assert status["podIP"].startswith("10.")
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert simulated_status(pod(status=status), 9999.0) == (status, None)


def test_it_succeeds_when_its_time_is_over_even_after_a_restart() -> None:
    running, again = simulated_status(pod("30"), 1000.0)
    assert (running["phase"], again) == ("Running", 30.0)
    assert simulated_status(pod("30", running), 1010.0) == (running, 20.0)
    status, again = simulated_status(pod("30", running), 1030.0)
    assert (status["phase"], again) == ("Succeeded", None)
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"


def test_a_deleted_one_ends_now() -> None:
    running, _ = simulated_status(pod(), 1000.0)
    assert simulated_status(pod(None, running, deleted=True), 1001.0)[0]["phase"] == "Succeeded"


@pytest.mark.parametrize(("text", "bad"), [(None, None), ("3", None), ("0.5", None), ("soon", "soon")])
def test_invalid_seconds_are_reported(text: str | None, bad: str | None) -> None:
    assert unreadable_seconds(pod(text)) == bad
