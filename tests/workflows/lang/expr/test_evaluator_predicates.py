from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("all(1..3, # > 0)", True),
        ("all([], false)", True),
        ("any(items, .price > 2)", True),
        ("any([], true)", False),
        ("one([1, 2, 3], # > 2)", True),
        ("one([1, 2, 3], # > 1)", False),
        ("none(items, .price > 5)", True),
        ("filter(1..9, # % 3 == 0)", [3, 6, 9]),
        ("filter(items, {.price > 1})", [{"name": "a", "price": 3}, {"name": "c", "price": 2}]),
        ("map(items, .name)", ["a", "b", "c"]),
        ("map(1..3, {# * #index})", [0, 2, 6]),
        ("map(['a'], upper(#))", ["A"]),
        ("count(items, .price > 1)", 2),
        ("count([true, false, true])", 2),
        ("find(items, .price < 3).name", "b"),
        ("find([1], # > 5)", None),
        ("findIndex(items, .name == 'b')", 1),
        ("findIndex([1], # > 5)", None),
        ("findLast([1, 2, 3], # < 3)", 2),
        ("findLastIndex([1, 2, 3], # < 3)", 1),
        ("sum([1, 2, 3])", 6),
        ("sum([1, 2.5])", 3.5),
        ("sum(items, .price)", 6.0),
        ("sum([])", 0),
        ("sum(map(items, .price))", 6.0),
        ("sortBy(items, .price) | map(.name)", ["b", "c", "a"]),
        ("sortBy(items, .price, 'desc') | map(.name)", ["a", "c", "b"]),
        ("keys(groupBy(1..5, # % 2)) | sort()", [0, 1]),
        ("groupBy(1..5, # % 2)[1]", [1, 3, 5]),
        ("reduce(1..9, #acc + #)", 45),
        ("reduce(1..3, #acc * #, 10)", 60),
        ("reduce(['a', 'b'], #acc + #)", "ab"),
        ("reduce([5, 6], #acc + #index, 0)", 1),
        ("map([1, 2], map([10, 20], #))", [[10, 20], [10, 20]]),
        ("len(filter(items, .price > 1))", 2),
        ("first(filter(items, .price < 3)).name", "b"),
        ("filter(items, .price < 3)[0].name", "b"),
    ],
)
def test_functions_that_take_a_predicate(expression: str, value: Any) -> None:
    assert value_of(expression) == value
