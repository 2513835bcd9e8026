from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import SECOND, load_zone
from muster.workflows.lang.go_time_layout import (
    ANSIC,
    KITCHEN,
    RFC822,
    RFC850,
    RFC1123,
    RFC3339,
    RFC3339_NANO,
    RUBY_DATE,
    UNIX_DATE,
)
from muster.workflows.lang.go_time_values import Time, parse_time

WHEN = 1_707_055_445 * 10**9 + 120_000_000
"""2024-02-04T14:04:05.12Z, a Sunday."""


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (RFC3339, "2024-02-04T14:04:05Z"),
        (RFC3339_NANO, "2024-02-04T14:04:05.12Z"),
        (RFC822, "04 Feb 24 14:04 UTC"),
        (RFC850, "Sunday, 04-Feb-24 14:04:05 UTC"),
        (RFC1123, "Sun, 04 Feb 2024 14:04:05 UTC"),
        (ANSIC, "Sun Feb  4 14:04:05 2024"),
        (UNIX_DATE, "Sun Feb  4 14:04:05 UTC 2024"),
        (RUBY_DATE, "Sun Feb 04 14:04:05 +0000 2024"),
        (KITCHEN, "2:04PM"),
        ("2006-1-2 3:4:5 pm", "2024-2-4 2:4:5 pm"),
        ("20060102150405", "20240204140405"),
        ("002 __2", "035  35"),
        ("January Monday Janx Monday's", "February Sunday Janx Sunday's"),
        ("05.000 05.999 05,000000", "05.120 05.12 05,120000"),
        ("05.00", "05.12"),
        ("Z07 Z0700 Z07:00 Z070000", "Z Z Z Z"),
        ("-07 -0700 -07:00 -070000 -07:00:00", "+00 +0000 +00:00 +000000 +00:00:00"),
        ("_2006", "_2024"),
        ("no elements", "no elements"),
        ("", ""),
    ],
)
def test_layouts(layout: str, text: str) -> None:
    assert Time(WHEN).format(layout) == text


def test_zones_show() -> None:
    in_kolkata = Time(WHEN, load_zone("Asia/Kolkata"))
    assert in_kolkata.format("15:04 MST -07:00 Z0700 Z07") == "19:34 IST +05:30 +0530 +05"
    assert parse_time(RFC3339, "2024-02-04T14:04:05+02:00").format("MST") == "+0200"


@pytest.mark.parametrize(
    ("layout", "text", "shown"),
    [
        ("2006-01-02", "2024-02-29", "2024-02-29 00:00:00 +0000 UTC"),
        (RFC3339, "2024-01-02T03:04:05Z", "2024-01-02 03:04:05 +0000 UTC"),
        (RFC3339, "2024-01-02T03:04:05.5+02:00", "2024-01-02 03:04:05.5 +0200 +0200"),
        (ANSIC, "Mon Jan  2 15:04:05 2006", "2006-01-02 15:04:05 +0000 UTC"),
        (UNIX_DATE, "Mon Jan  2 15:04:05 PST 2006", "2006-01-02 15:04:05 +0000 PST"),
        (RUBY_DATE, "Mon Jan 02 15:04:05 -0700 2006", "2006-01-02 15:04:05 -0700 -0700"),
        (RFC822, "02 Jan 69 15:04 UTC", "1969-01-02 15:04:00 +0000 UTC"),
        (RFC822, "02 Jan 68 15:04 UTC", "2068-01-02 15:04:00 +0000 UTC"),
        (RFC1123, "Mon, 02 Jan 2006 15:04:05 GMT+2", "2006-01-02 17:04:05 +0200 GMT+2"),
        (KITCHEN, "12:00AM", "0000-01-01 00:00:00 +0000 UTC"),
        (KITCHEN, "3:04PM", "0000-01-01 15:04:00 +0000 UTC"),
        ("2006-1-2 3:4:5 pm", "2024-12-3 11:7:9 pm", "2024-12-03 23:07:09 +0000 UTC"),
        ("2006 002", "2024 060", "2024-02-29 00:00:00 +0000 UTC"),
        ("january 2 2006", "january 2 2006", "2006-01-02 00:00:00 +0000 UTC"),
        ("Jan 2 2006", "FEB 3 2024", "2024-02-03 00:00:00 +0000 UTC"),
        ("15:04:05", "01:02:03.25", "0000-01-01 01:02:03.25 +0000 UTC"),
        ("15:04:05.000", "01:02:03.250", "0000-01-01 01:02:03.25 +0000 UTC"),
        ("2006-01-02 -07", "2024-01-02 +05", "2024-01-02 00:00:00 +0500 +0500"),
        ("a 2006", "a    2024", "2024-01-01 00:00:00 +0000 UTC"),
    ],
)
def test_what_is_read(layout: str, text: str, shown: str) -> None:
    assert parse_time(layout, text).to_text() == shown


@pytest.mark.parametrize(
    ("layout", "text", "message"),
    [
        ("2006-01-02", "soon", 'as "2006-01-02": cannot parse "soon" as "2006"'),
        ("2006-01-02", "2024-1-2", 'as "2006-01-02": cannot parse "1-2" as "01"'),
        ("2006-01-02", "2024/01/02", 'as "2006-01-02": cannot parse "/01/02" as "-"'),
        ("2006-01-02", "2024-13-02", ": month out of range"),
        ("2006-01-02", "2023-02-29", ": day out of range"),
        ("2006-01-02", "2023-02-00", ": day out of range"),
        ("2006-01-02", "2023-02-01x", ': extra text: "x"'),
        ("15:04", "24:00", ": hour out of range"),
        ("15:04", "23:60", ": minute out of range"),
        ("2006 002", "2023 366", ": day-of-year out of range"),
        ("3PM", "3XM", 'as "3PM": cannot parse "XM" as "PM"'),
        ("Jan 2", "Foo 2", 'as "Jan 2": cannot parse "Foo 2" as "Jan"'),
        ("MST", "mst", 'as "MST": cannot parse "mst" as "MST"'),
        ("-0700", "+2500", ": time zone offset hour out of range"),
        ("05.000", "05.12", 'as "05.000": cannot parse ".12" as ".000"'),
    ],
)
def test_what_is_not(layout: str, text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_time(layout, text)
    quoted = f'"{text}"'
    assert caught.value.message == f"parsing time {quoted}{'' if message[0] == ':' else ' '}{message}"


def test_a_zone_for_texts_that_name_none() -> None:
    zurich = load_zone("Europe/Zurich")
    assert parse_time("2006-01-02", "2024-07-01", zurich).to_text() == "2024-07-01 00:00:00 +0200 CEST"
    assert parse_time(RFC3339, "2024-07-01T00:00:00Z", zurich).to_text() == "2024-07-01 00:00:00 +0000 UTC"
    assert parse_time(RFC3339, "2024-07-01T00:00:00+02:00", zurich).to_text() == "2024-07-01 00:00:00 +0200 CEST"


@given(st.integers(-62_135_596_800 * SECOND, 250_000_000_000 * SECOND), st.sampled_from(["UTC", "Asia/Kolkata"]))
def test_what_is_shown_can_be_read(nanoseconds: int, zone: str) -> None:
    when = Time(nanoseconds, load_zone(zone) if nanoseconds > 0 else load_zone("UTC"))
    assert parse_time(RFC3339_NANO, when.format(RFC3339_NANO)) == when
