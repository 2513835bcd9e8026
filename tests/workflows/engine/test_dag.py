from __future__ import annotations

import pytest

from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import Simulation, by_node, failed, parameters, result, run_to_end, succeed

SAY = """
- name: say
  inputs: {parameters: [{name: m, default: x}]}
  container: {image: busybox, args: ["{{inputs.parameters.m}}"]}
"""


def dag(tasks: str, head: str = "", more: str = "", rest: str = "") -> str:
    """Returns a workflow whose entrypoint is a DAG of these tasks."""
    body = "\n".join("    " + line for line in tasks.strip().splitlines())
    return f"entrypoint: main\n{rest}\ntemplates:\n- name: main\n{head}\n  dag:\n    tasks:\n{body}\n{more}{SAY}"


DIAMOND = """
- {name: A, template: say}
- {name: B, template: say, dependencies: [A]}
- {name: C, template: say, dependencies: [A]}
- {name: D, template: say, dependencies: [B, C]}
"""


def test_a_task_runs_once_those_before_it_are_done() -> None:
    sim = Simulation(dag(DIAMOND))
    sim.step()
    assert sim.launched == ["wf.A"]
    sim.round()
    assert sim.launched[1:] == ["wf.B", "wf.C"]
    (b, c) = list(sim.open)
    del sim.open[b]
    sim.step({b: Outcome("Succeeded")})
    assert len(sim.launched) == 3
    del sim.open[c]
    sim.step({c: Outcome("Succeeded")})
    assert sim.launched[3:] == ["wf.D"]
    assert sim.finish().phase == "Succeeded"


def test_the_tree_is_drawn_as_argo_draws_it() -> None:
    sim = run_to_end(dag(DIAMOND))
    ids = {n["displayName"]: n["id"] for n in sim.run.nodes.values()}
    assert sim.node("wf")["type"] == "DAG"
    assert sim.node("wf")["children"] == [ids["A"]]
    assert sim.node("wf")["outboundNodes"] == [ids["D"]]
    assert sim.node("A")["children"] == [ids["B"], ids["C"]]
    assert sim.node("B")["children"] == sim.node("C")["children"] == [ids["D"]]
    assert {n["boundaryID"] for n in sim.run.nodes.values() if n["name"] != "wf"} == {"wf"}


@pytest.mark.parametrize(
    ("depends", "outcome", "phase"),
    [
        ("A", Outcome("Succeeded"), "Succeeded"),
        ("A", failed(), "Omitted"),
        ("A.Failed", failed(), "Succeeded"),
        ("A.Failed", Outcome("Error"), "Omitted"),
        ("A.Errored", Outcome("Error"), "Succeeded"),
        ("A.Succeeded || A.Failed", failed(), "Succeeded"),
        ("!A.Succeeded", failed(), "Succeeded"),
        ("A && !B", Outcome("Succeeded"), "Omitted"),
        ("A.Failed && B.Succeeded", failed(), "Succeeded"),
        ("skipped.Skipped && A", Outcome("Succeeded"), "Succeeded"),
        ("skipped && A", Outcome("Succeeded"), "Succeeded"),
        ("omitted.Omitted", Outcome("Succeeded"), "Succeeded"),
    ],
)
def test_what_a_task_may_wait_for(depends: str, outcome: Outcome, phase: str) -> None:
    tasks = f"""
- {{name: A, template: say}}
- {{name: B, template: say}}
- {{name: skipped, template: say, when: "false"}}
- {{name: omitted, template: say, depends: B.Failed}}
- {{name: T, template: say, depends: "{depends}"}}
"""
    sim = run_to_end(dag(tasks), by_node({"A": outcome}))
    assert sim.node("T")["phase"] == phase
    if phase == "Omitted":
        assert sim.node("T")["type"] == "Skipped"
        assert sim.node("T")["message"] == "omitted: depends condition not met"


@pytest.mark.parametrize(
    ("depends", "failing", "phase"),
    [
        ("fan.AnySucceeded", {"fan(0:1)"}, "Succeeded"),
        ("fan.AllFailed", {"fan(0:1)"}, "Omitted"),
        ("fan.AllFailed", {"fan(0:1)", "fan(1:2)"}, "Succeeded"),
        ("fan.AnySucceeded", {"fan(0:1)", "fan(1:2)"}, "Omitted"),
        ("fan", {"fan(0:1)"}, "Omitted"),
        ("fan", set(), "Succeeded"),
    ],
)
def test_what_a_task_may_ask_of_a_loop(depends: str, failing: set[str], phase: str) -> None:
    tasks = f"""
- {{name: fan, template: say, withItems: [1, 2]}}
- {{name: T, template: say, depends: {depends}}}
"""
    sim = run_to_end(dag(tasks), by_node(dict.fromkeys(failing, failed())))
    assert sim.node("T")["phase"] == phase


def test_a_loop_has_a_node_for_all_and_one_for_each() -> None:
    sim = run_to_end(
        dag("- {name: A, template: say}\n- {name: fan, template: say, depends: A, withItems: [p, q]}\n"
            "- {name: Z, template: say, depends: fan}")
    )  # fmt: skip
    ids = {n["displayName"]: n["id"] for n in sim.run.nodes.values()}
    assert sim.node("fan")["type"] == "TaskGroup"
    assert sim.node("A")["children"] == [ids["fan"]]
    assert sim.node("fan")["children"] == [ids["fan(0:p)"], ids["fan(1:q)"]]
    assert sim.node("fan(0:p)")["children"] == sim.node("fan(1:q)")["children"] == [ids["Z"]]
    assert sim.node("fan")["progress"] == "2/2"


def test_a_failed_item_fails_its_loop() -> None:
    sim = run_to_end(
        dag("- {name: fan, template: say, withItems: [p, q]}\n- {name: Z, template: say, depends: fan}"),
        by_node({"fan(0:p)": failed()}),
    )
    assert sim.phases() == {
        "wf": "Failed",
        "fan": "Failed",
        "fan(0:p)": "Failed",
        "fan(1:q)": "Succeeded",
        "Z": "Omitted",
    }


def test_an_empty_loop_is_skipped() -> None:
    sim = run_to_end(dag("- {name: fan, template: say, withParam: '[]'}\n- {name: Z, template: say, depends: fan}"))
    assert sim.node("fan")["message"] == "Skipped, empty params"
    assert sim.phases() == {"wf": "Succeeded", "fan": "Skipped", "Z": "Succeeded"}


@pytest.mark.parametrize(
    ("tasks", "outcomes", "phase"),
    [
        ("- {name: A, template: say}", {"A": failed()}, "Failed"),
        ("- {name: A, template: say}", {"A": Outcome("Error")}, "Error"),
        ("- {name: A, template: say, continueOn: {failed: true}}", {"A": failed()}, "Succeeded"),
        ("- {name: A, template: say}\n- {name: B, template: say, depends: A.Failed}", {"A": failed()}, "Succeeded"),
        ("- {name: A, template: say}\n- {name: B, template: say, depends: A}", {"A": failed()}, "Failed"),
        ("- {name: A, template: say}\n- {name: B, template: say, depends: A.Failed}", {}, "Succeeded"),
        (
            "- {name: A, template: say, continueOn: {failed: true}}\n- {name: B, template: say, dependencies: [A]}",
            {"A": failed()},
            "Succeeded",
        ),
        ("- {name: A, template: say, when: 'false'}", {}, "Succeeded"),
    ],
)
def test_what_a_dag_comes_to(tasks: str, outcomes: dict[str, Outcome | list[Outcome]], phase: str) -> None:
    sim = run_to_end(dag(tasks), by_node(outcomes))
    assert sim.node("wf")["phase"] == phase
    assert sim.phase == phase


def test_independent_branches_go_on_after_a_failure() -> None:
    tasks = """
- {name: A, template: say}
- {name: B, template: say}
- {name: C, template: say, depends: B}
"""
    sim = run_to_end(dag(tasks), by_node({"A": failed()}))
    assert sim.phases() == {"wf": "Failed", "A": "Failed", "B": "Succeeded", "C": "Succeeded"}


def test_only_the_targets_and_what_they_need() -> None:
    sim = run_to_end(dag(DIAMOND).replace("dag:", "dag:\n    target: B C"))
    assert sim.phases() == {"wf": "Succeeded", "A": "Succeeded", "B": "Succeeded", "C": "Succeeded"}
    assert len(sim.node("wf")["outboundNodes"]) == 2


def test_tasks_see_what_others_came_to() -> None:
    seen: dict[str, str] = {}

    def answer(launch: Launch) -> Outcome:
        name = launch.node["displayName"]
        seen[name] = launch.template["container"]["args"][0]
        return result("3") if name.startswith(("A", "fan")) else parameters(size="7")

    tasks = """
- {name: A, template: say}
- {name: fan, template: say, depends: A, withSequence: {count: "{{tasks.A.outputs.result}}"},
     arguments: {parameters: [{name: m, value: "{{item}}"}]}}
- {name: P, template: say, depends: fan, arguments: {parameters: [{name: m, value: "{{tasks.fan.outputs.result}}"}]}}
- name: Q
  template: say
  depends: P
  arguments:
    parameters:
    - name: m
      value: >-
        {{tasks.P.outputs.parameters.size}} {{tasks.A.status}} {{=asInt(tasks.A.outputs.result) + 1}}
        {{tasks.A.id}} {{tasks.A.name}} {{tasks.A.exitCode}}
"""
    sim = run_to_end(dag(tasks), lambda launch: Outcome("Succeeded", exit_code=0, outputs=answer(launch).outputs))
    assert sim.phase == "Succeeded", sim.phases()
    assert [seen[f"fan({i}:{i})"] for i in range(3)] == ["0", "1", "2"]
    assert seen["P"] == "[3,3,3]"
    assert seen["Q"] == f"7 Succeeded 4 {sim.node('A')['id']} wf.A 0"


def test_outputs_of_a_dag() -> None:
    head = """  outputs:
    parameters:
    - {name: out, valueFrom: {parameter: "{{tasks.A.outputs.result}}"}}
    - {name: sum, valueFrom: {expression: "asInt(tasks['A'].outputs.result) + 1"}}
    artifacts:
    - {name: f, from: "{{tasks.A.outputs.artifacts.f}}"}
"""
    outcome = Outcome("Succeeded", outputs={"result": "3", "artifacts": [{"name": "f", "s3": {"key": "k"}}]})
    sim = run_to_end(dag("- {name: A, template: say}", head=head), by_node({"A": outcome}))
    assert sim.node("wf")["outputs"] == {
        "parameters": [{"name": "out", "value": "3"}, {"name": "sum", "value": "4"}],
        "artifacts": [{"name": "f", "s3": {"key": "k"}}],
    }


def test_outputs_that_cannot_be_made_are_an_error_of_the_workflow() -> None:
    head = '  outputs: {parameters: [{name: out, valueFrom: {parameter: "{{tasks.B.outputs.result}}"}}]}'
    sim = run_to_end(dag("- {name: A, template: say}", head=head))
    assert sim.phase == "Error"
    assert 'error in entry template execution: Unable to resolve: "tasks.B.outputs.result"' in sim.message


def test_skipped_and_omitted_tasks_leave_defaults_or_nothing() -> None:
    more = """
- name: gen
  container: {image: busybox}
  outputs:
    parameters: [{name: with, valueFrom: {path: /w, default: dflt}}, {name: without, valueFrom: {path: /o}}]
"""
    tasks = """
- {name: A, template: gen, when: "1 == 2"}
- {name: O, template: gen, depends: A.Failed}
- {name: B, template: say, depends: "A && O.Omitted",
     arguments: {parameters: [{name: m, value: "{{tasks.A.outputs.parameters.with}}"}]}}
- {name: C, template: say, depends: "A && O.Omitted",
     arguments: {parameters: [{name: m, value: "{{tasks.O.outputs.parameters.without}}"}]}}
- {name: D, template: say, depends: A,
     arguments: {parameters: [{name: m, value: "-{{tasks.A.outputs.parameters.without}}"}]}}
"""
    seen: dict[str, str] = {}

    def answer(launch: Launch) -> Outcome:
        seen[launch.node["displayName"]] = launch.template["container"]["args"][0]
        return succeed(launch)

    sim = run_to_end(dag(tasks, more=more), answer)
    assert seen == {"B": "dflt", "C": "x"}
    assert sim.node("D")["phase"] == "Error"
    assert "output is an absent optional" in sim.node("D")["message"]


@pytest.mark.parametrize(
    ("tasks", "where", "part"),
    [
        ("- {name: A, template: nope}", "A", "task 'wf.A' errored: template nope not found"),
        ('- {name: A, template: say, when: "a =="}', "A", "a =="),
        ("- {name: A, template: say, withParam: hello}", "A", "could not be parsed as a JSON list: hello"),
        ("- {name: A, template: say, depends: B}", "wf", "task 'A' depends on 'B', but there is no such task"),
        ('- {name: A, template: say, depends: "A.Maybe"}', "wf", "task result 'Maybe' for task 'A' is invalid"),
        (
            "- {name: A, template: say, depends: B}\n- {name: B, template: say, depends: A}",
            "wf",
            "these tasks depend on each other in a cycle: A, B",
        ),
        (
            '- {name: A, template: say, arguments: {parameters: [{name: m, value: "{{tasks.Z.ip}}"}]}}',
            "A",
            "failed to resolve {{tasks.Z.ip}}",
        ),
    ],
)
def test_what_cannot_be_is_an_error_that_shows_the_text(tasks: str, where: str, part: str) -> None:
    sim = run_to_end(dag(tasks))
    assert sim.phase == "Error"
    assert sim.node(where)["phase"] == "Error"
    assert part in sim.node(where)["message"]


def test_no_more_side_by_side_than_the_template_allows() -> None:
    tasks = "- {name: fan, template: say, withSequence: {count: 4}}\n- {name: B, template: say}"
    sim = Simulation(dag(tasks, head="  parallelism: 2"))
    sim.step()
    most = 0
    while not sim.run.finished:
        most = max(most, len(sim.open))
        sim.round()
    assert (most, len(sim.launched), sim.phase) == (2, 5, "Succeeded")


def test_a_dag_of_dags() -> None:
    more = """
- name: inner
  dag:
    tasks:
    - {name: x, template: say}
    - {name: y, template: say, depends: x}
"""
    sim = run_to_end(dag("- {name: A, template: inner}\n- {name: B, template: inner, depends: A}", more=more))
    assert sim.phase == "Succeeded"
    assert sim.node("wf.B.x")["boundaryID"] == sim.node("wf.B")["id"]
    assert sim.node("wf.A.y")["children"] == [sim.node("wf.B")["id"]]
    assert sim.node("wf.A")["outboundNodes"] == [sim.node("wf.A.y")["id"]]


def test_fail_fast_of_the_template_says_so() -> None:
    text = dag("- {name: a, template: say}\n- {name: b, template: say}").replace("dag:", "failFast: true\n  dag:")
    sim = run_to_end(text, by_node({"a": failed()}))
    assert (sim.phase, sim.message) == ("Failed", "template has failed or errored children and failFast enabled")


def test_what_runs_shows_the_progress_of_what_is_in_it() -> None:
    inner = "- name: inner\n  steps:\n  - - {name: b, template: say}\n"
    sim = Simulation(dag("- {name: a, template: say}\n- {name: c, template: inner}", more=inner))
    sim.step()
    nodes = {node["displayName"]: node["id"] for node in sim.run.nodes.values()}
    sim.step({nodes["a"]: Outcome("Running", progress="30/100")})
    assert sim.run.refresh_progress() == {nodes["c"], nodes["wf"]}
    assert [sim.run.nodes[nodes[name]]["progress"] for name in ("c", "wf")] == ["0/1", "30/101"]
    assert sim.run.refresh_progress() == set()


def test_a_node_that_was_stored_with_its_progress_stays_as_it_was() -> None:
    """The controller compares it with the node after the next step, for the events of nodes."""
    sim = Simulation(dag("- {name: a, template: say}"))
    sim.step()
    nodes = {node["displayName"]: node["id"] for node in sim.run.nodes.values()}
    sim.run.refresh_progress()
    stored = sim.run.nodes[nodes["wf"]]
    assert nodes["wf"] not in sim.step({nodes["a"]: Outcome("Running")}).changed
    sim.step({nodes["a"]: Outcome("Failed")})
    assert (stored["phase"], sim.run.nodes[nodes["wf"]]["phase"]) == ("Running", "Failed")
