"""The language as expr-lang's definition describes it, with the values that expr-lang returns."""

from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_values import go_type
from tests.workflows.lang.sample_scope import error_message, value_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("1_000", 1000),
        ("0x2A", 42),
        ("0o52", 42),
        ("0b101010", 42),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("2.5e-3", 0.0025),
        ("true", True),
        ("false", False),
        ("nil", None),
        ('"double"', "double"),
        ("'single'", "single"),
        ('"it\'s"', "it's"),
        ("'say \"hi\"'", 'say "hi"'),
        ('"line\\nbreak\\ttab"', "line\nbreak\ttab"),
        ('"\\x41\\u00e9\\u{1F600}\\U0001F600\\101"', "Aé😀😀A"),
        ("`raw \\n`", "raw \\n"),
        ("`a``b`", "a`b"),
        ("[]", []),
        ("[1, 'a', nil, [2]]", [1, "a", None, [2]]),
        ("[1, 2,]", [1, 2]),
        ("{}", {}),
        ("{a: 1, 'b': 2, 3: 4, (name): 5}", {"3": 4, "a": 1, "ada": 5, "b": 2}),
        ("{a: 1,}", {"a": 1}),
        ("1 // a comment", 1),
        ("1 /* in */ + /* between */ 2", 3),
    ],
)
def test_literals(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2", 3),
        ("1 + 1.5", 2.5),
        ("5 - 7", -2),
        ("2 * 3", 6),
        ("7 / 2", 3.5),
        ("6 / 2", 3.0),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("2 ** 3", 8.0),
        ("2 ^ 10", 1024.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ** 2", -4.0),
        ("+5", 5),
        ("- 5", -5),
        ("'a' + 'b'", "ab"),
        ("1 == 1.0", True),
        ("'1' == '1'", True),
        ("1 != 2", True),
        ("nil == nil", True),
        ("[1, 2] == [1.0, 2]", True),
        ("{'a': [1]} == {'a': [1]}", True),
        ("{'a': 1} == {'a': 1.0}", False),
        ("1 < 2", True),
        ("2 <= 2", True),
        ("3 > 4", False),
        ("'a' < 'b'", True),
        ("1 < 2 < 3", True),
        ("1 < 3 < 2", False),
        ("1 < 2 <= 2 > 1", True),
        ("true and false", False),
        ("true && false", False),
        ("true or false", True),
        ("false || true", True),
        ("not true", False),
        ("!true", False),
        ("not (1 > 2)", True),
        ("1 in [1, 2]", True),
        ("1.0 in [1, 2]", True),
        ("3 not in [1, 2]", True),
        ("'a' in {'a': 1}", True),
        ("2 in 1..3", True),
        ("'hello' contains 'ell'", True),
        ("'hello' not contains 'x'", True),
        ("'hello' startsWith 'he'", True),
        ("'hello' endsWith 'lo'", True),
        ("'hello' not endsWith 'lo'", False),
        ("'hello' matches '^h.*o$'", True),
        ("'hello' matches 'l{3}'", False),
        ("'hello' not matches 'x'", True),
        ("1..4", [1, 2, 3, 4]),
        ("3..1", []),
        ("true ? 'yes' : 'no'", "yes"),
        ("false ? 1 : true ? 2 : 3", 2),
        ("if 1 > 2 { 'a' } else { 'b' }", "b"),
        ("if false { 1 } else if true { 2 } else { 3 }", 2),
        ("nil ?? 'default'", "default"),
        ("'' ?? 'default'", ""),
        ("nil ?? nil ?? 3", 3),
        ("(nil ?? 'a') + 'b'", "ab"),
        ("9223372036854775807 + 1", -9223372036854775808),
        ("10 / 4 * 2", 5.0),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("not false and false", False),
        ("1 + 2 == 3 && 'a' + 'b' == 'ab'", True),
    ],
)
def test_operators(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("user.name", "Ada"),
        ("user['name']", "Ada"),
        ("user?.name", "Ada"),
        ("user.langs[0]", "go"),
        ("user.langs[-1]", "python"),
        ("user.langs[1:]", ["python"]),
        ("user.langs[:1]", ["go"]),
        ("user.langs[:]", ["go", "python"]),
        ("[1, 2, 3, 4, 5][1:-1]", [2, 3, 4]),
        ("[1, 2, 3][5:9]", []),
        ("[1, 2, 3][2:1]", []),
        ("'hello'[1:3]", "el"),
        ("'hello'[-3:]", "llo"),
        ("user.missing", None),
        ("user.missing?.deeper", None),
        ("user.missing?.deeper.still", None),
        ("user.home?.city ?? 'unknown'", "unknown"),
        ("user['missing'] ?? 'none'", "none"),
        ("items[0].name", "a"),
        ("{'a': {'b': 2}}.a.b", 2),
        ("$env.name", "ada"),
        ("$env['name']", "ada"),
        ("'name' in $env", True),
        ("'absent' in $env", False),
        ("$env?.absent", None),
        ("inputs.parameters.count", "3"),
        ("inputs.parameters['my-param']", "x"),
        ("workflow.status == 'Succeeded'", True),
    ],
)
def test_members_and_slices(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("let x = 42; x * 2", 84),
        ("let x = 2; let y = 3; x ** y", 8.0),
        ("let n = user.name | lower(); n + '!'", "ada!"),
        ("filter(items, {let p = .price; p > 1})", [{"name": "a", "price": 3}, {"name": "c", "price": 2}]),
        ("1; 2; 3", 3),
        ("name | upper() | len()", 3),
        ("[1, 2, 3] | map(# * 2) | filter(# > 2)", [4, 6]),
    ],
)
def test_variables_sequences_and_pipes(expression: str, value: Any) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("1", "int"),
        ("1.0", "float64"),
        ("7 / 2", "float64"),
        ("2 ** 2", "float64"),
        ("7 % 2", "int"),
        ("1 + 1.0", "float64"),
        ("'a'", "string"),
        ("nil", "<nil>"),
        ("true", "bool"),
        ("1..2", "[]int"),
        ("[1]", "[]interface {}"),
        ("split('a', ',')", "[]string"),
        ("{}", "map[string]interface {}"),
        ("groupBy([1], #)", "map[interface {}][]interface {}"),
        ("fromPairs([])", "map[interface {}]interface {}"),
        ("toPairs({})", "[][2]interface {}"),
        ("sprig.add(1, 2)", "int64"),
        ("sprig.split(',', 'a')", "map[string]string"),
        ("sprig.until(2)", "[]int"),
        ("fromJSON('1')", "float64"),
        ("jsonpath('1', '$')", "float64"),
        ("len('a')", "int"),
        ("date('2023-08-14')", "time.Time"),
        ("duration('1s')", "time.Duration"),
        ("date('2023-08-14').Month()", "time.Month"),
        ("sprig.semver('1.2.3')", "*semver.Version"),
        ("toJson(1)", "string"),
        ("now", "<nil>"),
    ],
)
def test_values_have_the_types_of_go(expression: str, kind: str) -> None:
    assert go_type(value_of(expression)) == kind


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("user.missing.deeper", "cannot fetch deeper from <nil> (1:14)"),
        ("user.age + 'a'", "invalid operation: float64 + string (1:10)"),
        ("user.name + 1", "invalid operation: string + int (1:11)"),
        ("user.name - 1", "invalid operation: string - int (1:11)"),
        ("user.name > 3", "invalid operation: string > int (1:11)"),
        ("-user.name", "invalid operation: - string (1:1)"),
        ("not user.age", "interface conversion: interface {} is float64, not bool (1:1)"),
        ("user.age ? 1 : 2", "interface conversion: interface {} is float64, not bool (1:6)"),
        ("user.age && ready", "interface conversion: interface {} is float64, not bool (1:10)"),
        ("user.langs[5]", "index out of range: 5 (array length is 2) (1:11)"),
        ("user.langs[user.name]", "invalid operation: int(string) (1:11)"),
        ("user[user.age]", "reflect.Value.MapIndex: value of type float64 is not assignable to type string (1:5)"),
        ("user.name()", "invalid operation: cannot call non-function of type string (1:6)"),
        ("user.missing()", "invalid operation: cannot call nil (there is no function missing here) (1:6)"),
        ("user.age.x", "cannot fetch x from float64 (1:10)"),
        ("user.age contains 'a'", "interface conversion: interface {} is float64, not string (1:10)"),
        (
            "user.age in ['a', 'b']",
            "reflect.Value.MapIndex: value of type float64 is not assignable to type string (1:10)",
        ),
        ("user.age in user.name", 'operator "in" not defined on string (1:10)'),
        ("upper(user.age)", "interface conversion: interface {} is float64, not string (1:1)"),
        ("int(user.name)", "invalid operation: int(Ada) (1:1)"),
        ("float(user.name)", "invalid operation: float(Ada) (1:1)"),
        ("asInt(user.name)", "invalid operation: int(Ada) (1:1)"),
        ("len(user.age)", "invalid argument for len (type float64) (1:1)"),
        ("filter(user.age, true)", "reflect: call of reflect.Value.Len on float64 Value (1:1)"),
        ("all(user.langs, #)", "interface conversion: interface {} is string, not bool (1:1)"),
        ("sum(user.langs)", "invalid operation: string + int (1:1)"),
        ("sort([1, 'a'])", "invalid operation: string < int (1:1)"),
        ("sortBy(items, .name, 'up')", "unknown order, use asc or desc (1:1)"),
        ("sort([1], 'up')", "invalid order up, expected asc or desc (1:1)"),
        ("repeat('a', -1)", "invalid argument for repeat (expected positive integer, got -1) (1:1)"),
        ("repeat('a', 2000000)", "memory budget exceeded (1:1)"),
        ("reduce([], #acc + #)", "reflect: slice index out of range (1:1)"),
        ("fromJSON('[1,')", "unexpected end of JSON input (1:1)"),
        ("fromJSON('{\"a\" 1}')", "invalid character '1' after object key (1:1)"),
        ("fromJSON('nope')", "invalid character 'n' looking for beginning of value (1:1)"),
        ("fromBase64('a$c=')", "illegal base64 data at input byte 1 (1:1)"),
        ("date('yesterday')", "invalid date yesterday (1:1)"),
        ("duration('1 day')", 'time: unknown unit " day" in duration "1 day" (1:1)'),
        ("timezone('Mars/Olympus')", "unknown time zone Mars/Olympus (1:1)"),
        ("1..2000000", "memory budget exceeded (1:2)"),
        ("5 % int('0')", "runtime error: integer divide by zero (1:3)"),
        ("{(user.age): 1}", "interface conversion: interface {} is float64, not string (1:1)"),
        ("user.name matches user.langs", "interface conversion: interface {} is []interface {}, not string (1:11)"),
        ("'a' matches ('(' + '')", "error parsing regexp: missing closing ): `(` (1:5)"),
        ("bitshl(1, -1)", "invalid operation: negative shift count -1 (type int) (1:1)"),
        ("take([1], -1)", "reflect.Value.Slice: slice index out of bounds (1:1)"),
        ("join([1, 2])", "interface conversion: interface {} is int, not string (1:1)"),
        ("max(user.age, user.name)", "invalid argument for max (type string) (1:1)"),
        ("mean(user.langs)", "invalid argument for mean (type string) (1:1)"),
        ("fromPairs([1])", "invalid pair 1 (1:1)"),
        ("fromPairs([[1, 2, 3]])", "invalid pair length [1 2 3] (1:1)"),
        ("keys(user.age)", "cannot get keys from float64 (1:1)"),
        ("reverse(user.age)", "cannot reverse float64 (1:1)"),
        ("flatten(user.name)", "cannot flatten string (1:1)"),
        ("concat(user.age)", "cannot concat float64 (1:1)"),
    ],
)
def test_runtime_errors(expression: str, message: str) -> None:
    assert error_message(expression) == message


def test_an_error_shows_the_text_and_the_position() -> None:
    with pytest.raises(ExpressionError) as caught:
        value_of("size > 3 &&\n  user.missing.deeper")
    assert str(caught.value) == ("cannot fetch deeper from <nil> (2:16)\n |   user.missing.deeper\n | ...............^")
    assert caught.value.position == (2, 16)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("all(1..3, # > 0)", True),
        ("all([], false)", True),
        ("any(items, .price > 2)", True),
        ("any([], true)", False),
        ("one([1, 2, 3], # > 2)", True),
        ("one([1, 2, 3], # > 1)", False),
        ("none(items, .price > 5)", True),
        ("filter(1..9, # % 3 == 0)", [3, 6, 9]),
        ("filter(items, {.price > 1})", [{"name": "a", "price": 3}, {"name": "c", "price": 2}]),
        ("map(items, .name)", ["a", "b", "c"]),
        ("map(1..3, {# * #index})", [0, 2, 6]),
        ("map(['a'], upper(#))", ["A"]),
        ("count(items, .price > 1)", 2),
        ("count([true, false, true])", 2),
        ("find(items, .price < 3).name", "b"),
        ("find([1], # > 5)", None),
        ("findIndex(items, .name == 'b')", 1),
        ("findIndex([1], # > 5)", None),
        ("findLast([1, 2, 3], # < 3)", 2),
        ("findLastIndex([1, 2, 3], # < 3)", 1),
        ("sum([1, 2, 3])", 6),
        ("sum([1, 2.5])", 3.5),
        ("sum(items, .price)", 6.0),
        ("sum([])", 0),
        ("sum(map(items, .price))", 6.0),
        ("sortBy(items, .price) | map(.name)", ["b", "c", "a"]),
        ("sortBy(items, .price, 'desc') | map(.name)", ["a", "c", "b"]),
        ("keys(groupBy(1..5, # % 2)) | sort()", [0, 1]),
        ("groupBy(1..5, # % 2)[1]", [1, 3, 5]),
        ("reduce(1..9, #acc + #)", 45),
        ("reduce(1..3, #acc * #, 10)", 60),
        ("reduce(['a', 'b'], #acc + #)", "ab"),
        ("reduce([5, 6], #acc + #index, 0)", 1),
        ("map([1, 2], map([10, 20], #))", [[10, 20], [10, 20]]),
        ("len(filter(items, .price > 1))", 2),
        ("first(filter(items, .price < 3)).name", "b"),
        ("filter(items, .price < 3)[0].name", "b"),
    ],
)
def test_functions_that_take_a_predicate(expression: str, value: Any) -> None:
    assert value_of(expression) == value
