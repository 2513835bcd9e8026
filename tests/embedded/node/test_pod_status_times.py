from __future__ import annotations

import pytest

from muster.embedded.node.pod_status import last_reported_time, remaining_grace, start_time
from muster.kube.objects import Object


@pytest.mark.parametrize(
    ("grace", "asked_at", "now", "left"),
    [
        (30, 1000, 1000.9, 30.0),
        (30, 1000, 1010.0, 20.0),
        (30, 1000, 2000.0, 0.0),
        (1, 1000, 1000.9, 1.0),
        (1, 1000, 1005.0, 0.0),
        (0, 1000, 1000.5, 0.0),
    ],
)
def test_remaining_grace(grace: int, asked_at: int, now: float, left: float) -> None:
    at = asked_at + grace
    pod = {
        "metadata": {
            "deletionGracePeriodSeconds": grace,
            "deletionTimestamp": f"1970-01-01T00:{at // 60:02}:{at % 60:02}Z",
        }
    }
    assert remaining_grace(pod, now) == left


def test_start_time() -> None:
    assert start_time({}, 7.0) == 7.0
    assert start_time({"status": {"startTime": "1970-01-01T00:00:05Z"}}, 7.0) == 5.0


@pytest.mark.parametrize(
    ("status", "moment"),
    [
        ({}, 0.0),
        ({"conditions": [{"lastTransitionTime": "1970-01-01T00:00:09Z"}]}, 0.0),
        ({"containerStatuses": [{"state": {"running": {"startedAt": "1970-01-01T00:00:05Z"}}}]}, 6.0),
        (
            {
                "conditions": [{"lastTransitionTime": "1970-01-01T00:00:07Z"}],
                "containerStatuses": [
                    {"state": {"waiting": {}}, "lastState": {"terminated": {"finishedAt": "1970-01-01T00:00:09Z"}}}
                ],
            },
            10.0,
        ),
    ],
)
def test_last_reported_time(status: Object, moment: float) -> None:
    assert last_reported_time({"status": status}) == moment
