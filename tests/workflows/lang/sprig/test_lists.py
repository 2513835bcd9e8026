from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.list(1, 'a', nil)", [1, "a", None]),
        ("sprig.tuple()", []),
        ("sprig.first([1, 2])", 1),
        ("sprig.first([])", None),
        ("sprig.last([1, 2])", 2),
        ("sprig.rest([1, 2, 3])", [2, 3]),
        ("sprig.initial([1, 2, 3])", [1, 2]),
        ("sprig.append([1], 2)", [1, 2]),
        ("sprig.push([1], 2)", [1, 2]),
        ("sprig.prepend([1], 0)", [0, 1]),
        ("sprig.concat([1], [2], ['a'])", [1, 2, "a"]),
        ("sprig.reverse([1, 2])", [2, 1]),
        ("sprig.uniq([1, 1, 1.0, 'a', 'a'])", [1, 1, "a"]),
        ("sprig.without([1, 2, 3], 2, 3)", [1]),
        ("sprig.has(2, [1, 2])", True),
        ("sprig.has('2', [1, 2])", False),
        ("sprig.has(1, nil)", False),
        ("sprig.compact([0, 1, '', nil, 'a', []])", [1, "a"]),
        ("sprig.slice([1, 2, 3], 1)", [2, 3]),
        ("sprig.slice([1, 2, 3], 1, 2)", [2]),
        ("sprig.slice([1, 2, 3], '1')", [2, 3]),
        ("sprig.slice([])", None),
        ("sprig.chunk(2, [1, 2, 3])", [[1, 2], [3]]),
        ("sprig.chunk(2, [])", []),
        ("sprig.mustFirst([3])", 3),
    ],
)
def test_lists(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize("expression", ["sprig.rest([])", "sprig.initial([])", "sprig.concat()", "concat([], [])"])
def test_a_list_that_go_never_makes_is_null_in_json(expression: str) -> None:
    assert value_of(expression) == []
    assert value_of(f"toJson({expression})") == "null"
    assert value_of(f"({expression}) == nil")
