from __future__ import annotations

from typing import Any

import pytest

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
