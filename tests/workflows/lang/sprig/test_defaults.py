from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.default('foo', '')", "foo"),
        ("sprig.default('foo', 'bar')", "bar"),
        ("sprig.default('foo')", "foo"),
        ("sprig.default('foo', 0)", "foo"),
        ("sprig.default('foo', [])", "foo"),
        ("sprig.default('foo', nil)", "foo"),
        ("sprig.empty('')", True),
        ("sprig.empty(0)", True),
        ("sprig.empty({})", True),
        ("sprig.empty(now())", False),
        ("sprig.empty('x')", False),
        ("sprig.coalesce(nil, '', 0, 'x', 'y')", "x"),
        ("sprig.coalesce()", None),
        ("sprig.all(1, 'a')", True),
        ("sprig.all(1, '')", False),
        ("sprig.all()", True),
        ("sprig.any('', 0)", False),
        ("sprig.any('', 1)", True),
        ("sprig.ternary('foo', 'bar', true)", "foo"),
        ("sprig.ternary('foo', 'bar', false)", "bar"),
        ("sprig.fromJson('{\"a\": 1}')", {"a": 1}),
        ("sprig.fromJson('x')", None),
        ("sprig.toJson({'a': '<b>'})", '{"a":"\\u003cb\\u003e"}'),
        ("sprig.toRawJson({'a': '<b>'})", '{"a":"<b>"}'),
        ("sprig.toPrettyJson({'a': [1]})", '{\n  "a": [\n    1\n  ]\n}'),
        ("sprig.mustToJson([1])", "[1]"),
        ("sprig.toJson(groupBy([1], #))", ""),
        ("sprig.deepCopy({'a': [1]})", {"a": [1]}),
    ],
)
def test_defaults_choices_and_json(expression: str, value: Any) -> None:
    assert value_of(expression) == value
