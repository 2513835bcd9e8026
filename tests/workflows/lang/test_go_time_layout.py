from __future__ import annotations

import pytest

from muster.workflows.lang.go_time import load_zone
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
from muster.workflows.lang.go_time_values import Time, parsed_time

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
    assert parsed_time(RFC3339, "2024-02-04T14:04:05+02:00").format("MST") == "+0200"
