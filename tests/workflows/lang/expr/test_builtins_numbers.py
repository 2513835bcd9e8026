from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


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
