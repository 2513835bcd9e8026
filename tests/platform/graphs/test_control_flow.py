"""Timeouts, conditions and loops as data: what they mean, and what they become in a Workflow."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from muster.platform.graphs.compile import GraphError, compile_run, secret_for, value_problems
from muster.platform.graphs.context import Context
from muster.platform.graphs.control_flow import ListError, compare, parse_items, skippable_nodes
from muster.platform.graphs.document import content_hash, diff, to_canonical
from muster.platform.graphs.model import Document, Operator, parse_timeout, read
from muster.workflows.lang.tags import substitute
from tests.platform.graphs.samples import CONTEXT, RUN, graph, node, training

OUT = {"name": "out", "path": "/tmp/out"}
HOSTILE = [
    "",
    "'",
    '"',
    "\\",
    "\\'",
    "' || true || '",
    "') || (1 == 1",
    "}} {{=1+1}} {{workflow.name}}",
    "{{",
    "line\nbreak\r\ttab",
    "$(HOME) $$ ${x}",
    "<&>\u2028\u200b\x07\x7f",
    "\\u0026 \\u003c",
    "中文 🙂",
    "true",
    "1e3",
]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1), ("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1d2h3m4s", 93784),
        ("0", None), ("0m", None), ("", None), ("m", None), ("1.5h", None), ("30m1h", None), ("-1", None),
        ("1 h", None), ("1H", None), ("9999999999", None), ("٣s", None),
    ],
)  # fmt: skip
def test_timeouts_are_seconds_or_durations(text: str, seconds: int | None) -> None:
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize(
    ("left", "operator", "right", "holds"),
    [
        ("a", "==", "a", True), ("1", "==", "1.0", False), ("", "==", "", True), ("a", "!=", "A", True),
        ("abc", "contains", "b", True), ("abc", "contains", "", True), ("b", "contains", "abc", False),
        ("9", "<", "10", True), ("1.0", "<=", "1", True), ("-2", ">", "-3", True), ("1e2", ">=", "100", True),
        (".5", "<", "+1.", True), ("nan", "<", "1", False), ("1", "<", "many", False), ("", "<", "1", False),
        ("1\n", "<", "2", False), ("1e999", ">", "1", False), ("0x10", ">", "1", False), ("1_0", ">", "1", False),
        ("9" * 99, ">", "1", True), ("9" * 100, ">", "1", False),
    ],
)  # fmt: skip
def test_comparisons_hold_here_as_they_do_in_the_workflow(
    left: str, operator: Operator, right: str, holds: bool
) -> None:
    assert compare(left, operator, right) is holds
    output, parameter = {"from": {"node": "b", "output": "out"}}, {"from": {"parameter": "p"}}
    assert evaluated(output, operator, parameter, output=left, parameter=right) is holds
    assert evaluated(parameter, operator, output, output=right, parameter=left) is holds


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_is_read_as_an_expression(text: str) -> None:
    output, parameter = {"from": {"node": "b", "output": "out"}}, {"from": {"parameter": "p"}}
    assert evaluated(output, "==", {"value": text}, output=text)
    assert evaluated(parameter, "==", {"value": text}, parameter=text)
    assert evaluated(output, "contains", parameter, output=f"<{text}>", parameter=text)
    assert not evaluated(output, "!=", parameter, output=text, parameter=text)
    assert not evaluated(output, "==", {"value": f"{text}x"}, output=text)
    assert not evaluated({"value": f"{text}x"}, "==", parameter, parameter=text)


@pytest.mark.parametrize("text", HOSTILE)
def test_argo_can_read_the_expression_of_a_condition(text: str) -> None:
    """Before it reads an expression, it replaces these characters in the JSON of the tag, also where they follow an
    escaped backslash."""
    output = {"from": {"node": "b", "output": "out"}}
    when = condition_of(output, "==", {"value": text})
    assert not re.search(r"\\u(003c|003e|0026)", when)


@pytest.mark.parametrize(("item", "is_plain"), [("a & b", True), ("\\u00e4", True), ("\\u0026", False), ("{{x", False)])
def test_items_that_argo_would_change_are_passed_by_number(item: str, is_plain: bool) -> None:
    document = graph(node("a", loop={"items": ["x", item]}))
    task = task_of(document, "a")
    assert ("withItems" in task) is is_plain
    assert ("withSequence" in task) is not is_plain


def evaluated(
    left: dict[str, Any], operator: str, right: dict[str, Any], *, parameter: str = "", output: str = ""
) -> bool:
    """Whether a node with this condition would run."""
    when = condition_of(left, operator, right, parameter)
    scope = {"tasks.b.status": "Succeeded", "tasks.b.outputs.parameters.out": output}
    found = substitute(when, scope)
    assert found in ("true", "false"), found
    return bool(found == "true")


def condition_of(left: dict[str, Any], operator: str, right: dict[str, Any], parameter: str = "") -> str:
    document = graph(
        node("b", outputs=[OUT]),
        node("a", condition={"comparisons": [{"left": left, "operator": operator, "right": right}]}),
        edges="b>a",
        parameters=[{"name": "p"}],
    )
    return str(task_of(document, "a", p=parameter)["when"])


def task_of(document: Document, name: str, **parameters: str) -> dict[str, Any]:
    workflow = compile_run(document, replace(RUN, parameters=parameters), CONTEXT)
    return next(task for task in workflow["spec"]["templates"][0]["dag"]["tasks"] if task["name"] == name)


def test_comparisons_are_combined() -> None:
    yes = {"left": {"value": "a"}, "right": {"value": "a"}}
    no = {"left": {"value": "a"}, "right": {"value": "b"}}
    for match, terms, expected in (
        ("all", [yes, yes], "true"),
        ("all", [yes, no], "false"),
        ("any", [no, yes], "true"),
        ("any", [no, no], "false"),
    ):
        document = graph(node("a", condition={"match": match, "comparisons": terms}))
        assert substitute(task_of(document, "a")["when"], {}) == expected


def test_nodes_are_skipped_with_the_nodes_whose_outputs_they_use() -> None:
    use = {"name": "x", "from": {"node": "b", "output": "out"}}
    chained = {"name": "x", "from": {"node": "c", "output": "out"}}
    document = graph(
        node("b", outputs=[OUT], condition={"comparisons": [{"left": {"value": "1"}, "right": {"value": "2"}}]}),
        node("c", inputs=[use], outputs=[OUT]),
        node("d", inputs=[chained]),
        node("e"),
        edges="b>c c>d b>e",
    )
    assert skippable_nodes(read(document)) == {"b", "c", "d"}
    assert task_of(document, "c")["when"] == "{{=tasks['b'].status == 'Succeeded'}}"
    assert task_of(document, "d")["when"] == "{{=tasks['c'].status == 'Succeeded'}}"
    assert "when" not in task_of(document, "e")


@pytest.mark.parametrize(
    ("loop", "fields"),
    [
        ({"items": ["a", "b"]}, {"withItems": ["a", "b"]}),
        ({"count": 3}, {"withSequence": {"start": "0", "count": "3"}}),
        ({"count": 3, "start": -1}, {"withSequence": {"start": "-1", "count": "3"}}),
        ({"from": {"parameter": "list"}}, {"withItems": ["x", "1", '{"k":[1,2]}', "true", "null"]}),
        ({"from": {"parameter": "empty"}}, {"withParam": "[]"}),
        ({"from": {"node": "b", "output": "out"}}, {"withParam": "{{tasks.b.outputs.parameters.out}}"}),
        ({"items": ["{{x}}", "b"]}, {"withSequence": {"count": "2"}}),
        ({"items": ["\x1b"]}, {"withSequence": {"count": "1"}}),
    ],
)
def test_what_a_loop_runs_over(loop: dict[str, Any], fields: dict[str, Any]) -> None:
    given = '["x", 1, {"k": [1, 2]}, true, null]'
    document = graph(
        node("b", outputs=[OUT]),
        node("a", command="$item", loop=loop),
        edges="b>a",
        parameters=[{"name": "list"}, {"name": "empty"}],
    )
    task = task_of(document, "a", list=given)
    assert {name: value for name, value in task.items() if name.startswith("with")} == fields


def test_items_that_argo_would_change_are_in_the_secret() -> None:
    document = graph(node("a", command="$item", loop={"items": HOSTILE}))
    workflow, secret = compile_run(document, RUN, CONTEXT), secret_for(document, RUN, CONTEXT, "t")
    variables = {each["name"]: each for each in workflow["spec"]["templates"][1]["script"]["env"]}
    key = variables["item"]["valueFrom"]["secretKeyRef"]["key"]
    for number, item in enumerate(HOSTILE):
        stored = secret["data"][key.replace("{{inputs.parameters.loop-index}}", str(number))]
        assert b64decode(stored).decode() == item
    assert "workflow.name" not in json.dumps(workflow)


def test_a_skipped_loop_has_no_iterations() -> None:
    condition = {"comparisons": [{"left": {"from": {"parameter": "p"}}, "right": {"value": "on"}}]}
    document = graph(
        node("a", command="$item", loop={"items": ["it's", "b"]}, condition=condition), parameters=[{"name": "p"}]
    )
    for value, items in (("on", ["it's", "b"]), ("off", [])):
        task = task_of(document, "a", p=value)
        assert "when" not in task
        assert json.loads(substitute(task["withParam"], {})) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('["a", "b"]', ["a", "b"]), ("[]", []), ("[1, 1.50, -0]", ["1", "1.50", "-0"]),
        ('[["a", 1], {"b": null}]', ['["a",1]', '{"b":null}']), ('["\\u007b\\u007bx}}"]', ["{{x}}"]),
    ],
)  # fmt: skip
def test_lists_are_json(text: str, items: list[str]) -> None:
    assert parse_items(text) == items


@pytest.mark.parametrize("text", ["a, b", '{"a": 1}', '"a"', "", "[NaN]", "[1,]", "[" * 100_000])
def test_texts_that_are_no_lists(text: str) -> None:
    with pytest.raises(ListError):
        parse_items(text)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("a, b", "value.list"), ("{}", "value.list"), (json.dumps(["x"] * 1001), "value.items"),
        (json.dumps(["x" * 1001]), "value.item"), (json.dumps(["a\0"]), "value.zero"), ("[1]", ""), ("", ""),
    ],
)  # fmt: skip
def test_values_of_a_run_that_a_loop_runs_over(value: str, code: str) -> None:
    document = graph(node("a", command="$item", loop={"from": {"parameter": "list"}}), parameters=[{"name": "list"}])
    found = value_problems(document, {"list": value})
    assert [(each.path, each.code) for each in found] == ([("parameters.list", code)] if code else [])
    if code:
        with pytest.raises(GraphError, match=r'"a" runs once|NUL'):
            compile_run(document, replace(RUN, parameters={"list": value}), Context())


def test_a_timeout_is_that_of_each_pod_or_of_the_job() -> None:
    workflow = compile_run(graph(node("a", timeout="1m"), node("b", timeout="90", retries=2)), RUN, CONTEXT)
    assert [t.get("activeDeadlineSeconds") for t in workflow["spec"]["templates"]] == [None, 60, 90]
    job = training("a", "PyTorchJob", ("Master", 1), timeout="1h")
    (_, template) = compile_run(graph(job), RUN, CONTEXT)["spec"]["templates"]
    assert "activeDeadlineSeconds: 3600" in template["resource"]["manifest"]
    assert "activeDeadlineSeconds" not in template


def test_documents_keep_and_compare_the_fields() -> None:
    condition = {"match": "all", "comparisons": [{"left": {"value": ""}, "operator": "==", "right": {"value": "x"}}]}
    document = graph(node("a", timeout="1m", condition=condition, loop={"items": ["", "b"], "variable": "item"}))
    (kept,) = to_canonical(document)["nodes"]
    assert kept["condition"] == {"comparisons": [{"left": {"value": ""}, "right": {"value": "x"}}]}
    assert kept["loop"] == {"items": ["", "b"]}
    other = graph(node("a", timeout="2m", loop={"items": ["", "c"]}))
    assert content_hash(document) != content_hash(other)
    assert [str(change) for change in diff(document, other)] == [
        'timeout of a changed from "1m" to "2m"',
        'condition of a changed from {comparisons: [{left: {value: ""}, right: {value: "x"}}]} to nothing',
        'loop of a changed from {items: ["", "b"]} to {items: ["", "c"]}',
    ]
