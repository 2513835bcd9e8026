"""Expressions that cost too much fail quickly."""

from __future__ import annotations

import pytest

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.govaluate import evaluate_when
from tests.workflows.lang.sample_scope import value_of


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("len(1..100000000)", "memory budget exceeded"),
        ("let a = 1..100000; all(a, all(a, # > 0))", "takes more than 200000 steps"),
        ("let a = 1..100000; all(a, # in a)", "takes more than 200000 steps"),
        ("let a = repeat('a', 400000); all(1..100000, not (a contains 'b'))", "takes more than 200000 steps"),
        ("let a = 1..100000; all(a, sprig.has(#, a))", "takes more than 200000 steps"),
        ("repeat('a', 1000000)", "memory budget exceeded"),
        ("reduce(1..60, #acc + #acc, 'a')", "is too long"),
        ("reduce(1..60, concat(#acc, #acc), [1])", "memory budget exceeded"),
        ("toJson(reduce(1..60, [#acc, #acc], 1))", "memory budget exceeded"),
        ("reduce(1..60, ({'a': #acc, 'b': #acc}), 1)", "memory budget exceeded"),
        ("reduce(1..60, sprig.list(#acc, #acc), 1)", "memory budget exceeded"),
        ("replace(repeat('a', 100000), 'a', repeat('b', 100000))", "is too long"),
        ("sprig.repeat(2000000000, 'a')", "is too long"),
        ("sprig.indent(100000, repeat('\\n', 100000))", "is too long"),
        ("sprig.join(repeat('x', 100000), sprig.until(1000))", "is too long"),
        ("sprig.until(2000000000)", "memory budget exceeded"),
        ("sprig.seq(2000000000)", "memory budget exceeded"),
        ("sprig.randAlphaNum(2000000000)", "is too long"),
        ("sprig.regexReplaceAll('a', repeat('a', 50000), repeat('b', 1000))", "is too long"),
        ("sprig.mustRegexMatch('(?:a|b)*a(?:a|b){900}', repeat('ab', 90000))", "too long for this regular expression"),
        ("now().Format(repeat('2006', 9999))", "a layout of 39996 characters is too long"),
        ("sprig.semver(repeat('1', 1000))", "Invalid Semantic Version"),
        ("duration(repeat('1h', 1000))", "invalid duration"),
        ("(" * 200 + "1" + ")" * 200, "nested more than 100 levels deep"),
        ("-" * 200 + "1", "nested more than 100 levels deep"),
        ("[" * 200 + "]" * 200, "nested more than 100 levels deep"),
        ("abs(" * 200 + "1" + ")" * 200, "nested more than 100 levels deep"),
        ("1" + " | abs()" * 300, "nested more than 200 levels deep"),
        ("user" + ".a" * 300, "nested more than 100 levels deep"),
        ("true ? 1 : " * 200 + "1", "nested more than 100 levels deep"),
        ("[" + "1," * 20000 + "1]", "exceeds maximum allowed nodes"),
        ("1" + "+1" * 60000, "an expression of 120001 characters is too long"),
    ],
)
def test_expensive_expressions_are_rejected(expression: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        value_of(expression)


def test_long_expressions_are_evaluated() -> None:
    assert value_of("1" + " + 1" * 2000) == 2001
    assert value_of(" && ".join(["true"] * 2000)) is True
    assert value_of("len(uniq(map(1..5000, string(#))))") == 5000
    assert value_of("sum(1..999999)") == 499999500000
    assert evaluate_when(" && ".join(["a == a"] * 2000)) is True


@pytest.mark.parametrize("when", ["(" * 500 + "true" + ")" * 500, "!(" * 500 + "true" + ")" * 500])
def test_parentheses_of_a_when(when: str) -> None:
    with pytest.raises(ExpressionError, match="nested more than 100 levels deep"):
        evaluate_when(when)


def test_a_when_that_computes_a_lot() -> None:
    assert evaluate_when("9 ** 9 ** 9 ** 9 > 1") is True
    assert evaluate_when("1 << 999999999999 == 0") is True
    assert evaluate_when(f"'{'a' * 20000}' =~ '(a+)+b'") is False
