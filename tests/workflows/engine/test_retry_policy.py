from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.workflows.engine.clock import RunClock, format_timestamp
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.retry import Decision, decide, last_retry, seconds_left
from muster.workflows.model import Node, Phase

CLOCK = RunClock().expressions

START = datetime(2026, 1, 1, tzinfo=UTC)


def attempt(phase: Phase = "Failed", at: int = 0, took: int = 10, message: str = "", exit_code: str = "1") -> Node:
    return Node(
        phase=phase,
        startedAt=format_timestamp(START + timedelta(seconds=at)),
        finishedAt=format_timestamp(START + timedelta(seconds=at + took)),
        message=message,
        outputs={"exitCode": exit_code},
    )


def after(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


AGAIN = Decision(retry=True)


@pytest.mark.parametrize(
    ("strategy", "attempts", "expected"),
    [
        ({}, [attempt()], AGAIN),
        ({"limit": 1}, [attempt()], AGAIN),
        ({"limit": "1"}, [attempt(), attempt()], Decision(message="No more retries left")),
        ({"limit": 0}, [attempt()], Decision(message="No more retries left")),
        ({}, [attempt("Error", message="no image")], Decision(message="no image")),
        ({"retryPolicy": "OnError"}, [attempt("Error")], AGAIN),
        ({"retryPolicy": "OnError"}, [attempt(message="boom")], Decision(message="boom")),
        ({"retryPolicy": "Always"}, [attempt("Error")], AGAIN),
        ({"retryPolicy": "OnTransientError"}, [attempt(message="boom")], Decision(message="boom")),
        ({"retryPolicy": "OnTransientError"}, [attempt(message="read: i/o timeout")], AGAIN),
        ({"expression": "true"}, [attempt("Error")], AGAIN),
        (
            {"expression": "asInt(lastRetry.exitCode) > 1"},
            [attempt(exit_code="1")],
            Decision(message="retryStrategy.expression evaluated to false"),
        ),
        ({"expression": "lastRetry.status == 'Failed' && asFloat(lastRetry.duration) == 10.0"}, [attempt()], AGAIN),
        ({"expression": "retries == '0'"}, [attempt()], AGAIN),
        ({"expression": "lastRetry.message contains 'disk'"}, [attempt(message="disk full")], AGAIN),
    ],
)
def test_what_comes_after_a_failure(strategy: dict[str, Any], attempts: list[Node], expected: Decision) -> None:
    assert decide(strategy, attempts, after(100), CLOCK) == expected


@pytest.mark.parametrize(
    ("backoff", "attempts", "now", "expected"),
    [
        ({"duration": "30"}, 1, 20, Decision(True, "Backoff for 30 seconds", after(40))),
        ({"duration": "30"}, 1, 41, AGAIN),
        ({"duration": "1m", "factor": 2}, 3, 20, Decision(True, "Backoff for 4 minutes 0 seconds", after(250))),
        (
            {"duration": "1m", "factor": "2", "cap": "90s"},
            3,
            20,
            Decision(True, "Backoff for 1 minute 30 seconds", after(100)),
        ),
        ({"duration": "5", "maxDuration": "60"}, 1, 61, Decision(message="Max duration limit exceeded")),
        ({"duration": "55", "maxDuration": "60"}, 1, 20, Decision(message="Backoff would exceed max duration limit")),
    ],
)
def test_backing_off(backoff: dict[str, Any], attempts: int, now: int, expected: Decision) -> None:
    assert decide({"limit": 9, "backoff": backoff}, [attempt()] * attempts, after(now), CLOCK) == expected


def test_an_enormous_backoff_is_not_an_accident() -> None:
    decision = decide({"limit": 500, "backoff": {"duration": "10h", "factor": 10}}, [attempt()] * 300, after(20), CLOCK)
    assert decision.until is not None


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        ({"limit": "often"}, "retryStrategy.limit must be an integer"),
        ({"retryPolicy": "Never"}, "Never is not a valid RetryPolicy"),
        ({"backoff": {"factor": 2}}, "no base duration"),
        ({"backoff": {"duration": "soon"}}, "backoff.duration"),
        ({"backoff": {"duration": "1", "factor": "x"}}, "backoff.factor must be an integer"),
    ],
)
def test_strategies_that_cannot_be(strategy: dict[str, Any], problem: str) -> None:
    with pytest.raises(WorkflowError, match=problem):
        decide(strategy, [attempt()], after(100), CLOCK)


def test_what_the_next_attempt_knows_of_the_last() -> None:
    assert last_retry([]) == {
        "retries": "0",
        "lastRetry.exitCode": "0",
        "lastRetry.status": "",
        "lastRetry.duration": "0",
        "lastRetry.message": "",
    }
    assert last_retry([attempt(message="boom", exit_code="3")]) == {
        "retries": "1",
        "lastRetry.exitCode": "3",
        "lastRetry.status": "Failed",
        "lastRetry.duration": "10",
        "lastRetry.message": "boom",
    }


def test_how_long_an_attempt_may_take() -> None:
    strategy = {"backoff": {"duration": "1", "maxDuration": "1m"}}
    assert seconds_left(strategy, [attempt()]) is None
    assert seconds_left(strategy, [attempt(), attempt(at=40)]) == 20
    assert seconds_left(strategy, [attempt(), attempt(at=90)]) == 1
    assert seconds_left({}, [attempt(), attempt(at=40)]) is None
