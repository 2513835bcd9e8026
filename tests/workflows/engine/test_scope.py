from __future__ import annotations

import json
from typing import Any

import pytest

from muster.workflows.engine.node_tree import NodeTree
from muster.workflows.engine.scope import Scope, last_attempt, mentioned_steps, steps_with_used_results
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.model import Node, Outputs, Phase


def item(index: int, outputs: Outputs | None = None, phase: Phase = "Succeeded") -> Node:
    node = Node(id=str(index), name=f"wf.a({index}:x)", displayName=f"a({index}:x)", type="Pod", phase=phase)
    if outputs is not None:
        node["outputs"] = outputs
    return node


def looped(*nodes: Node) -> dict[str, str | None]:
    scope = Scope()
    scope.add_loop("tasks.a", nodes)
    return scope.parameters


def test_what_a_step_has_come_to() -> None:
    node = Node(
        id="wf-1", name="wf.a", displayName="a", type="Pod", phase="Succeeded", startedAt="t0", finishedAt="t1",
        podIP="10.0.0.1", hostNodeName="node-1",
        outputs={
            "result": "r", "exitCode": "0",
            "parameters": [{"name": "p", "value": 3}], "artifacts": [{"name": "f"}],
        },
    )  # fmt: skip
    scope = Scope({"inputs": {"parameters": [{"name": "i", "value": 1}], "artifacts": [{"name": "g", "path": "/g"}]}})
    scope.add_node("steps.a", node, NodeTree("wf", {}))
    assert scope.parameters == {
        "inputs.parameters.i": "1",
        "steps.a.id": "wf-1",
        "steps.a.name": "wf.a",
        "steps.a.status": "Succeeded",
        "steps.a.startedAt": "t0",
        "steps.a.finishedAt": "t1",
        "steps.a.ip": "10.0.0.1",
        "steps.a.hostNodeName": "node-1",
        "steps.a.outputs.result": "r",
        "steps.a.exitCode": "0",
        "steps.a.outputs.parameters.p": "3",
    }
    assert scope.artifacts == {
        "inputs.artifacts.g": {"name": "g", "path": "/g"},
        "steps.a.outputs.artifacts.f": {"name": "f"},
    }


def test_the_items_of_a_loop_become_lists_in_their_order() -> None:
    found = looped(
        item(10, {"parameters": [{"name": "p", "value": "ten"}]}),
        item(2, {"parameters": [{"name": "p", "value": "two"}]}),
        item(3, phase="Skipped"),
        item(4, {"parameters": [{"name": "p", "value": "failed"}]}, phase="Failed"),
    )
    assert found["tasks.a.outputs.parameters"] == '[{"p":"two"},{"p":"ten"}]'
    assert found["tasks.a.outputs.parameters.p"] == '["two","ten"]'
    assert found["tasks.a.outputs.result"] == "[]"


@pytest.mark.parametrize(
    ("results", "expected"),
    [(["1", "2"], [1, 2]), (['"a"', "true"], ["a", True]), (['{"k": 1}', "[2]"], [{"k": 1}, [2]])],
)
def test_results_of_a_loop_are_json(results: list[str], expected: list[Any]) -> None:
    found = looped(*(item(i, {"result": text}) for i, text in enumerate(results)))
    assert json.loads(found["tasks.a.outputs.result"] or "") == expected


def test_a_result_that_is_no_json_is_an_error_that_names_the_item() -> None:
    with pytest.raises(ExpressionError, match=r"a\(0:x\).*is not valid JSON"):
        looped(item(0, {"result": "hello"}))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (['{"a":1}', "[2]"], '[{"a":1},[2]]'),
        (["1", "2"], '["1","2"]'),
        (['{"a":1}', "plain"], '["{\\"a\\":1}","plain"]'),
    ],
)
def test_maps_and_lists_are_not_quoted_twice(values: list[str], expected: str) -> None:
    found = looped(*(item(i, {"parameters": [{"name": "p", "value": v}]}) for i, v in enumerate(values)))
    assert found["tasks.a.outputs.parameters.p"] == expected


def test_outputs_of_one_that_did_not_run() -> None:
    scope = Scope()
    outputs = {
        "parameters": [
            {"name": "p", "valueFrom": {"path": "/p"}},
            {"name": "q", "valueFrom": {"path": "/q", "default": 7}},
        ],
        "artifacts": [{"name": "f"}],
    }
    scope.add_skipped("steps.a", {"outputs": outputs}, with_artifacts=True)
    assert scope.parameters == {"steps.a.outputs.parameters.p": None, "steps.a.outputs.parameters.q": "7"}
    assert scope.artifacts == {"steps.a.outputs.artifacts.f": {}}


def test_of_retries_the_last_attempt_counts_and_hooks_do_not() -> None:
    def node(name: str) -> Node:
        return Node(id=name, name=name, type="Pod", phase="Failed")

    hook = node("a.onExit")
    hook["nodeFlag"] = {"hooked": True}
    nodes = {n["id"]: n for n in (node("a(0)"), node("a(1)"), hook)}
    retry = Node(id="a", name="a", type="Retry", phase="Failed", children=["a(0)", "a(1)", "a.onExit", "gone"])
    nodes["a"] = retry
    found = last_attempt(retry, NodeTree("wf", nodes))
    assert found is not None
    assert found["name"] == "a(1)"
    assert last_attempt(node("b"), NodeTree("wf", nodes)) is None
    retry["memoizationStatus"] = {"hit": True}
    assert last_attempt(retry, NodeTree("wf", nodes)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{workflow.name}}", set()),
        ("{{tasks.a.outputs.result}} and {{ steps.b.ip }}", {"a", "b"}),
        ("{{tasks.my-task.id}}", {"my-task", "my"}),
        ("{{=tasks['a b'].status}}", {"a b"}),
        ('{"e": "tasks[\\"x\\"].status"}', {"x"}),
        ("{{=len(tasks)}}", None),
        ("{{=tasks[inputs.parameters.n].status}}", None),
        ("subtasks.a", set()),
    ],
)
def test_who_is_named_in_a_text(text: str, expected: set[str] | None) -> None:
    assert mentioned_steps(text) == (None if expected is None else frozenset(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{steps.a.outputs.result}}", {"a"}),
        ("{{steps.a.outputs.parameters.result}}", set()),
        ("{{=steps['a-b'].outputs.result}}", {"a-b"}),
        ("{{=steps.a?.outputs?.result ?? 'x'}}", {"a"}),
        ("{{steps.a.exitCode}} {{steps.b.outputs.result}}", {"b"}),
    ],
)
def test_whose_result_is_read(text: str, expected: set[str]) -> None:
    assert steps_with_used_results({"steps": [[{"when": text}]]}) == expected
