from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sprig.regexMatch('^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+$', 'test@acme.com')", True),
        ("sprig.regexMatch('(', 'a')", False),
        ("sprig.regexFindAll('[2,4,6,8]', '123456789', -1)", ["2", "4", "6", "8"]),
        ("sprig.regexFindAll('[2,4,6,8]', '123456789', 2)", ["2", "4"]),
        ("sprig.regexFind('[a-zA-Z][1-9]', 'abcd1234')", "d1"),
        ("sprig.regexFind('x', 'abc')", ""),
        ("sprig.regexReplaceAll('a(x*)b', '-ab-axxb-', '${1}W')", "-W-xxW-"),
        ("sprig.regexReplaceAll('a(x*)b', '-ab-axxb-', '$1W')", "---"),
        ("sprig.regexReplaceAll('(?P<n>x+)', 'axxb', '<${n}$$>')", "a<xx$>b"),
        ("sprig.regexReplaceAllLiteral('a(x*)b', '-ab-axxb-', '${1}')", "-${1}-${1}-"),
        ("sprig.regexSplit('z+', 'pizza', -1)", ["pi", "a"]),
        ("sprig.regexSplit('z', 'pizza', 2)", ["pi", "za"]),
        ("sprig.regexQuoteMeta('1.2.3')", "1\\.2\\.3"),
        ("sprig.mustRegexFind('l+', 'hello')", "ll"),
    ],
)
def test_regular_expressions(expression: str, value: Any) -> None:
    assert value_of(expression) == value
