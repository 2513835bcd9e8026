from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.go_encoding import from_json, to_json
from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("len([1, 2])", 2),
        ("len({'a': 1})", 1),
        ("first([1, 2])", 1),
        ("first([])", None),
        ("last([1, 2])", 2),
        ("last([])", None),
        ("take([1, 2, 3], 2)", [1, 2]),
        ("take([1], 5)", [1]),
        ("reverse([3, 1, 4])", [4, 1, 3]),
        ("uniq([1, 2, 1.0, 'a', 'a', [1], [1]])", [1, 2, "a", [1]]),
        ("concat([1], [2, 3])", [1, 2, 3]),
        ("flatten([1, [2, [3, [4]]]])", [1, 2, 3, 4]),
        ("sort([3, 1, 2])", [1, 2, 3]),
        ("sort(['b', 'a'], 'desc')", ["b", "a"]),
        ("get([1, 2], 1)", 2),
        ("get([1, 2], -1)", 2),
        ("get([1, 2], 9)", None),
        ("get({'a': 1}, 'a')", 1),
        ("get({'a': 1}, 'b')", None),
        ("keys({'b': 1, 'a': 2}) | sort()", ["a", "b"]),
        ("values({'a': 1})", [1]),
        ("toPairs({'a': 1})", [["a", 1]]),
        ("fromPairs([['a', 1]])['a']", 1),
    ],
)
def test_lists_and_maps(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("type(nil)", "nil"),
        ("type(true)", "bool"),
        ("type(1)", "int"),
        ("type(1.5)", "float"),
        ("type('a')", "string"),
        ("type([])", "array"),
        ("type({})", "map"),
        ("type(now())", "time.Time"),
        ("type(duration('1h'))", "time.Duration"),
        ("string(nil)", "<nil>"),
        ("string(true)", "true"),
        ("string(12)", "12"),
        ("string(1.0)", "1"),
        ("string(1000000.0)", "1e+06"),
        ("string(0.00001)", "1e-05"),
        ("string('a')", "a"),
        ("string([1, 'a', nil, [2.5]])", "[1 a <nil> [2.5]]"),
        ("string({'b': 1, 'a': [nil]})", "map[a:[<nil>] b:1]"),
        ("toJSON({'a': [1, 'x<y'], 'b': {}})", '{\n  "a": [\n    1,\n    "x\\u003cy"\n  ],\n  "b": {}\n}'),
        ("toJSON([])", "[]"),
        ('fromJSON(\'{"a": [1, 2.5, "x", null, true]}\')', {"a": [1, 2.5, "x", None, True]}),
        ("toBase64('Hello World')", "SGVsbG8gV29ybGQ="),
        ("fromBase64('SGVsbG8gV29ybGQ=')", "Hello World"),
        ("toBase64('')", ""),
    ],
)
def test_conversions(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("abs(-5)", 5),
        ("abs(-2.5)", 2.5),
        ("ceil(1.2)", 2.0),
        ("ceil(3)", 3.0),
        ("floor(-1.5)", -2.0),
        ("round(1.5)", 2.0),
        ("round(-1.5)", -2.0),
        ("round(2.4)", 2.0),
        ("int('123')", 123),
        ("int(1.9)", 1),
        ("int(-1.9)", -1),
        ("float('123.45')", 123.45),
        ("float(2)", 2.0),
        ("float('1e3')", 1000.0),
        ("max(5, 7)", 7),
        ("max([1, [9, 2]])", 9),
        ("min(5, 7, -1)", -1),
        ("min([])", None),
        ("mean([1, 2, 3])", 2.0),
        ("mean(1, 2)", 1.5),
        ("mean([])", 0.0),
        ("median([3, 1, 2])", 2.0),
        ("median([4, 1, 3, 2])", 2.5),
        ("median([])", 0.0),
        ("bitand(0b1010, 0b1100)", 8),
        ("bitor(0b1010, 0b1100)", 14),
        ("bitxor(0b1010, 0b1100)", 6),
        ("bitnand(0b1010, 0b1100)", 2),
        ("bitnot(0b1010)", -11),
        ("bitshl(0b101101, 2)", 180),
        ("bitshr(0b101101, 2)", 11),
        ("bitushr(-0b101, 2)", 4611686018427387902),
        ("bitshl(1, 64)", 0),
    ],
)
def test_numbers(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("trim('  a ')", "a"),
        ("trim('__a__', '_')", "a"),
        ("trimPrefix('HelloWorld', 'Hello')", "World"),
        ("trimSuffix('HelloWorld', 'World')", "Hello"),
        ("trimPrefix(' a')", "a"),
        ("upper('hello é')", "HELLO É"),
        ("lower('HELLO É')", "hello é"),
        ("split('a,b,c', ',')", ["a", "b", "c"]),
        ("split('a,b,c', ',', 2)", ["a", "b,c"]),
        ("split('abc', '')", ["a", "b", "c"]),
        ("split('abc', ',', 0) == nil", True),
        ("splitAfter('a,b,c', ',')", ["a,", "b,", "c"]),
        ("splitAfter('a,b,c', ',', 2)", ["a,", "b,c"]),
        ("replace('aaa', 'a', 'b')", "bbb"),
        ("replace('aaa', 'a', 'b', 2)", "bba"),
        ("replace('ab', '', '-')", "-a-b-"),
        ("repeat('Hi', 3)", "HiHiHi"),
        ("repeat('a', 0)", ""),
        ("join(['a', 'b'], '-')", "a-b"),
        ("join(['a', 'b'])", "ab"),
        ("join(split('a b', ' '), '+')", "a+b"),
        ("indexOf('apple pie', 'pie')", 6),
        ("indexOf('a', 'x')", -1),
        ("indexOf('éx', 'x')", 2),
        ("lastIndexOf('apple pie apple', 'apple')", 10),
        ("hasPrefix('HelloWorld', 'Hello')", True),
        ("hasSuffix('HelloWorld', 'World')", True),
        ("len('héllo')", 5),
    ],
)
def test_strings(expression: str, value: Any) -> None:
    assert value_of(expression) == value


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
    """Compares times in the form that a template prints."""
    assert from_json(to_json(value_of(expression))) == value


def test_now_comes_from_the_clock() -> None:
    assert value_of("now().Format('2006-01-02T15:04:05Z07:00')") == "2023-11-14T22:13:20Z"
    assert value_of("now(timezone('Asia/Tokyo')).Hour()") == 7
