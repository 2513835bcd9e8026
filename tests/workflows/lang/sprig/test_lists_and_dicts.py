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
def test_a_nil_list_is_null_in_json(expression: str) -> None:
    assert value_of(expression) == []
    assert value_of(f"toJson({expression})") == "null"
    assert value_of(f"({expression}) == nil")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.dict('a', 1, 'b')", {"a": 1, "b": ""}),
        ("sprig.dict(1, 2)", {"1": 2}),
        ("sprig.get({'a': 1}, 'a')", 1),
        ("sprig.get({'a': 1}, 'b')", ""),
        ("sprig.set({'a': 1}, 'b', 2)", {"a": 1, "b": 2}),
        ("sprig.unset({'a': 1, 'b': 2}, 'a')", {"b": 2}),
        ("sprig.hasKey({'a': 1}, 'a')", True),
        ("sprig.pluck('a', {'a': 1}, {'b': 2}, {'a': 3})", [1, 3]),
        ("sprig.dig('b', 'c', 'none', {'a': 1, 'b': {'c': 2}})", 2),
        ("sprig.dig('b', 'x', 'none', {'a': 1, 'b': {'c': 2}})", "none"),
        ("sprig.dig('status', nil, workflow)", "Succeeded"),
        ("sprig.keys({'a': 1})", ["a"]),
        ("sprig.values({'a': 1})", [1]),
        ("sprig.pick({'a': 1, 'b': 2}, 'a', 'x')", {"a": 1}),
        ("sprig.omit({'a': 1, 'b': 2}, 'a')", {"b": 2}),
        ("sprig.merge({'a': 1, 'b': {'c': ''}}, {'a': 2, 'b': {'c': 3, 'd': 4}})", {"a": 1, "b": {"c": 3, "d": 4}}),
        ("sprig.merge({'a': 1}, {'b': nil})", {"a": 1}),
        ("sprig.mergeOverwrite({'a': 1, 'b': {'c': 2}}, {'a': 3, 'b': {'d': 4}})", {"a": 3, "b": {"c": 2, "d": 4}}),
        ("sprig.mergeOverwrite({'a': [1]}, {'a': []})", {"a": []}),
    ],
)
def test_maps(expression: str, value: Any) -> None:
    assert value_of(expression) == value


def test_the_scope_stays_as_it_is() -> None:
    scope = {"config": {"a": 1, "inner": {"b": 2}}}
    assert value_of("sprig.set(config, 'a', 9).a", scope) == 9
    assert value_of("sprig.unset(config, 'a')", scope) == {"inner": {"b": 2}}
    assert value_of("sprig.mergeOverwrite(config, {'inner': {'b': 3}})", scope) == {"a": 1, "inner": {"b": 3}}
    assert scope == {"config": {"a": 1, "inner": {"b": 2}}}


def test_keys_and_values_come_in_order() -> None:
    assert value_of("sprig.keys({'b': 1, 'a': 2}, {'c': 3})") == ["a", "b", "c"]
    assert value_of("sprig.values({'b': 1, 'a': 2})") == [2, 1]
