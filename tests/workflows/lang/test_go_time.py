from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import (
    HOUR,
    MINUTE,
    SECOND,
    UTC_ZONE,
    Zone,
    format_duration,
    load_zone,
    parse_duration,
    round_duration,
    to_civil,
    to_unix_nanoseconds,
)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("1ns", 1),
        ("1us", 1000),
        ("1µs", 1000),
        ("1ms", 1_000_000),
        ("1.5h", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("-1h", -HOUR),
        ("+5s", 5 * SECOND),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("2562047h47m16.854775807s", 2**63 - 1),
    ],
)
def test_durations_are_read(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("h", 'time: invalid duration "h"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1h 5m", 'time: unknown unit "h " in duration "1h 5m"'),
        ("3000000h", 'time: invalid duration "3000000h"'),
    ],
)
def test_invalid_durations(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_duration(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (2_500_000, "2.5ms"),
        (SECOND, "1s"),
        (-90 * SECOND, "-1m30s"),
        (HOUR, "1h0m0s"),
        (25 * HOUR + SECOND // 10, "25h0m0.1s"),
    ],
)
def test_durations_are_shown(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_shown_duration_reads_as_itself(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


def test_durations_are_rounded_away_from_zero() -> None:
    assert round_duration(90 * SECOND, MINUTE) == 2 * MINUTE
    assert round_duration(-90 * SECOND, MINUTE) == -2 * MINUTE
    assert round_duration(89 * SECOND, MINUTE) == MINUTE
    assert round_duration(89, 0) == 89


@given(st.datetimes())
def test_calendars_agree_with_pythons(when: datetime) -> None:
    seconds = (when.replace(microsecond=0, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    found = to_civil(seconds * SECOND + 7, UTC_ZONE)
    assert found[:7] == (when.year, when.month, when.day, when.hour, when.minute, when.second, 7)
    assert found.weekday == when.isoweekday() % 7
    assert found.year_day == when.timetuple().tm_yday
    clock = when.hour * 3600 + when.minute * 60 + when.second
    assert to_unix_nanoseconds(when.year, when.month, when.day, clock, 7, UTC_ZONE) == seconds * SECOND + 7


def test_years_that_python_does_not_have() -> None:
    assert to_civil(to_unix_nanoseconds(0, 1, 1, 0, 0, UTC_ZONE), UTC_ZONE).year == 0
    assert to_civil(to_unix_nanoseconds(12024, 2, 29, 0, 0, UTC_ZONE), UTC_ZONE)[:3] == (12024, 2, 29)


def test_months_and_days_may_overflow() -> None:
    assert to_civil(to_unix_nanoseconds(2023, 14, 31, 0, 0, UTC_ZONE), UTC_ZONE)[:3] == (2024, 3, 2)
    assert to_civil(to_unix_nanoseconds(2024, 0, 0, 0, 0, UTC_ZONE), UTC_ZONE)[:3] == (2023, 11, 30)


@pytest.mark.parametrize(
    ("zone", "clock", "offset"),
    [
        ("Europe/Zurich", (2024, 1, 1, 12 * 3600), 1),
        ("Europe/Zurich", (2024, 7, 1, 12 * 3600), 2),
        ("Europe/Zurich", (2024, 3, 31, 3 * 3600), 2),
        ("Europe/Zurich", (2024, 10, 27, 3 * 3600), 1),
        ("America/New_York", (2024, 3, 10, 2 * 3600 + 1800), -4),
        ("America/New_York", (2024, 11, 3, 3600 + 1800), -4),
        ("UTC", (2024, 1, 1, 0), 0),
    ],
)
def test_the_offset_of_a_clock_time(zone: str, clock: tuple[int, int, int, int], offset: int) -> None:
    year, month, day, seconds = clock
    in_utc = to_unix_nanoseconds(year, month, day, seconds, 0, UTC_ZONE)
    assert in_utc - to_unix_nanoseconds(year, month, day, seconds, 0, load_zone(zone)) == offset * HOUR


def test_zones() -> None:
    assert load_zone("") is load_zone("Local") is UTC_ZONE
    assert Zone("CEST", 7200).at(0) == ("CEST", 7200)
    for name in ("Mars/Olympus", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(ExpressionError, match="unknown time zone"):
            load_zone(name)
