from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.go_encoding import from_json, to_json
from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("duration('1h30m').Minutes()", 90.0),
        ("duration('90s').String()", "1m30s"),
        ("string(duration('1.5h'))", "1h30m0s"),
        ("duration('1h') + duration('30m') == duration('90m')", True),
        ("duration('1h') > duration('59m')", True),
        ("string(duration('1h') * 2)", "2h0m0s"),
        ("date('2023-08-14').Year()", 2023),
        ("date('2023-08-14').Day()", 14),
        ("string(date('2023-08-14').Month())", "August"),
        ("int(date('2023-08-14').Month())", 8),
        ("string(date('2023-08-14').Weekday())", "Monday"),
        ("date('2023-08-14').YearDay()", 226),
        ("date('2023-08-14')", "2023-08-14T00:00:00Z"),
        ("date('15:04:05')", "0000-01-01T15:04:05Z"),
        ("date('2023-08-14 10:20:30')", "2023-08-14T10:20:30Z"),
        ("date('2023-08-14T10:20:30+02:00')", "2023-08-14T10:20:30+02:00"),
        ("date('14 Aug 23 10:20 UTC')", "2023-08-14T10:20:00Z"),
        ("date('14/08/2023', '02/01/2006')", "2023-08-14T00:00:00Z"),
        ("date('2023-08-14 00:00:00', '2006-01-02 15:04:05', 'Europe/Zurich')", "2023-08-14T00:00:00+02:00"),
        ("date('2023-08-14 00:00:00').In(timezone('Europe/Zurich'))", "2023-08-14T02:00:00+02:00"),
        ("string(date('2023-08-15') - date('2023-08-14'))", "24h0m0s"),
        ("date('2023-08-14') + duration('36h')", "2023-08-15T12:00:00Z"),
        ("date('2023-08-14') < date('2023-08-15')", True),
        ("date('2023-08-14') == date('2023-08-14T00:00:00Z')", True),
        ("date('2023-08-14').Format('Jan 2, 2006 at 3:04pm (MST)')", "Aug 14, 2023 at 12:00am (UTC)"),
        ("date('2024-01-31').AddDate(0, 1, 0)", "2024-03-02T00:00:00Z"),
        ("date('2023-08-14').Unix()", 1691971200),
        ("date('2023-08-14T13:45:00Z').Truncate(duration('1h'))", "2023-08-14T13:00:00Z"),
        ("now() > date('2020-01-01')", True),
    ],
)
def test_times_and_durations(expression: str, value: Any) -> None:
    """Times are compared in the form that a template shows."""
    assert from_json(to_json(value_of(expression))) == value


def test_now_is_when_the_clock_says() -> None:
    assert value_of("now().Format('2006-01-02T15:04:05Z07:00')") == "2023-11-14T22:13:20Z"
    assert value_of("now(timezone('Asia/Tokyo')).Hour()") == 7
