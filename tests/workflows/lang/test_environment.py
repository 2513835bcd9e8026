from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.environment import (
    evaluate_bool,
    evaluate_in,
    expand_scope,
    find_missing,
    required_variables,
    root_variables,
)
from muster.workflows.lang.errors import ExpressionError
from tests.workflows.lang.sample_scope import error_message, value_of


@pytest.mark.parametrize(
    ("scope", "nested"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"a.b": 1, "a.c.d": 2, "e": 3}, {"a": {"b": 1, "c": {"d": 2}}, "e": 3}),
        ({"a": "json", "a.b": 1}, {"a": {"b": 1}}),
        ({"a.b": 1, "a": "json"}, {"a": {"b": 1}}),
        ({"a.b.c": 1, "a.b": "json", "a-b": 2}, {"a": {"b": {"c": 1}}, "a-b": 2}),
        ({"a": {"given": 1}, "a.b": 2}, {"a": {"b": 2}}),
        ({"a": None}, {"a": None}),
    ],
)
def test_a_flat_scope_becomes_nested_maps(scope: dict[str, Any], nested: dict[str, Any]) -> None:
    assert expand_scope(scope) == nested


def test_the_given_values_are_not_changed() -> None:
    given = {"inner": 1}
    expand_scope({"a": given, "a.b": 2})
    assert given == {"inner": 1}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("asInt('5') + 1", 6),
        ("asInt(1.9)", 1),
        ("asFloat('1.5') * 2", 3.0),
        ("string(asInt(inputs.parameters.count))", "3"),
        ("toJson([1, {'a': '<'}])", '[1,{"a":"\\u003c"}]'),
        ("jsonpath('{\"a\": [1, 2]}', '$.a[1]')", 2.0),
        ("sprig.trim('  a ')", "a"),
    ],
)
def test_functions_that_argo_adds(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("asInt('x')", "invalid operation: int(x) (1:1)"),
        ("asInt()", "not enough arguments to call asInt (1:1)"),
        ("jsonpath('x', '$')", "invalid character 'x' looking for beginning of value (1:1)"),
        ("jsonpath('{}', '$.a')", "key: invalid token key 'a' not found (1:1)"),
        ("jsonpath(user, '$')", "cannot use map[string]interface {} as argument (type string) to call jsonpath (1:10)"),
    ],
)
def test_errors_of_functions_that_argo_adds(expression: str, message: str) -> None:
    assert error_message(expression) == message


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("lastRetry.exitCode == '2'", True),
        ("asInt(lastRetry.exitCode) > 2", False),
        ('lastRetry.status == "Error" or asInt(lastRetry.duration) < 100', True),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    scope = {"lastRetry.exitCode": "2", "lastRetry.status": "Failed", "lastRetry.duration": "5"}
    assert evaluate_bool(condition, scope) is holds


def test_a_condition_must_be_true_or_false() -> None:
    with pytest.raises(ExpressionError, match="unable to cast expression result 'x' to bool"):
        evaluate_bool("'x'", {})


def test_a_variable_hides_a_function_of_the_same_name() -> None:
    assert evaluate_in("duration", {"duration": "12.5"}) == "12.5"
    with pytest.raises(ExpressionError, match="string is not callable"):
        evaluate_in("duration('1h')", {"duration": "12.5"})
    assert evaluate_in("::duration('1h').Hours()", {"duration": "12.5"}) == 1.0


def test_a_name_inside_an_unknown_function_may_be_missing() -> None:
    """As in Argo, which checks names before it evaluates anything."""
    assert evaluate_in("sprig.default('none', retries)", {}) == "none"


@pytest.mark.parametrize(
    ("expression", "needed"),
    [
        ("1 + 1", []),
        ("item", ["item"]),
        ("item.requiredKey", ["item", "item.requiredKey"]),
        ("tasks['a-b'].outputs.result", ["tasks", "tasks.a-b", "tasks.a-b.outputs", "tasks.a-b.outputs.result"]),
        ("item.optionalKey ?? 'fallback'", ["item"]),
        ("item['optionalKey'] ?? ''", ["item"]),
        ("item?.optionalKey", ["item"]),
        ("item.a?.b", ["item"]),
        ("item.requiredKey + (item.optionalKey ?? 'x')", ["item", "item.requiredKey"]),
        ("tasks.a.outputs.result ?? 'default'", ["tasks"]),
        ("sprig.int(retries)", ["sprig", "sprig.int", "retries"]),
        ("upper(name)", ["name"]),
        ("filter(items, .name == other)", ["items", "other"]),
        ("let a = x; a.b + y", ["x", "y"]),
        ("items[i].name", ["items", "i"]),
    ],
)
def test_required_variables(expression: str, needed: list[str]) -> None:
    assert list(required_variables(expression)) == needed


def test_missing_variables() -> None:
    env = {"workflow": {"status": None}, "item": "x"}
    names = ("workflow", "workflow.status", "workflow.name", "item", "item.key", "tasks", "tasks.a")
    assert find_missing(names, env) == ["workflow.name", "item.key", "tasks", "tasks.a"]


def test_variables_that_can_affect_an_expression() -> None:
    assert root_variables("a.b + c") is not None
    assert {"a", "c", "duration"} <= (root_variables("a.b + c") or set())
    assert root_variables("$env['x']") is None
