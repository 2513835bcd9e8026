from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.workflows.engine import clock
from muster.workflows.engine.errors import WorkflowError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), (30, 30), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("0", 0), ("-5", -5)],
)
def test_durations(text: object, seconds: float) -> None:
    assert clock.parse_duration_field(text, "timeout") == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["soon", "5 minutes", "1d", ""])
def test_what_is_no_duration_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(WorkflowError, match=r"backoff\.cap"):
        clock.parse_duration_field(text, "backoff.cap")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (45, "45 seconds"),
        (60, "1 minute 0 seconds"),
        (150, "2 minutes 30 seconds"),
        (3660, "1 hour 1 minutes"),
        (90000, "1 day 1 hours"),
        (8 * 86400, "1 week 0 hours"),
    ],
)
def test_durations_are_shown_as_argo_shows_them(seconds: int, expected: str) -> None:
    assert clock.format_duration(timedelta(seconds=seconds)) == expected


def test_moments_are_written_in_utc() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=UTC)
    assert clock.format_timestamp(moment) == "2026-01-02T03:04:05Z"
    assert clock.parse_timestamp("2026-01-02T03:04:05Z") == moment.replace(microsecond=0)
