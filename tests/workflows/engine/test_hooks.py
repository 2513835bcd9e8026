"""Hooks of steps and tasks (hooks.py), and of the workflow (entrypoint.py)."""

from __future__ import annotations

import json

import pytest

from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import Simulation, by_node, failed, result, run_to_end

SAY = """
- name: say
  inputs: {parameters: [{name: m, default: x}]}
  container: {image: busybox, args: ["{{inputs.parameters.m}}"]}
"""


def with_steps(step: str, rest: str = "") -> str:
    return (
        f"entrypoint: main\n{rest}\ntemplates:\n- name: main\n  steps:\n"
        f"  - - {step}\n  - - {{name: z, template: say}}\n{SAY}"
    )


def with_tasks(task: str) -> str:
    return (
        "entrypoint: main\ntemplates:\n- name: main\n  dag:\n    tasks:\n"
        f"    - {task}\n    - {{name: z, template: say, depends: a || a.Failed}}\n{SAY}"
    )


def args(sim: Simulation, seen: dict[str, str]) -> Simulation:
    def answer(launch: Launch) -> Outcome:
        seen[launch.node["displayName"]] = launch.template["container"]["args"][0]
        return result("r")

    sim.answer = answer
    return sim


@pytest.mark.parametrize("make", [with_steps, with_tasks])
@pytest.mark.parametrize("written", ["onExit: say", "hooks: {exit: {template: say}}"])
def test_an_exit_handler_runs_before_what_comes_next(make: object, written: str) -> None:
    assert callable(make)
    sim = Simulation(make(f"{{name: a, template: say, {written}}}"))
    sim.step()
    sim.round()
    assert [n.rpartition(".")[2] for n in sim.launched] == ["a", "onExit"]
    sim.round()
    assert sim.launched[2].endswith("z")
    sim.finish()
    hook = sim.node("a.onExit")
    assert hook["nodeFlag"] == {"hooked": True}
    assert hook["boundaryID"] == "wf"
    assert sim.node("a")["children"][0] == hook["id"]
    assert sim.phase == "Succeeded"


@pytest.mark.parametrize("make", [with_steps, with_tasks])
def test_an_exit_handler_runs_after_a_failure_too(make: object) -> None:
    assert callable(make)
    sim = run_to_end(make("{name: a, template: say, onExit: say}"), by_node({"a": failed()}))
    assert sim.node("a.onExit")["phase"] == "Succeeded"


def test_what_an_exit_handler_is_given() -> None:
    seen: dict[str, str] = {}
    hook = (
        "{template: say, arguments: {parameters: [{name: m, value: '{{steps.a.outputs.result}} {{steps.a.status}}'}]}}"
    )
    sim = Simulation(with_steps(f"{{name: a, template: say, hooks: {{exit: {hook}}}}}"))
    args(sim, seen).finish()
    assert seen["a.onExit"] == "r Succeeded"


def test_a_skipped_step_has_no_exit_handler() -> None:
    sim = run_to_end(with_steps('{name: a, template: say, when: "false", onExit: say}'))
    assert "a.onExit" not in sim.phases()


def test_a_failed_exit_handler_does_not_fail_the_step() -> None:
    sim = run_to_end(with_steps("{name: a, template: say, onExit: say}"), by_node({"a.onExit": failed()}))
    assert sim.phase == "Succeeded"


@pytest.mark.parametrize(
    ("expression", "runs"), [("steps.a.status == 'Failed'", True), ("steps.a.status == 'Skipped'", False)]
)
def test_an_exit_handler_may_have_a_condition(expression: str, runs: bool) -> None:
    step = f'{{name: a, template: say, hooks: {{exit: {{template: say, expression: "{expression}"}}}}}}'
    sim = run_to_end(with_steps(step), by_node({"a": failed()}))
    assert ("a.onExit" in sim.phases()) is runs


@pytest.mark.parametrize(("make", "word"), [(with_steps, "steps"), (with_tasks, "tasks")])
def test_hooks_run_when_their_time_comes(make: object, word: str) -> None:
    assert callable(make)
    running = f"{{template: say, expression: \"{word}.a.status == 'Running'\"}}"
    bad = f"{{template: say, expression: \"{word}['a'].status == 'Failed'\"}}"
    hooks = f"{{running: {running}, bad: {bad}}}"
    outcomes = [Outcome("Running"), Outcome("Succeeded")]
    sim = Simulation(make(f"{{name: a, template: say, hooks: {hooks}}}"), by_node({"a": outcomes}))
    sim.finish()
    assert sim.phases()["a.hooks.running"] == "Succeeded"
    assert "a.hooks.bad" not in sim.phases()
    assert sim.node("a.hooks.running")["nodeFlag"] == {"hooked": True}
    assert sim.phase == "Succeeded"


def test_the_next_step_waits_for_hooks() -> None:
    hooks = "{done: {template: say, expression: \"steps.a.status == 'Succeeded'\"}}"
    sim = Simulation(with_steps(f"{{name: a, template: say, hooks: {hooks}}}"))
    sim.step()
    sim.round()
    assert sim.launched == ["wf[0].a", "wf[0].a.hooks.done"]
    assert sim.finish().phase == "Succeeded"


@pytest.mark.parametrize(
    ("hook", "part"),
    [
        ("{template: say}", "Expression required for hook wf[0].a.hooks.x"),
        ('{template: say, expression: "1 +"}', "1 +"),
        ('{template: nope, expression: "true"}', "template nope not found"),
    ],
)
def test_hooks_that_cannot_be_run(hook: str, part: str) -> None:
    sim = run_to_end(with_steps(f"{{name: a, template: say, hooks: {{x: {hook}}}}}"))
    assert sim.phase == "Failed"
    assert part in sim.message


def test_of_a_loop_every_item_and_the_whole_have_an_exit_handler() -> None:
    sim = run_to_end(with_tasks("{name: a, template: say, withItems: [1, 2], onExit: say}"))
    assert {n for n in sim.phases() if n.endswith("onExit")} == {"a.onExit", "a(0:1).onExit", "a(1:2).onExit"}


def test_the_exit_handler_of_the_workflow_knows_how_it_came_out() -> None:
    seen: dict[str, str] = {}

    def answer(launch: Launch) -> Outcome:
        seen[launch.node["displayName"]] = launch.template["container"]["args"][0]
        return failed("boom", 2) if launch.node["displayName"] == "wf" else Outcome("Succeeded")

    text = """
entrypoint: main
onExit: bye
templates:
- {name: main, container: {image: busybox, args: [x]}}
- {name: bye, container: {image: busybox, args: ["{{workflow.status}} {{workflow.duration}} {{workflow.failures}}"]}}
"""
    sim = run_to_end(text, answer)
    assert (sim.phase, sim.message) == ("Failed", "boom")
    status, duration, failures = seen["wf.onExit"].split(" ", 2)
    assert (status, float(duration)) == ("Failed", 1.0)
    (failure,) = json.loads(json.loads(failures))
    assert failure == {
        "displayName": "wf",
        "message": "boom",
        "templateName": "main",
        "phase": "Failed",
        "podName": "wf",
        "finishedAt": "2026-01-01T00:00:01Z",
    }
    node = sim.node("wf.onExit")
    assert node["nodeFlag"] == {"hooked": True}
    assert "boundaryID" not in node


def test_a_failed_exit_handler_fails_the_workflow() -> None:
    text = "entrypoint: main\nonExit: main\ntemplates:\n- {name: main, container: {image: busybox}}"
    sim = run_to_end(text, by_node({"wf.onExit": failed("no mail")}))
    assert (sim.phase, sim.message) == ("Failed", "no mail")


def test_an_exit_handler_that_is_not_there() -> None:
    sim = run_to_end("entrypoint: main\nonExit: nope\ntemplates:\n- {name: main, container: {image: busybox}}")
    assert (sim.phase, sim.message) == ("Error", "error in exit template execution : template nope not found")


def test_hooks_of_the_workflow() -> None:
    text = """
entrypoint: main
hooks:
  exit: {template: main}
  running: {template: main, expression: workflow.status == "Running"}
  failed: {template: main, expression: workflow.status == "Failed"}
templates:
- {name: main, container: {image: busybox}}
"""
    sim = run_to_end(text, by_node({"wf": [Outcome("Running"), failed()]}))
    assert sim.names() == {
        "wf": "Failed",
        "wf.hooks.running": "Succeeded",
        "wf.hooks.failed": "Succeeded",
        "wf.onExit": "Succeeded",
    }
    assert sim.phase == "Failed"
    assert set(sim.node("wf")["children"]) == {sim.node(f"wf.hooks.{h}")["id"] for h in ("running", "failed")}
