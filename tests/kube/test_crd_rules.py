"""CEL, and the rules of CustomResourceDefinitions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.cel import FUNCTIONS, CelError, StepBudget, TooExpensive, UnknownFunction, evaluate, parse
from muster.kube.crd_rules import find_rule_problems, rules_of, unevaluated_rules
from muster.kube.kinds import Schema
from muster.kube.objects import Object

SELF: Object = {
    "n": 3, "x": 2.5, "name": "abc-1", "ok": True, "list": [3, 1, 2], "words": ["a", "bb"], "map": {"k": 1, "a.b": 2},
    "items": [{"name": "a", "size": 1}, {"name": "b", "size": 5}], "namespace": "n",
}  # fmt: skip


def run(text: str, value: Any = None, steps: int = 10_000) -> Any:
    variables = {"self": SELF if value is None else value}
    return evaluate(parse(text, frozenset(variables), FUNCTIONS), variables, FUNCTIONS, StepBudget(steps))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self.n > 2 && self.x < 3.0", True),
        ("has(self.n) && !has(self.missing)", True),
        ("!has(self.missing) || self.missing > 1", True),
        ("self.list.all(i, i > 0)", True),
        ("self.list.exists(i, i == 2)", True),
        ("self.list.exists_one(i, i > 2)", True),
        ("self.list.filter(i, i > 1)", [3, 2]),
        ("self.list.map(i, i * 2)", [6, 2, 4]),
        ("self.list.map(i, i > 1, i * 2)", [6, 4]),
        ("self.map.all(k, k != '')", True),
        ("self.items.all(i, self.items.exists_one(j, j.name == i.name))", True),
        ("self.items.map(i, i.size).sum()", 6),
        ("self.name.startsWith('abc') && self.name.endsWith('-1') && self.name.contains('c-')", True),
        ("self.name.matches('^[a-z]+-[0-9]+$')", True),
        (r"self.name.matches(r'\d')", True),
        ("self.name.split('-')", ["abc", "1"]),
        ("self.words.join(', ')", "a, bb"),
        ("self.name.replace('abc', 'x').size()", 3),
        ("self.name.upperAscii().indexOf('C')", 2),
        ("self.name.substring(1, 3)", "bc"),
        ("size(self.list) + size('four')", 7),
        ("self.list.isSorted()", False),
        ("self.list.max() - self.list.min()", 2),
        ("1 in self.list && 'k' in self.map", True),
        ("self.map['a.b'] == 2", True),
        ("self.__namespace__ == 'n'", True),
        ("self.map.a__dot__b", 2),
        ("[1, 2] + [3]", [1, 2, 3]),
        ("{'a': 1, 'b': [2]} == {'b': [2], 'a': 1}", True),
        ("self.ok ? 'yes' : 'no'", "yes"),
        ("isQuantity('1Gi') && !isQuantity('x')", True),
        ("string(self.n) + '!'", "3!"),
        ("self.list.exists(i, i / 0 == 1 || i == 1)", True),
    ],
)
def test_expressions(expression: str, expected: object) -> None:
    assert run(expression) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("self.missing", "no such key: 'missing'"),
        ("self.n.all(i, true)", "needs a list or an object, not a number"),
        ("self.n.startsWith('a')", "a string is needed"),
        ("self.name.matches('(')", "is not a regular expression"),
        ("self.list.all(i, i)", "needs true or false"),
        ("i > 1", 'unknown name "i"'),
        ("self.list.all(i, i > 1) && i > 1", 'unknown name "i"'),
        ("has(1)", "takes a field"),
        ("self.list.all(1, true)", "begins with the name of a variable"),
        ("[1, 2", "expected ','"),
        ("{[1]: 2}", "the keys of an object"),
        ("{'a' 1}", "expected ':'"),
        ("self.words.sum()", "needs a number"),
        ("size()", "cannot be called"),
    ],
)
def test_expressions_without_a_result_say_why(expression: str, problem: str) -> None:
    with pytest.raises(CelError) as error:
        run(expression)
    assert problem in str(error.value)


def test_a_function_that_is_not_known() -> None:
    for text in ("url(self.name)", "self.name.find('a')"):
        with pytest.raises(UnknownFunction):
            run(text)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.all(i, self.all(j, self.all(k, true)))", list(range(100))),
        ("self.all(i, self.all(j, self.all(k, k >= 0))) || true", list(range(100))),
        ("self.all(i, self == self)", [{str(n): n for n in range(1000)}] * 100),
        ("self.all(i, self.exists(j, j == i + 'b'))", ["a" * 10_000] * 100),
        ("self.map(i, self.map(j, self).size()).size() > 0", list(range(500))),
    ],
)
def test_an_expression_has_a_budget(expression: str, value: Any) -> None:
    with pytest.raises(TooExpensive):
        run(expression, value, 20_000)


def test_texts_do_not_grow_without_limit() -> None:
    doubled = "+".join(["self"] * 40)
    with pytest.raises(TooExpensive):
        run(doubled, "x" * 50_000, 10**9)
    with pytest.raises(TooExpensive):
        run("self.replace('x', self)", "x" * 50_000, 10**9)


@given(st.text(alphabet="self.all(x,x>1)&|!?:[]{}'\"\\ 0123.hasmapin==", max_size=60))
def test_any_text_has_a_result_or_a_reason(text: str) -> None:
    with suppress(CelError):
        run(text)


def level(*rules: Object, **schema: Any) -> Schema:
    return {"type": "object", "x-kubernetes-validations": list(rules), **schema}


RANGE = {"rule": "self.min <= self.max", "message": "min must not exceed max"}
FIXED = {"rule": "self.name == oldSelf.name", "messageExpression": "'was ' + oldSelf.name", "fieldPath": ".name"}


@pytest.mark.parametrize(
    ("schema", "old", "new", "causes"),
    [
        (level(RANGE), None, {"min": 1, "max": 2}, []),
        (level(RANGE), None, {"min": 3, "max": 2}, [("", 'Invalid value: "object": min must not exceed max')]),
        (level(RANGE), {"min": 3, "max": 2}, {"min": 3, "max": 2}, []),
        (level(FIXED), None, {"name": "a"}, []),
        (level(FIXED), {"name": "b"}, {"name": "a"}, [("name", 'Invalid value: "object": was b')]),
        (
            level(properties={"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]}}),
            None,
            {"n": 3},
            [("n", "Invalid value: 3: failed rule: self % 2 == 0")],
        ),
        (
            level(properties={"l": {"type": "array", "items": level(RANGE)}}),
            None,
            {"l": [{"min": 1, "max": 2}, {"min": 2, "max": 1}]},
            [("l[1]", 'Invalid value: "object": min must not exceed max')],
        ),
        (
            level({"rule": "self.missing > 1"}),
            None,
            {},
            [("", "Invalid value: \"object\": rule evaluation error: no such key: 'missing' (rule: self.missing > 1)")],
        ),
    ],
)
def test_rules_of_objects(schema: Schema, old: Object | None, new: Object, causes: list[tuple[str, str]]) -> None:
    check = rules_of(schema)
    assert check is not None
    assert [(cause.field, cause.message) for cause in check(new, old)] == causes


def test_items_with_keys_have_an_old_value() -> None:
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    fixed = {"rule": "self.size >= oldSelf.size", "message": "must not shrink"}
    check = rules_of(level(properties={"l": {"type": "array", "items": level(fixed), **keyed}}))
    assert check is not None
    old = {"l": [{"name": "a", "size": 1}, {"name": "b", "size": 5}]}
    found = check({"l": [{"name": "b", "size": 4}, {"name": "c", "size": 0}]}, old)
    assert [cause.field for cause in found] == ["l[0]"]


def test_rules_are_checked_with_the_definition() -> None:
    rules = [{"rule": "self.a >"}, {"rule": ""}, {"rule": "url(self.a).isAbsolute()"}, {"rule": "has(self.a)"}]
    assert [cause.field for cause in find_rule_problems(rules, "x")] == ["x[0].rule", "x[1].rule"]
    assert len(unevaluated_rules(rules)) == 1
    assert rules_of({"type": "object"}) is None


def test_rules_that_cost_too_much_are_an_error_of_the_object() -> None:
    rule = {"rule": "self.l.all(i, self.l.all(j, self.l.all(k, true)))"}
    check = rules_of(level(rule))
    assert check is not None
    (cause,) = check({"l": list(range(200))}, None)
    assert "too many steps" in cause.message
