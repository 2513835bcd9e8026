"""When recurring runs are due: tables from robfig/cron v1 and Kubeflow Pipelines, and the laws of catching up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.pipelines.ticks import Trigger, fill_macros, next_tick, shortest_gap, ticks
from muster.workflows.cron.schedule import ScheduleError, parse_schedule_with_seconds


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


MADE = at("2026-03-01T10:00:30")
MANY = 10_000


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        ("0 * * * * *", "2026-03-01T10:00:30", "2026-03-01T10:01:00"),
        ("* * * * * *", "2026-03-01T10:00:30", "2026-03-01T10:00:31"),
        ("*/20 * * * * *", "2026-03-01T10:00:30", "2026-03-01T10:00:40"),
        ("*/20 * * * * *", "2026-03-01T10:00:40", "2026-03-01T10:01:00"),
        ("15 30 9 * * 1-5", "2026-03-01T10:00:30", "2026-03-02T09:30:15"),
        ("0 0 9 ? * 2-6", "2026-03-01T10:00:30", "2026-03-03T09:00:00"),
        # five fields have no day of week: second, minute, hour, day, month
        ("0 30 9 * *", "2026-03-01T10:00:30", "2026-03-02T09:30:00"),
        ("5 0 0 1 *", "2026-03-01T10:00:30", "2026-04-01T00:00:05"),
        ("@daily", "2026-03-01T10:00:30", "2026-03-02T00:00:00"),
        ("@hourly", "2026-03-01T10:00:30", "2026-03-01T11:00:00"),
        ("@every 90s", "2026-03-01T10:00:30", "2026-03-01T10:02:00"),
        ("TZ=Asia/Shanghai 0 0 9 * * *", "2026-03-01T10:00:30", "2026-03-02T01:00:00"),
    ],
)
def test_a_cron_schedule_has_seconds_first(cron: str, after: str, expected: str) -> None:
    assert parse_schedule_with_seconds(cron, "UTC").next_after(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("* * * *", "expected 5 to 6 fields, found 4"),
        ("* * * * * * *", "expected 5 to 6 fields, found 7"),
        ("60 * * * * *", "second: end of range (60) above maximum (59)"),
        ("x * * * * *", "second: failed to parse int from x"),
        ("@fortnightly", "unrecognized descriptor"),
    ],
)
def test_a_wrong_schedule_is_refused(cron: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        Trigger(cron)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ({}, "either a cron_schedule or a periodic_schedule"),
        ({"cron": "@daily", "interval": timedelta(1)}, "either a cron_schedule or a periodic_schedule"),
        ({"interval": timedelta(seconds=-5)}, "interval_second"),
        ({"cron": "@daily", "start": MADE, "end": MADE - timedelta(1)}, "end_time is before start_time"),
        ({"cron": "@daily", "start": datetime(1, 1, 1, tzinfo=UTC)}, "start_time: use a year from 1970"),
        ({"cron": "@daily", "end": datetime(9999, 12, 31, tzinfo=UTC)}, "end_time: use a year from 1970"),
    ],
)
def test_a_wrong_trigger_is_refused(trigger: dict[str, Any], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Trigger(**trigger)


EVERY_MINUTE = Trigger("0 * * * * *")
EVERY_10 = Trigger(interval=timedelta(seconds=10))


@pytest.mark.parametrize(
    ("trigger", "now", "expected"),
    [
        (EVERY_MINUTE, "10:00:59", []),
        (EVERY_MINUTE, "10:01:00", ["10:01:00"]),
        (EVERY_MINUTE, "10:03:59", ["10:01:00", "10:02:00", "10:03:00"]),
        # an interval begins when the recurring run is created
        (EVERY_10, "10:00:39", []),
        (EVERY_10, "10:00:51", ["10:00:40", "10:00:50"]),
        # ... or at its start, and that is its first tick
        (Trigger(interval=timedelta(seconds=10), start=at("2026-03-01T10:01:05")), "10:01:04", []),
        (
            Trigger(interval=timedelta(seconds=10), start=at("2026-03-01T10:01:05")),
            "10:01:20",
            ["10:01:05", "10:01:15"],
        ),
        (Trigger("0 * * * * *", start=at("2026-03-01T10:02:00")), "10:03:00", ["10:02:00", "10:03:00"]),
        (Trigger("0 * * * * *", end=at("2026-03-01T10:02:00")), "10:09:00", ["10:01:00", "10:02:00"]),
        (Trigger("0 * * * * *", end=at("2026-03-01T09:00:00")), "10:09:00", []),
    ],
)
def test_ticks_that_are_due(trigger: Trigger, now: str, expected: list[str]) -> None:
    found = ticks(trigger, MADE, None, at(f"2026-03-01T{now}"), MANY)
    assert [each.strftime("%H:%M:%S") for each in found] == expected
    last = ticks(trigger, MADE, None, at(f"2026-03-01T{now}"), MANY, no_catchup=True)
    assert last == found[-1:]


def test_a_long_pause_costs_little_without_catching_up() -> None:
    trigger = Trigger("* * * * * *")
    now = MADE + timedelta(days=3650)
    assert ticks(trigger, MADE, MADE, now, 1, no_catchup=True) == [now]
    assert ticks(trigger, MADE, MADE, now, 2) == [MADE + timedelta(seconds=1), MADE + timedelta(seconds=2)]


triggers = st.one_of(
    st.sampled_from(
        ["* * * * * *", "*/7 * * * * *", "0 */3 * * * *", "30 1,2 * * *", "@hourly", "@every 7s", "0 0 0 1 1 ?"]
    ).map(Trigger),
    st.integers(1, 5000).map(lambda seconds: Trigger(interval=timedelta(seconds=seconds))),
)
pauses = st.lists(st.integers(0, 1000), max_size=8)


@given(triggers, pauses, st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_no_tick_is_lost_and_none_is_played_twice(trigger: Trigger, seconds: list[int], most: int) -> None:
    """A server that is killed at any time plays the same ticks as one that never stops."""
    now = MADE + timedelta(seconds=sum(seconds))
    expected = ticks(trigger, MADE, None, now, MANY)
    played: list[datetime] = []
    looked = MADE
    for pause in [*seconds, 0]:
        looked += timedelta(seconds=pause)
        while due := ticks(trigger, MADE, played[-1] if played else None, looked, most):
            assert len(due) <= most
            played += due
    assert played == expected
    assert all(before < after for before, after in pairwise(played))
    assert all(MADE < tick <= now for tick in played)


@given(triggers, pauses)
@settings(max_examples=60, deadline=None)
def test_without_catching_up_only_the_last_tick_is_played(trigger: Trigger, seconds: list[int]) -> None:
    every = ticks(trigger, MADE, None, MADE + timedelta(seconds=sum(seconds)), MANY)
    played: list[datetime] = []
    looked = MADE
    for pause in seconds:
        looked += timedelta(seconds=pause)
        due = ticks(trigger, MADE, played[-1] if played else None, looked, 1, no_catchup=True)
        if trigger.schedule.every if trigger.cron else False:
            assert len(due) <= 1  # @every counts from the last tick
        else:
            assert due == [tick for tick in every if (not played or tick > played[-1]) and tick <= looked][-1:]
        played += due


def test_there_is_no_tick_after_the_end() -> None:
    assert next_tick(Trigger("@daily", end=at("2026-03-03T00:00:00")), MADE, at("2026-03-03T00:00:00")) is None
    assert next_tick(Trigger("0 0 0 31 4 *"), MADE, None) is None


def test_macros_are_filled_in_texts_only() -> None:
    given_parameters = {
        "id": "run-[[RunUUID]]",
        "index": "[[Index]]",
        "when": "[[ScheduledTime]]",
        "day": "[[ScheduledTime.2006-01-02]]/[[CurrentTime.15:04]]",
        "other": "[[Nothing]] [Index]",
        "number": 3,
        "list": ["[[Index]]"],
    }
    found = fill_macros(
        given_parameters,
        run_id="abc",
        index=7,
        scheduled=at("2026-03-01T09:05:06"),
        now=datetime(2026, 3, 2, 1, 2, tzinfo=UTC),
    )
    assert found == {
        "id": "run-abc",
        "index": "7",
        "when": "20260301090506",
        "day": "2026-03-01/01:02",
        "other": "[[Nothing]] [Index]",
        "number": 3,
        "list": ["[[Index]]"],
    }


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [
        (Trigger(interval=timedelta(seconds=2)), 2),
        (Trigger("* * * * * *"), 1),
        (Trigger("*/20 * * * * *"), 20),
        (Trigger("0,59 * * * * *"), 1),
        (Trigger("0,59 0 9 * * *"), 59),
        (Trigger("7,8 0 0 1 1 *"), 1),
        (Trigger("@every 90s"), 90),
        (Trigger("@daily"), 86_400),
        (Trigger("* * * * * *", start=at("2031-01-01T00:00:00")), 1),
        (Trigger("@daily", end=MADE), None),
    ],
)
def test_the_shortest_time_between_two_ticks(trigger: Trigger, seconds: int | None) -> None:
    expected = timedelta.max if seconds is None else timedelta(seconds=seconds)
    assert shortest_gap(trigger, MADE) == expected
