"""The results were compared with robfig/cron itself; these are the important cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.workflows.cron.schedule import ScheduleError, parse_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-03-04T05:06:07+00:00", "2026-03-04T05:07:00+00:00"),
        ("* * * * *", "2026-12-31T23:59:59+00:00", "2027-01-01T00:00:00+00:00"),
        ("*/15 * * * *", "2026-03-04T05:46:00+00:00", "2026-03-04T06:00:00+00:00"),
        ("5/15 * * * *", "2026-03-04T05:06:00+00:00", "2026-03-04T05:20:00+00:00"),
        ("20-35/15 * * * *", "2026-03-04T23:45:00+00:00", "2026-03-05T00:20:00+00:00"),
        ("0 9-17 * * mon-FRI", "2026-03-06T17:00:00+00:00", "2026-03-09T09:00:00+00:00"),
        ("0 0 1 jan ?", "2026-03-06T17:00:00+00:00", "2027-01-01T00:00:00+00:00"),
        ("0 0 29 2 *", "2026-03-06T17:00:00+00:00", "2028-02-29T00:00:00+00:00"),
        ("0 0 1,15 * Sun", "2026-07-02T00:00:00+00:00", "2026-07-05T00:00:00+00:00"),  # either day matches
        ("0 0 1,15 * *", "2026-07-02T00:00:00+00:00", "2026-07-15T00:00:00+00:00"),
        ("0 0 */10 * Sun", "2026-07-02T00:00:00+00:00", "2026-07-05T00:00:00+00:00"),  # a step is a restriction as well
        ("0 0 * * 0", "2026-07-02T00:00:00+00:00", "2026-07-05T00:00:00+00:00"),
        ("@yearly", "2026-07-02T00:00:00+00:00", "2027-01-01T00:00:00+00:00"),
        ("@monthly", "2026-07-02T00:00:00+00:00", "2026-08-01T00:00:00+00:00"),
        ("@weekly", "2026-07-02T00:00:00+00:00", "2026-07-05T00:00:00+00:00"),
        ("@daily", "2026-07-02T00:00:00+00:00", "2026-07-03T00:00:00+00:00"),
        ("@midnight", "2026-07-02T00:00:01+00:00", "2026-07-03T00:00:00+00:00"),
        ("@hourly", "2026-07-02T00:00:00+00:00", "2026-07-02T01:00:00+00:00"),
        ("@every 1h30m", "2026-07-02T00:10:00.5+00:00", "2026-07-02T01:40:00+00:00"),
        ("@every 10ms", "2026-07-02T00:00:00+00:00", "2026-07-02T00:00:01+00:00"),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "2026-07-02T00:00:00+00:00", "2026-07-03T09:00:00+09:00"),
        ("TZ=Asia/Kolkata 0 9 * * *", "2026-07-02T00:00:00+00:00", "2026-07-02T09:00:00+05:30"),
    ],
)
def test_the_next_time(schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule, "UTC").next_after(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        # 02:00 EST becomes 03:00 EDT: times in between do not occur
        ("30 2 11 mar *", "2012-03-11T00:00:00-05:00", "2013-03-11T02:30:00-04:00"),
        ("0 * * * *", "2012-03-11T01:00:00-05:00", "2012-03-11T03:00:00-04:00"),
        ("0 3 * * *", "2012-03-11T00:00:00-05:00", "2012-03-11T03:00:00-04:00"),
        # 02:00 EDT becomes 01:00 EST: times in the hour before occur twice
        ("30 1 * * *", "2012-11-04T00:00:00-04:00", "2012-11-04T01:30:00-04:00"),
        ("30 1 * * *", "2012-11-04T01:30:00-04:00", "2012-11-04T01:30:00-05:00"),
        ("30 1 * * *", "2012-11-04T01:30:00-05:00", "2012-11-05T01:30:00-05:00"),
        ("0 * * * *", "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
        ("0 2 * * *", "2012-11-04T00:00:00-04:00", "2012-11-04T02:00:00-05:00"),
    ],
)
def test_when_clocks_change(schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule, "America/New_York").next_after(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("zone", "schedule", "after", "expected"),
    [
        ("America/Havana", "11 * ? 5 *", "2012-02-18T00:00:00+00:00", "2012-05-01T00:11:00-04:00"),
        ("Pacific/Apia", "0 12 * * *", "2011-12-29T13:00:00-10:00", "2011-12-31T12:00:00+14:00"),
        ("Pacific/Apia", "35 */6 31/18 * *", "2011-11-17T00:00:00+00:00", "2011-12-31T00:35:00+14:00"),
    ],
)
def test_where_a_midnight_or_a_day_was_left_out(zone: str, schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule, zone).next_after(at(after)) == at(expected)


def test_a_day_that_never_comes() -> None:
    assert parse_schedule("0 0 31 4 *", "UTC").next_after(at("2026-01-01T00:00:00+00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "since", "until", "expected"),
    [
        ("0 * * * *", "2026-01-01T00:30:00+00:00", "2026-01-01T03:10:00+00:00", "2026-01-01T03:00:00+00:00"),
        ("0 * * * *", "2026-01-01T00:30:00+00:00", "2026-01-01T01:00:00+00:00", None),
        ("@every 10m", "2026-01-01T00:03:00+00:00", "2026-01-01T01:00:00+00:00", "2026-01-01T00:53:00+00:00"),
        ("@every 10m", "2026-01-01T00:03:00+00:00", "2026-01-01T00:10:00+00:00", None),
    ],
)
def test_the_last_time_before(schedule: str, since: str, until: str, expected: str | None) -> None:
    found = parse_schedule(schedule, "UTC").latest_between(at(since), at(until))
    assert found == (at(expected) if expected else None)


@pytest.mark.parametrize(
    ("zone", "written"),
    [("UTC", "2026-07-01T10:00:00Z"), ("Asia/Kolkata", "2026-07-01T15:30:00+05:30"),
     ("America/New_York", "2026-07-01T06:00:00-04:00")],
)  # fmt: skip
def test_a_time_is_written_as_the_zones_clocks_show_it(zone: str, written: str) -> None:
    assert parse_schedule("@daily", zone).written(at("2026-07-01T10:00:00+00:00")) == written


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("* * * *", "expected exactly 5 fields"),
        ("", "empty spec string"),
        ("60 * * * *", "minute: end of range (60) above maximum (59)"),
        ("* * 0 * *", "day of month: beginning of range (0) below minimum (1)"),
        ("* * * * 7", "day of week: end of range (7) above maximum (6)"),
        ("5-1 * * * *", "minute: beginning of range (5) beyond end of range (1)"),
        ("*/0 * * * *", "minute: step of range should be a positive number"),
        ("1/2/3 * * * *", "minute: too many slashes"),
        ("1-2-3 * * * *", "minute: too many hyphens"),
        ("x * * * *", "failed to parse int from x in x: write a number from 0 to 59"),
        ("* * * foo *", "month: failed to parse int from foo in foo: write a number from 1 to 12 or jan to dec"),
        (", * * * *", "minute: the field is empty"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("@every soon", "invalid duration"),
        ("CRON_TZ=Mars/Olympus * * * * *", "timezone: unknown time zone Mars/Olympus"),
    ],
)
def test_what_is_no_schedule(schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        parse_schedule(schedule)
    assert message in str(raised.value)


def test_local_time_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.workflows.cron.schedule import _local_zone

    for cached in (_local_zone, parse_schedule):
        cached.cache_clear()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    try:
        found = parse_schedule("0 9 * * *").next_after(at("2026-07-02T00:30:00+00:00"))
        assert found == at("2026-07-03T00:00:00+00:00")
        assert found - at("2026-07-02T00:00:00+00:00") == timedelta(days=1)
    finally:
        for cached in (_local_zone, parse_schedule):
            cached.cache_clear()
