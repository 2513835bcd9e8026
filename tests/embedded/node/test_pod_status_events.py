from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.node.pod_status import journal_events
from muster.kube.objects import Object

POD: Object = {
    "metadata": {"name": "p", "namespace": "team", "uid": "u"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"memory": "64Mi"}}}, {"name": "other"}]},
}
NOTES = {"main": 'Running "x" in the environment of this machine (no image is pulled)'}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"e": "supervised"}, []),
        (
            {"e": "started", "c": "main", "a": 0},
            [f"Normal ImageNotPulled {NOTES['main']}", "Normal Started Started container main"],
        ),
        ({"e": "started", "c": "main", "a": 1}, ["Normal Started Started container main"]),
        ({"e": "started", "c": "other", "a": 0}, ["Normal Started Started container other"]),
        ({"e": "exited", "c": "main", "code": 0, "reason": "Completed"}, []),
        ({"e": "exited", "c": "main", "code": 1, "reason": "Error"}, []),
        (
            {"e": "exited", "c": "main", "code": 137, "reason": "OOMKilled"},
            ["Warning OOMKilling Container main was killed for using too much memory (its limit is 64Mi)"],
        ),
        (
            {"e": "exited", "c": "main", "code": 128, "reason": "StartError", "message": "no such file: train"},
            ["Warning Failed Error: no such file: train"],
        ),
        (
            {"e": "exited", "c": "main", "code": 137, "reason": "ContainerStatusUnknown", "message": "lost"},
            ["Warning Failed Error: lost"],
        ),
        (
            {"e": "backoff", "c": "main", "a": 1},
            ["Warning BackOff Back-off restarting failed container main in pod p_team(u)"],
        ),
        (
            {"e": "unhealthy", "c": "main", "probe": "readiness", "message": "Readiness probe failed: refused"},
            ["Warning Unhealthy Readiness probe failed: refused"],
        ),
        (
            {"e": "unhealthy", "c": "main", "probe": "preStop", "message": "PreStopHook failed: exit code 1"},
            ["Warning FailedPreStopHook PreStopHook failed: exit code 1"],
        ),
        ({"e": "killing", "c": "main"}, ["Normal Killing Stopping container main"]),
        (
            {"e": "killing", "c": "main", "message": "Container main failed liveness probe, will be restarted"},
            ["Normal Killing Container main failed liveness probe, will be restarted"],
        ),
        (
            {"e": "killing", "c": "main", "reason": "FailedPostStartHook", "message": "exit 1"},
            ["Warning FailedPostStartHook exit 1"],
        ),
        ({"e": "finished", "phase": "Succeeded"}, []),
        (
            {"e": "finished", "phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"},
            ["Normal DeadlineExceeded too long"],
        ),
    ],
)
def test_events(entry: dict[str, Any], expected: list[str]) -> None:
    found = journal_events(POD, entry, NOTES)  # type: ignore[arg-type]
    assert [" ".join(event) for event in found] == expected
