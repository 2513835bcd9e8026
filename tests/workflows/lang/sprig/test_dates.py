from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.go_encoding import from_json, to_json
from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.date('2006-01-02', 0)", "1970-01-01"),
        ("sprig.date('15:04:05', 3661)", "01:01:01"),
        ("sprig.dateInZone('2006-01-02 15:04 MST', 1700000000, 'Asia/Tokyo')", "2023-11-15 07:13 JST"),
        ("sprig.date_in_zone('15:04', 0, 'Nowhere/Land')", "00:00"),
        ("sprig.htmlDate(86400)", "1970-01-02"),
        ("sprig.htmlDateInZone(0, 'America/New_York')", "1969-12-31"),
        ("sprig.dateModify('-1.5h', date('2024-01-01')).Format('2006-01-02 15:04')", "2023-12-31 22:30"),
        ("sprig.dateModify('nonsense', date('2024-01-01')).Format('2006-01-02')", "2024-01-01"),
        ("sprig.toDate('2006-01-02', '2017-12-31').Year()", 2017),
        ("sprig.toDate('2006-01-02', 'nonsense').IsZero()", True),
        ("sprig.unixEpoch(date('2024-01-01'))", "1704067200"),
        ("sprig.duration('95')", "1m35s"),
        ("sprig.duration(sprig.int64(3600))", "1h0m0s"),
        ("sprig.duration(95)", "0s"),
        ("sprig.durationRound('2h10m5s')", "2h"),
        ("sprig.durationRound('2400h10m5s')", "3mo"),
        ("sprig.durationRound('-90s')", "1m"),
        ("sprig.durationRound('1s')", "0s"),
    ],
)
def test_dates_and_durations(expression: str, value: Any) -> None:
    assert from_json(to_json(value_of(expression))) == value


def test_times_relative_to_now() -> None:
    """Every test happens at 2023-11-14T22:13:20Z."""
    assert value_of("sprig.now().Format('2006-01-02 15:04:05')") == "2023-11-14 22:13:20"
    assert value_of("sprig.date('2006-01-02', 'no time at all')") == "2023-11-14"
    assert value_of("sprig.ago(date('2023-11-14T22:00:00.4Z'))") == "13m20s"
    assert value_of("sprig.durationRound(date('2023-11-01'))") == "13d"
