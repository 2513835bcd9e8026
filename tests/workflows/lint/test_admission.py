from __future__ import annotations

from typing import Any

from muster.workflows.kinds import CRON_WORKFLOW, WORKFLOW, WORKFLOW_TEMPLATE
from muster.workflows.lint.workflow import workflow_rule

GOOD = {"entrypoint": "main", "templates": [{"name": "main", "suspend": {}}]}
BAD = {"entrypoint": "nothing", "templates": [{"name": "main", "suspend": {}}]}


def workflow(spec: dict[str, Any], kind: str = "Workflow") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "a"}, "spec": spec}


def test_a_new_workflow_is_looked_at() -> None:
    assert workflow_rule(workflow(GOOD), None) == []
    assert [cause.field for cause in workflow_rule(workflow(BAD), None)] == ["spec.entrypoint"]


def test_a_spec_that_was_taken_is_not_looked_at_again() -> None:
    assert workflow_rule({**workflow(BAD), "status": {"phase": "Running"}}, workflow(BAD)) == []
    assert workflow_rule(workflow(dict(BAD)), workflow(BAD)) == []


def test_nor_is_one_that_is_stopped_or_suspended() -> None:
    for change in ({"suspend": True}, {"shutdown": "Stop"}, {"parallelism": 3}, {"activeDeadlineSeconds": 5}):
        assert workflow_rule(workflow({**BAD, **change}), workflow(BAD)) == []


def test_one_that_changes_is() -> None:
    assert [cause.field for cause in workflow_rule(workflow(BAD), workflow(GOOD))] == ["spec.entrypoint"]


def test_what_runs_needs_values_and_what_others_use_does_not() -> None:
    spec = {**GOOD, "arguments": {"parameters": [{"name": "a"}]}}
    assert [cause.message for cause in workflow_rule(workflow(spec), None)] == ["a.value or a.valueFrom is required"]
    assert workflow_rule(workflow(spec, "WorkflowTemplate"), None) == []


def test_what_comes_from_other_objects_is_taken_to_be_right() -> None:
    steps = [
        [{"name": "a", "templateRef": {"name": "elsewhere", "template": "x"}}],
        [{"name": "b", "template": "main", "when": "{{steps.a.outputs.parameters.any}} == 1"}],
    ]
    templates = [{"name": "start", "steps": steps}, {"name": "main", "suspend": {}}]
    assert workflow_rule(workflow({"entrypoint": "start", "templates": templates}), None) == []
    assert workflow_rule(workflow({"workflowTemplateRef": {"name": "elsewhere"}}), None) == []


def test_no_answer_is_endless() -> None:
    templates = [{"name": f"t{number}"} for number in range(1000)]
    assert len(workflow_rule(workflow({"entrypoint": "t0", "templates": templates}), None)) == 100


def test_it_is_at_the_door_of_every_kind_with_a_spec() -> None:
    assert [kind.validate for kind in (WORKFLOW, WORKFLOW_TEMPLATE, CRON_WORKFLOW)] == [workflow_rule] * 3


def test_ten_thousand_tasks_and_templates_nested_three_thousand_deep() -> None:
    tasks: list[dict[str, Any]] = [{"name": "t0", "template": "echo", "arguments": argument("x")}]
    for number in range(1, 10_000):
        value = f"{{{{tasks.t{number // 2}.outputs.result}}}}"
        tasks.append({
            "name": f"t{number}", "template": "echo", "depends": f"t{number - 1}", "arguments": argument(value),
        })  # fmt: skip
    nested: list[dict[str, Any]] = [
        {"name": f"n{depth}", "steps": [[{"name": "s", "template": f"n{depth + 1}"}]]} for depth in range(3000)
    ]
    nested.append({"name": "n3000", "dag": {"tasks": tasks}})
    nested.append({
        "name": "echo",
        "inputs": {"parameters": [{"name": "message"}]},
        "container": {"image": "busybox", "args": ["{{inputs.parameters.message}}"]},
    })  # fmt: skip
    assert workflow_rule(workflow({"entrypoint": "n0", "templates": nested}), None) == []


def argument(value: str) -> dict[str, Any]:
    return {"parameters": [{"name": "message", "value": value}]}
