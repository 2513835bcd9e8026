"""The part of CEL that compiled pipelines use."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.pipelines.cel import CelError, evaluate_condition, parse_condition, select

VALUES = {"flip": "heads", "n": 3, "x": 2.5, "ok": True, "list": [1, 2], "map": {"a": 1}, "text": "7", "it's": "y"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("inputs.parameter_values['flip'] == 'heads'", True),
        ("inputs.parameter_values['flip'] != 'heads'", False),
        ("!(inputs.parameter_values['flip'] == 'heads')", False),
        ("inputs.parameter_values['n'] == 3.0", True),
        ("inputs.parameter_values['n'] > 2 && inputs.parameter_values['x'] <= 2.5", True),
        ("int(inputs.parameter_values['text']) > 5", True),
        ("double(inputs.parameter_values['text']) < 7.5", True),
        ("inputs.parameter_values['text'] == 7", False),
        ("inputs.parameter_values['ok'] == true", True),
        ("inputs.parameter_values['ok'] == 1", False),
        ("inputs.parameter_values[\"it's\"] == 'y'", True),
        ("'\\'' == \"'\"", True),
        ("-1 < inputs.parameter_values['n']", True),
        ("false && inputs.parameter_values['missing'] == 1", False),
        ("inputs.parameter_values['missing'] == 1 || true", True),
        ("!(inputs.parameter_values['flip'] == 'tails') && !(inputs.parameter_values['n'] == 4)", True),
        ("1 + 2 * 3 == 7", True),
        ("1 in inputs.parameter_values['list']", True),
        ("size(inputs.parameter_values['list']) == 2 ? true : false", True),
    ],
)
def test_a_condition_has_a_result(condition: str, expected: bool) -> None:
    assert evaluate_condition(condition, VALUES) is expected


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("inputs.parameter_values['missing'] == 1", "no such key: 'missing'"),
        ("inputs.parameter_values['text'] < 8", "a string and a number cannot be compared with <"),
        ("inputs.parameter_values['n']", "is a number, but has to be true or false"),
        ("int('seven') == 7", "int() cannot convert 'seven'"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 * 3 > 0", "integer overflow"),
        ("int('99999999999999999999999') > 0", "integer overflow"),
        ("inputs.parameter_values['n'] && true", "&& needs true or false, not a number"),
    ],
)
def test_a_condition_that_has_none_says_why(condition: str, problem: str) -> None:
    with pytest.raises(CelError) as error:
        evaluate_condition(condition, VALUES)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("", "the expression ends too early (character 1"),
        ("1 ==", "the expression ends too early"),
        ("1 == 1 2", "unexpected 2 (character 8"),
        ("os.system('x')", 'unknown name "os"'),
        ("eval('x')", "unknown function eval()"),
        ("'open", "unexpected"),
        ("(1 == 1", "expected ')'"),
        ("(" * 200 + "1" + ")" * 200, "nested more than 100 levels deep"),
        ("!" * 200 + "true", "more than 100 signs in a row"),
        ("1 == " + "1" * 10_000, "at most 10000 are allowed"),
    ],
)
def test_a_text_that_is_no_expression_is_refused(condition: str, problem: str) -> None:
    with pytest.raises(CelError) as error:
        parse_condition(condition)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("selector", "value", "expected"),
    [
        ('parseJson(string_value)["a"]', {"a": 1.0}, 1),
        ('parseJson(string_value)["a"]', '{"a": "x"}', "x"),
        ('parseJson(string_value)["a"][1]["b"]', {"a": [0, {"b": [2]}]}, [2]),
        ("string_value", 3, "3"),
    ],
)
def test_a_selector_names_a_part_of_a_value(selector: str, value: object, expected: object) -> None:
    assert select(selector, value) == expected


def test_a_selector_of_a_missing_part_is_an_error() -> None:
    with pytest.raises(CelError, match="no such key: 'b'"):
        select('parseJson(string_value)["b"]', {"a": 1})


@pytest.mark.parametrize(
    "condition",
    [
        "1" + "+1" * 4_900 + " == 2",
        "false" + "||false" * 1_400,
        "1e999 % 2 == 1",
        "inputs.parameter_values['list'][1e999] == 1",
        "inputs.parameter_values['list'][1e999 - 1e999] == 1",
        f"parseJson('{'[' * 900}{']' * 900}') == parseJson('{'[' * 900}{']' * 900}')",
    ],
)
def test_an_expression_that_cannot_be_evaluated_is_an_error_of_the_task(condition: str) -> None:
    with pytest.raises(CelError):
        evaluate_condition(condition, VALUES)


@given(st.text(alphabet="inputs.parameter_values['n'] ==<>!&|()[]0123456789.+-*/%?:\"\\truefalsexE,", max_size=60))
def test_any_text_has_a_result_or_a_reason(text: str) -> None:
    with suppress(CelError):
        assert evaluate_condition(text, VALUES) in (True, False)
