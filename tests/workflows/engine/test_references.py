from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.engine.clock import RunClock
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.scope import Scope, resolve_arguments, resolve_artifact, resolve_outputs, resolve_step
from muster.workflows.engine.templates import ABSENT
from muster.workflows.lang.errors import ExpressionError

CLOCK = RunClock().expressions

FILE = {"name": "f", "s3": {"key": "runs/f.tgz"}}


def scope() -> Scope:
    found = Scope()
    found.parameters = {
        "steps.a.outputs.result": "3",
        "steps.a.status": "Succeeded",
        "steps.b.outputs.parameters.p": None,
    }
    found.artifacts = {"steps.a.outputs.artifacts.f": FILE}
    return found


def argument(value: str, **step: Any) -> Any:
    written = {"name": "s", "template": "t", "arguments": {"parameters": [{"name": "m", "value": value}]}, **step}
    return resolve_step(written, scope(), {"workflow.name": "wf"}, CLOCK)["arguments"]["parameters"][0]["value"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{{steps.a.outputs.result}}", "3"),
        ("{{workflow.name}}-{{steps.a.status}}", "wf-Succeeded"),
        ("{{=asInt(steps.a.outputs.result) * 2}}", "6"),
        ("{{item}}", "{{item}}"),
        ("{{steps.b.outputs.parameters.p}}", ABSENT),
        ("{{=steps.b.outputs.parameters.p ?? 'none'}}", "none"),
    ],
)
def test_references_to_others(value: str, expected: str) -> None:
    assert argument(value) == expected


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{{steps.c.outputs.result}}", "failed to resolve {{steps.c.outputs.result}}"),
        ("x-{{steps.b.outputs.parameters.p}}", "absent optional"),
        ("{{=steps.c.outputs.result}}", "steps.c"),
        ("{{= 1 + }}", "unexpected token EOF"),
    ],
)
def test_references_that_lead_nowhere_show_the_text(value: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        argument(value)
    assert problem in str(caught.value)
    assert value in str(caught.value)


def test_of_a_step_that_does_not_run_only_the_condition_is_looked_at() -> None:
    step = {"name": "s", "when": "{{steps.a.outputs.result}} == 4", "template": "{{steps.gone.ip}}"}
    assert resolve_step(step, scope(), {}, CLOCK) == {**step, "when": "3 == 4"}


def test_a_condition_that_makes_no_sense_is_an_error_unless_an_item_may_give_it_some() -> None:
    with pytest.raises(ExpressionError, match="a == "):
        resolve_step({"name": "s", "when": "a == "}, scope(), {}, CLOCK)
    assert (
        resolve_step({"name": "s", "when": "{{item.x}} == 1", "withItems": [1]}, scope(), {}, CLOCK)["when"]
        == "{{item.x}} == 1"
    )


def test_hooks_wait_and_inline_templates_keep_what_is_theirs() -> None:
    step = {
        "name": "s",
        "hooks": {"exit": {"arguments": {"parameters": [{"value": "{{steps.s.outputs.result}}"}]}}},
        "inline": {"steps": [[{"when": "{{steps.inner.status}} {{steps.a.status}}"}]]},
    }
    found = resolve_step(step, scope(), {}, CLOCK)
    assert found["hooks"] == step["hooks"]
    assert found["inline"]["steps"][0][0]["when"] == "{{steps.inner.status}} Succeeded"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"name": "x", "from": "{{steps.a.outputs.artifacts.f}}"}, FILE),
        ({"name": "x", "from": "{{ steps.a.outputs.artifacts.f }}"}, FILE),
        ({"name": "x", "fromExpression": "steps.a.status == 'Succeeded' ? steps.a.outputs.artifacts.f : nil"}, FILE),
        (
            {"name": "x", "from": "{{steps.a.outputs.artifacts.f}}", "subPath": "d/{{steps.a.outputs.result}}"},
            {"name": "f", "s3": {"key": "runs/f.tgz/d/3"}},
        ),
        ({"name": "x", "raw": {"data": "y"}}, None),
    ],
)
def test_artifacts_of_others(written: dict[str, Any], expected: dict[str, Any] | None) -> None:
    assert resolve_artifact(written, scope(), {}, CLOCK) == expected


def test_an_artifact_that_is_passed_has_the_name_it_is_passed_under() -> None:
    artifacts = [{"name": "x", "from": "{{steps.a.outputs.artifacts.f}}"}, {"name": "y", "raw": {"data": "1"}}]
    found = resolve_step({"name": "s", "arguments": {"artifacts": artifacts}}, scope(), {}, CLOCK)
    assert found["arguments"]["artifacts"] == [{**FILE, "name": "x"}, {"name": "y", "raw": {"data": "1"}}]


def test_an_artifact_that_is_not_there_is_left_out_if_it_may_be() -> None:
    missing = {"name": "x", "from": "{{steps.gone.outputs.artifacts.f}}"}
    with pytest.raises(ExpressionError, match=r'Unable to resolve: "steps\.gone\.outputs\.artifacts\.f"'):
        resolve_step({"name": "s", "arguments": {"artifacts": [missing]}}, scope(), {}, CLOCK)
    found = resolve_step({"name": "s", "arguments": {"artifacts": [{**missing, "optional": True}]}}, scope(), {}, CLOCK)
    assert found["arguments"]["artifacts"] == []


def test_what_is_no_artifact_is_refused() -> None:
    with pytest.raises(WorkflowError, match="is not an artifact"):
        resolve_artifact({"name": "x", "fromExpression": "steps.a.status"}, scope(), {}, CLOCK)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"parameter": "{{steps.a.outputs.result}}"}, "3"),
        ({"expression": "asInt(steps.a.outputs.result) + 1"}, "4"),
        ({"parameter": "{{steps.b.outputs.parameters.p}}", "default": "d"}, "d"),
        ({"parameter": "{{steps.gone.outputs.result}}", "default": "d"}, "d"),
        ({"expression": "steps.b.outputs.parameters.p ?? 'none'"}, "none"),
        ({"expression": "steps.b.outputs.parameters.p", "default": 5}, "5"),
    ],
)
def test_outputs_of_a_template(source: dict[str, Any], expected: str) -> None:
    template = {"outputs": {"parameters": [{"name": "o", "globalName": "g", "valueFrom": source}]}}
    assert resolve_outputs(template, scope(), {}, CLOCK) == {
        "parameters": [{"name": "o", "globalName": "g", "value": expected}]
    }


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (None, "must have a valueFrom"),
        ({"parameter": "{{steps.b.outputs.parameters.p}}"}, "is an absent optional"),
        ({"parameter": "{{steps.gone.outputs.result}}"}, 'Unable to resolve: "steps.gone.outputs.result"'),
        ({"expression": "1 +"}, "unexpected token EOF"),
        ({"expression": "steps.b.outputs.parameters.p"}, "failed to evaluate expression"),
    ],
)
def test_outputs_that_cannot_be(source: dict[str, Any] | None, problem: str) -> None:
    template = {"outputs": {"parameters": [{"name": "o", "valueFrom": source}]}}
    with pytest.raises((WorkflowError, ExpressionError), match=problem):
        resolve_outputs(template, scope(), {}, CLOCK)


def test_artifacts_among_the_outputs() -> None:
    template = {
        "outputs": {
            "artifacts": [
                {"name": "o", "from": "{{steps.a.outputs.artifacts.f}}", "globalName": "g"},
                {"name": "p", "from": "{{steps.gone.outputs.artifacts.f}}", "optional": True},
            ]
        }
    }
    assert resolve_outputs(template, scope(), {}, CLOCK) == {"artifacts": [{**FILE, "name": "o", "globalName": "g"}]}
    assert resolve_outputs({}, scope(), {}, CLOCK) is None


def test_a_hook_may_name_what_is_not_known_yet() -> None:
    arguments = {"parameters": [{"name": "m", "value": "{{steps.gone.ip}} {{steps.a.status}}"}]}
    found = resolve_arguments(arguments, scope(), {}, CLOCK)
    assert found["parameters"][0]["value"] == "{{steps.gone.ip}} Succeeded"
