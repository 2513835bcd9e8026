from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.typeOf(1)", "int"),
        ("sprig.typeOf([])", "[]interface {}"),
        ("sprig.typeOf({})", "map[string]interface {}"),
        ("sprig.typeOf(nil)", "<nil>"),
        ("sprig.typeOf(1.5)", "float64"),
        ("sprig.typeIs('string', 'a')", True),
        ("sprig.typeIsLike('semver.Version', sprig.semver('1.2.3'))", True),
        ("sprig.kindOf({})", "map"),
        ("sprig.kindOf(1)", "int"),
        ("sprig.kindOf(nil)", "invalid"),
        ("sprig.kindIs('slice', [])", True),
        ("sprig.kindOf(now())", "struct"),
        ("sprig.deepEqual({'a': [1]}, {'a': [1]})", True),
        ("sprig.deepEqual(1, 1.0)", False),
    ],
)
def test_types_and_kinds(expression: str, value: Any) -> None:
    assert value_of(expression) == value
