from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import from_json, to_json
from muster.workflows.lang.go_time_values import Duration, Time
from muster.workflows.lang.go_values import AnyMap, NilList


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (1e-10, "1e-10"),
        (-0.0, "-0"),
        ("a", '"a"'),
        ('"\\\n\r\t\b\f\x01', '"\\"\\\\\\n\\r\\t\\b\\f\\u0001"'),
        ("<&>\u2028", '"\\u003c\\u0026\\u003e\\u2028"'),
        ("é日😀", '"é日😀"'),
        ("\udcff", '"\\ufffd"'),
        ([1, [], {}], "[1,[],{}]"),
        ({"b": 1, "a": [None]}, '{"a":[null],"b":1}'),
        (NilList(), "null"),
        (Duration(1500), "1500"),
        (Time(0), '"1970-01-01T00:00:00Z"'),
    ],
)
def test_values_are_written_as_go_does(value: Any, text: str) -> None:
    assert to_json(value) == text


def test_indentation_and_plain_html() -> None:
    assert to_json({"a": [1, {}], "b": {"c": "<"}}, indent="  ") == (
        '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": {\n    "c": "\\u003c"\n  }\n}'
    )
    assert to_json("<&>", escape_html=False) == '"<&>"'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.inf, "json: unsupported value: +Inf"),
        (math.nan, "json: unsupported value: NaN"),
        (AnyMap(), "json: unsupported type: map[interface {}]interface {}"),
        ([print], "json: unsupported type: func(...)"),
    ],
)
def test_values_that_json_cannot_encode(value: Any, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        to_json(value)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' {"a": [1, 2.5, "x", null, true]} ', {"a": [1.0, 2.5, "x", None, True]}),
        ('{"a": 1, "a": 2}', {"a": 2.0}),
        ('"\\ud83d\\ude00\\ud800"', "😀\ufffd"),
        ("12345678901234567890", 12345678901234567890.0),
    ],
)
def test_texts_are_read_as_go_does(text: str, value: Any) -> None:
    assert from_json(text) == value


def test_every_number_is_a_float() -> None:
    assert [type(number) for number in from_json("[1, 2.0, 1e3]")] == [float] * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unexpected end of JSON input"),
        ("[1,", "unexpected end of JSON input"),
        ('{"a"', "unexpected end of JSON input"),
        ('"open', "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("1 2", "invalid character '2' after top-level value"),
        ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": 1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        ("[" * 5000 + "]" * 5000, "json: the text is nested too deeply"),
    ],
)
def test_invalid_json(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        from_json(text)
    assert caught.value.message == message


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_is_written_can_be_read(value: Any) -> None:
    assert from_json(to_json(value)) == value
    assert json.loads(to_json(value, indent="  "), parse_int=float) == value
