"""Filters of jq. The table of results is that of gojq, which Argo uses."""

from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.jq import JqError, jq, jq_text

JOB: dict[str, Any] = {
    "metadata": {"name": "train", "labels": {"a.b/c": "d"}},
    "status": {
        "n": 3,
        "conditions": [{"type": "Created", "status": "True"}, {"type": "Failed", "status": "False"}],
    },
}


FILTERS: list[tuple[str, list[Any]]] = [
    (".", [JOB]),
    (".metadata.name", ["train"]),
    ('."metadata"."name"', ["train"]),
    ('.["metadata"]["name"]', ["train"]),
    ('.metadata.labels["a.b/c"]', ["d"]),
    (".status.conditions[0].type", ["Created"]),
    (".status.conditions.[0].type", ["Created"]),
    (".status.conditions[-1].type", ["Failed"]),
    (".status.conditions[9].type", [None]),
    (".status.conditions[1:] | length", [1]),
    (".status.conditions[].type", ["Created", "Failed"]),
    ('.status.conditions[] | select(.status == "True") | .type', ["Created"]),
    ("[.status.conditions[] | {type, ok: (.status == \"True\")}]",
     [[{"type": "Created", "ok": True}, {"type": "Failed", "ok": False}]]),
    ('.status.conditions | map(.type) | join("+")', ["Created+Failed"]),
    (".missing.deep", [None]),
    ('.missing // "none"', ["none"]),
    ('false // null // 0', [0]),
    (".metadata.name[]?", []),
    ('try error("no") catch .', ["no"]),
    ('"\\(.metadata.name) has \\(.status.n + 1)"', ["train has 4"]),
    ('@base64 "x\\(.status.n)"', ["xMw=="]),
    (".metadata.name | @json", ['"train"']),
    ("[1, \"a b\", true] | @csv", ['1,"a b",true']),
    (".status.n as $n | [$n, $n * 2]", [[3, 6]]),
    ("reduce .status.conditions[] as $c (0; . + 1)", [2]),
    ('if .status.n > 5 then "big" elif .status.n > 2 then "middle" else "small" end', ["middle"]),
    ("if . == 1 then 2 end", [JOB]),
    ("[..|numbers]", [[3]]),
    (".metadata | keys", [["labels", "name"]]),
    ('.metadata | has("name"), has("x")', [True, False]),
    ("[3, 1, 2] | sort, add, min, max, reverse", [[1, 2, 3], 6, 1, 3, [2, 1, 3]]),
    ("[null, true, 1, \"a\", [], {}] | sort_by(.) | length", [6]),
    ('[{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 1, "v": "c"}] | group_by(.k) | map(map(.v))',
     [[["a", "c"], ["b"]]]),
    ("[1, 2, 2, 3] | unique", [[1, 2, 3]]),
    ("[[1, [2]], 3] | flatten", [[1, 2, 3]]),
    ('{"a": 1} + {"b": 2} | to_entries', [[{"key": "a", "value": 1}, {"key": "b", "value": 2}]]),
    ('{"a": 1} | with_entries(.value += 1)', [{"a": 2}]),
    ('{"a": 1} | with_entries(.key |= "b")', [{"b": 1}]),
    ("def twice(f): f * 2; twice(.status.n)", [6]),
    ("[foreach range(3) as $i (0; . + $i)]", [[0, 1, 3]]),
    ("[paths(type == \"number\")]", [[["status", "n"]]]),
    ("del(.status, .metadata.labels)", [{"metadata": {"name": "train"}}]),
    ("now | type", ["number"]),
    ('{"a": 1} | map_values(. + 1)', [{"a": 2}]),
    ('{"a": {"b": 1}} * {"a": {"c": 2}}', [{"a": {"b": 1, "c": 2}}]),
    ("7 / 2, 6 / 2, 7 % 3, -7 % 3, 2 - 5", [3.5, 3, 1, -1, -3]),
    ("1 < 2 and 2 < 1, (1 < 2 or error)", [False, True]),
    ('"abc" | test("B"), test("B"; "i"), startswith("a"), ltrimstr("a")', [False, True, True, "bc"]),
    ('"v1.2" | capture("v(?P<major>\\\\d+)")', [{"major": "1"}]),
    ('"a-b-c" | sub("-"; "+"), gsub("-"; "+"), split("-")', ["a+b-c", "a+b+c", ["a", "b", "c"]]),
    ('"12" | tonumber + 1', [13]),
    ("[range(3)], [limit(2; 1, 2, 3)], first(5, 6)", [[0, 1, 2], [1, 2], 5]),
    ("any(.status.conditions[]; .status == \"True\")", [True]),
    ('.status.conditions | any(.status == "True"), all(.status == "True")', [True, False]),
    ("{(.metadata.name): .status.n}", [{"train": 3}]),
    ('"{\\"a\\": 1}" | fromjson | .a', [1]),
    ("[1, 2] | contains([1]), index(2)", [True, 1]),
    (".metadata.name | length, ascii_upcase", [5, "TRAIN"]),
    (". # a remark", [JOB]),
]  # fmt: skip


@pytest.fixture(scope="module")
def results() -> list[Any]:
    """The results of all filters, from one process: to start one for each takes long."""
    return jq(", ".join(f"[{filter}\n]" for filter, _ in FILTERS), JOB)


@pytest.mark.parametrize("number", range(len(FILTERS)), ids=[filter for filter, _ in FILTERS])
def test_filters(number: int, results: list[Any]) -> None:
    assert results[number] == FILTERS[number][1]


def test_an_empty_filter_returns_the_input() -> None:
    assert jq("", JOB) == [JOB]


@pytest.mark.parametrize(
    ("filter", "text"),
    [
        (".status.conditions[].type", "Created\nFailed"),
        (".metadata.labels", '{"a.b/c":"d"}'),
        (".missing", "null"),
        ("empty", ""),
        ("1.0, 1.5", "1\n1.5"),
        ("{b: 1, a: 2}", '{"a":2,"b":1}'),
        ("1e20, 1e21, 1e-7, 12345678901234567890", "100000000000000000000\n1e+21\n1e-7\n12345678901234567000"),
        ('"é<&>", ["é<&>"]', 'é<&>\n["é<&>"]'),
    ],
)
def test_as_a_parameter(filter: str, text: str) -> None:
    assert jq_text(filter, JOB) == text


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        (".metadata.name.x", "Cannot index string with"),
        (".[0]", "Cannot index object with number"),
        (".status.n[]", "Cannot iterate over number (3)"),
        (".a |", "syntax error, unexpected end of file (line 1, column 4)"),
        (".a ]", "expecting end of file (line 1, column 4)"),
        (".a\n| nope", "nope/0 is not defined (line 2, column 3)"),
        ("nope?", "nope/0 is not defined (line 1, column 1)"),
        ("length(1)", "length/1 is not defined"),
        ('"abc', "syntax error, unexpected end of file"),
        ("$x", "$x is not defined (line 1, column 1)"),
        ("1 / 0", "cannot be divided because the divisor is zero"),
        ("{} + []", "object ({}) and array ([]) cannot be added"),
        ('error("mine")', "mine"),
        ("~", "syntax error"),
        (" " * 200_000, "a filter of 200000 characters is too long"),
    ],
)
def test_errors(filter: str, message: str) -> None:
    with pytest.raises(JqError) as raised:
        jq(filter, JOB)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("input", "input is not available here"),
        ("inputs", "inputs is not available here"),
        ("debug", "debug is not available here"),
        ("halt_error", "halt error: "),
        ('"x" | modulemeta', "modulemeta is not available here"),
        ('import "passwd" as $x {search: "/etc"}; $x', "syntax error"),
        ('include "x"; .', "syntax error"),
    ],
)
def test_functions_outside_of_the_filter_are_rejected(filter: str, message: str) -> None:
    with pytest.raises(JqError, match=message):
        jq(filter, JOB)


def test_a_filter_does_not_see_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_SECRET", "hidden")
    assert jq("env, $ENV, env.MUSTER_SECRET", JOB) == [{}, {}, None]


@pytest.mark.parametrize("filter", ["def f: f; f", "last(range(1e12))"])
def test_an_endless_filter_is_stopped(filter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.workflows.lang.jq._MAX_CPU_SECONDS", 1)
    with pytest.raises(JqError, match="takes more than 1 seconds"):
        jq(filter, JOB)


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ('reduce range(40) as $i ("a"; . + .) | length', "needs more than 256 MiB of memory"),
        ('"a" * 1e9 | length', "needs more than 256 MiB of memory"),
        ('range(1e9) | "x" * 100000', "returns more than 1000000 characters"),
        ("reduce range(100000) as $i (1; [.])", "nest"),
    ],
)
def test_a_filter_with_a_large_result_is_stopped(filter: str, message: str) -> None:
    with pytest.raises(JqError, match=message):
        jq(filter, JOB)
