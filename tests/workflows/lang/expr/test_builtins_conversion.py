from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


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
