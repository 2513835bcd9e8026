from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import get_condition, is_condition_true, set_condition

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": THEN, "reason": "Up", "message": "all is well"}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": THEN}


@pytest.mark.parametrize(
    ("status", "reason", "message", "expected"),
    [
        ("True", "Up", "all is well", READY),
        ("True", "Up", "still", {**READY, "message": "still"}),
        ("True", "", "", {"type": "Ready", "status": "True", "lastTransitionTime": THEN}),
        (
            "False",
            "Down",
            "gone",
            {"type": "Ready", "status": "False", "lastTransitionTime": NOW, "reason": "Down", "message": "gone"},
        ),
        (False, "Down", "", {"type": "Ready", "status": "False", "lastTransitionTime": NOW, "reason": "Down"}),
    ],
)
def test_the_transition_time_moves_with_the_status_only(
    status: Any, reason: str, message: str, expected: dict[str, Any]
) -> None:
    before = [READY, SCHEDULED]
    assert set_condition(before, "Ready", status, reason, message, NOW) == [expected, SCHEDULED]
    assert before == [READY, SCHEDULED]


def test_a_new_condition_comes_last() -> None:
    after = set_condition([SCHEDULED], "Ready", True, "Up", "", NOW, observedGeneration=3)
    assert after == [
        SCHEDULED,
        {"type": "Ready", "status": "True", "lastTransitionTime": NOW, "reason": "Up", "observedGeneration": 3},
    ]


def test_a_condition_without_a_time_gets_one() -> None:
    after = set_condition([{"type": "Ready", "status": "True"}], "Ready", "True", now=NOW)
    assert after == [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}]


@pytest.mark.parametrize(
    ("conditions", "truth"),
    [(None, False), ([], False), ([READY], True), ([{"type": "Ready", "status": "Unknown"}], False)],
)
def test_is_true(conditions: list[dict[str, Any]] | None, truth: bool) -> None:
    assert is_condition_true(conditions, "Ready") is truth


def test_get() -> None:
    assert get_condition([SCHEDULED, READY], "Ready") is READY
    assert get_condition(None, "Ready") is None
