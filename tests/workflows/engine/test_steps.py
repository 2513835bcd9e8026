from __future__ import annotations

import pytest

from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import Simulation, by_node, failed, parameters, result, run_to_end, succeed

SAY = """
- name: say
  inputs: {parameters: [{name: m, default: x}]}
  container: {image: busybox, args: ["{{inputs.parameters.m}}"]}
"""


def steps(text: str, rest: str = "", more: str = "") -> str:
    """Returns a workflow whose entrypoint has these steps."""
    body = "\n".join("    " + line for line in text.strip().splitlines())
    return f"entrypoint: main\n{rest}\ntemplates:\n- name: main\n  steps:\n{body}\n{more}{SAY}"


def says(launches: dict[str, str]) -> object:
    def answer(launch: Launch) -> Outcome:
        launches[launch.node["displayName"]] = launch.template["container"]["args"][0]
        return succeed(launch)

    return answer


def test_groups_run_one_after_the_other() -> None:
    sim = Simulation(steps("- - {name: a, template: say}\n  - {name: b, template: say}\n- - {name: c, template: say}"))
    sim.step()
    assert sim.launched == ["wf[0].a", "wf[0].b"]
    sim.round()
    assert sim.launched == ["wf[0].a", "wf[0].b", "wf[1].c"]
    sim.round()
    assert sim.phase == "Succeeded"
    assert set(sim.phases().values()) == {"Succeeded"}


def test_the_tree_is_drawn_as_argo_draws_it() -> None:
    sim = run_to_end(steps("- - {name: a, template: say}\n  - {name: b, template: say}\n- - {name: c, template: say}"))
    ids = {n["displayName"]: n["id"] for n in sim.run.nodes.values()}
    assert sim.node("wf")["type"] == "Steps"
    assert sim.node("wf")["children"] == [ids["[0]"]]
    assert sim.node("wf")["outboundNodes"] == [ids["c"]]
    assert sim.node("[0]")["children"] == [ids["a"], ids["b"]]
    assert sim.node("a")["children"] == sim.node("b")["children"] == [ids["[1]"]]
    assert sim.node("[1]")["children"] == [ids["c"]]
    assert {n["boundaryID"] for n in sim.run.nodes.values() if n["name"] != "wf"} == {"wf"}
    assert sim.node("[0]")["nodeFlag"] == {}
    assert "nodeFlag" not in sim.node("a")
    assert sim.node("a")["templateName"] == "say"
    assert sim.node("a")["templateScope"] == "local/wf"
    assert sim.node("a")["inputs"] == {"parameters": [{"name": "m", "default": "x", "value": "x"}]}
    assert sim.node("wf")["progress"] == sim.run.status["progress"] == "3/3"


def test_a_failed_step_fails_its_group_and_the_rest_does_not_begin() -> None:
    sim = run_to_end(
        steps("- - {name: a, template: say}\n  - {name: b, template: say}\n- - {name: c, template: say}"),
        by_node({"a": failed("boom")}),
    )
    child = sim.node("a")["id"]
    assert sim.phases() == {"wf": "Failed", "[0]": "Failed", "a": "Failed", "b": "Succeeded"}
    assert sim.node("[0]")["message"] == sim.node("wf")["message"] == sim.message == f"child '{child}' failed"
    assert sim.node("a")["message"] == "boom"
    assert sim.phase == "Failed"


@pytest.mark.parametrize(
    ("continue_on", "outcome", "phase"),
    [
        ("{failed: true}", failed(), "Succeeded"),
        ("{error: true}", failed(), "Failed"),
        ("{error: true}", Outcome("Error", "no image"), "Succeeded"),
        ("{failed: true, error: true}", Outcome("Error"), "Succeeded"),
    ],
)
def test_what_is_tolerated(continue_on: str, outcome: Outcome, phase: str) -> None:
    text = steps(f"- - {{name: a, template: say, continueOn: {continue_on}}}\n- - {{name: b, template: say}}")
    assert run_to_end(text, by_node({"a": outcome})).phase == phase


@pytest.mark.parametrize(("answer", "ran"), [("heads", "Succeeded"), ("tails", "Skipped")])
def test_conditions_look_at_what_came_before(answer: str, ran: str) -> None:
    text = steps(
        """
- - {name: flip, template: say}
- - {name: heads, template: say, when: "{{steps.flip.outputs.result}} == heads"}
"""
    )
    sim = run_to_end(text, by_node({"flip": result(answer)}))
    assert sim.phase == "Succeeded"
    node = sim.node("heads")
    assert node["phase"] == ran
    if ran == "Skipped":
        assert node["type"] == "Skipped"
        assert node["message"] == "when 'tails == heads' evaluated false"
        assert node["finishedAt"] == node["startedAt"]


def test_results_are_collected_only_where_somebody_reads_them() -> None:
    wanted: dict[str, bool] = {}

    def answer(launch: Launch) -> Outcome:
        wanted[launch.node["displayName"]] = launch.wants_result
        return result("x")

    run_to_end(
        steps(
            """
- - {name: a, template: say}
  - {name: b, template: say}
- - {name: c, template: say, arguments: {parameters: [{name: m, value: "{{steps.a.outputs.result}}"}]}}
"""
        ),
        answer,
    )
    assert wanted == {"a": True, "b": False, "c": False}


def test_loops_and_what_they_come_to() -> None:
    seen: dict[str, str] = {}

    def answer(launch: Launch) -> Outcome:
        seen[launch.node["displayName"]] = launch.template["container"]["args"][0]
        return parameters(size=launch.template["container"]["args"][0] * 2)

    sim = run_to_end(
        steps(
            """
- - {name: a, template: say, withItems: [p, q], arguments: {parameters: [{name: m, value: "{{item}}"}]}}
- - {name: b, template: say, arguments: {parameters: [{name: m, value: "{{steps.a.outputs.parameters.size}}"}]}}
  - {name: c, template: say, arguments: {parameters: [{name: m, value: "{{steps.a.outputs.parameters}}"}]}}
  - {name: d, template: say, withParam: "{{steps.a.outputs.parameters.size}}",
       arguments: {parameters: [{name: m, value: "{{item}}"}]}}
"""
        ),
        answer,
    )
    assert sim.phase == "Succeeded"
    assert seen["b"] == '["pp","qq"]'
    assert seen["c"] == '[{"size":"pp"},{"size":"qq"}]'
    assert (seen["d(0:pp)"], seen["d(1:qq)"]) == ("pp", "qq")
    assert sim.node("wf[0].a(1:q)")["id"] in sim.node("[0]")["children"]


def test_an_empty_loop_is_skipped() -> None:
    sim = run_to_end(steps("- - {name: a, template: say, withParam: '[]'}\n- - {name: b, template: say}"))
    assert sim.node("a")["message"] == "Skipped, empty params"
    assert sim.phases() == {"wf": "Succeeded", "[0]": "Succeeded", "a": "Skipped", "[1]": "Succeeded", "b": "Succeeded"}


def test_no_more_side_by_side_than_the_template_allows() -> None:
    text = steps("- - {name: a, template: say, withSequence: {count: 5}}").replace("steps:", "parallelism: 2\n  steps:")
    sim = Simulation(text)
    sim.step()
    assert len(sim.open) == 2
    first = next(iter(sim.open))
    del sim.open[first]
    sim.step({first: Outcome("Succeeded")})
    assert len(sim.open) == 2
    assert sim.finish().phase == "Succeeded"
    assert len(sim.launched) == 5


def test_no_more_pods_than_the_workflow_allows() -> None:
    text = steps(
        "- - {name: a, template: inner}\n  - {name: b, template: inner}",
        rest="parallelism: 1",
        more="- name: inner\n  steps:\n  - - {name: x, template: say}\n    - {name: y, template: say}\n",
    )
    sim = Simulation(text)
    sim.step()
    most = 0
    while not sim.run.finished:
        most = max(most, len(sim.open))
        sim.round()
    assert most == 1
    assert sim.phase == "Succeeded"
    assert len(sim.launched) == 4


def test_a_raised_limit_lets_more_begin() -> None:
    sim = Simulation(steps("- - {name: a, template: say, withSequence: {count: 5}}", rest="parallelism: 1"))
    sim.step()
    sim.workflow = {**sim.workflow, "spec": {**sim.workflow["spec"], "parallelism": 3}}
    sim.run.update(sim.workflow)
    sim.step()
    assert len(sim.open) == 3


def test_fail_fast_leaves_the_rest_of_a_group() -> None:
    text = steps("- - {name: a, template: say, withSequence: {count: 3}}").replace(
        "steps:", "parallelism: 1\n  failFast: true\n  steps:"
    )
    sim = run_to_end(text, by_node({"a(0:0)": failed()}))
    assert sim.phase == "Failed"
    assert sim.launched == ["wf[0].a(0:0)"]
    assert sim.message == "template has failed or errored children and failFast enabled"


def test_fail_fast_says_so_even_if_nothing_is_left_out() -> None:
    text = steps("- - {name: a, template: say}\n  - {name: b, template: say}")
    sim = run_to_end(text.replace("steps:", "failFast: true\n  steps:"), by_node({"a": failed()}))
    assert (sim.phase, sim.message) == ("Failed", "template has failed or errored children and failFast enabled")


def test_outputs_of_a_template_come_from_its_steps() -> None:
    text = steps(
        "- - {name: a, template: inner}\n- - {name: b, template: say, arguments: {parameters: [{name: m, value: "
        '"{{steps.a.outputs.parameters.out}}"}]}}',
        more="""
- name: inner
  steps:
  - - {name: x, template: say}
  outputs: {parameters: [{name: out, valueFrom: {parameter: "{{steps.x.outputs.result}}"}}]}
""",
    )
    seen: dict[str, str] = {}

    def answer(launch: Launch) -> Outcome:
        seen[launch.node["displayName"]] = launch.template["container"]["args"][0]
        return result("42")

    sim = run_to_end(text, answer)
    assert seen["b"] == "42"
    assert sim.node("wf[0].a")["outputs"] == {"parameters": [{"name": "out", "value": "42"}]}


def test_skipped_steps_leave_defaults_or_nothing() -> None:
    text = steps(
        """
- - {name: a, template: gen, when: "false"}
- - {name: b, template: say, arguments: {parameters: [{name: m, value: "{{steps.a.outputs.parameters.with}}"}]}}
  - {name: c, template: say, arguments: {parameters: [{name: m, value: "{{steps.a.outputs.parameters.without}}"}]}}
  - {name: d, template: say,
       arguments: {parameters: [{name: m, value: "{{=steps.a.outputs.parameters.without ?? 'no'}}"}]}}
""",
        more="""
- name: gen
  container: {image: busybox}
  outputs:
    parameters: [{name: with, valueFrom: {path: /w, default: dflt}}, {name: without, valueFrom: {path: /o}}]
""",
    )
    seen: dict[str, str] = {}

    def answer(launch: Launch) -> Outcome:
        seen[launch.node["displayName"]] = launch.template["container"]["args"][0]
        return succeed(launch)

    assert run_to_end(text, answer).phase == "Succeeded"
    assert seen == {"b": "dflt", "c": "x", "d": "no"}


@pytest.mark.parametrize(
    ("line", "where", "parts"),
    [
        ('{name: b, template: say, when: "a == "}', "[0]", ["failed to resolve references", "a == "]),
        ('{name: b, template: say, when: "{{item}} = 1", withItems: [1]}', "b(0:1)", ["1 = 1", "^"]),
        ("{name: b, template: nope}", "b", ["template nope not found"]),
        ("{name: b, template: say, withParam: hello}", "[0]", ["could not be parsed as a JSON list: hello"]),
        (
            '{name: b, template: say, arguments: {parameters: [{name: m, value: "{{steps.x.ip}}"}]}}',
            "[0]",
            ["failed to resolve {{steps.x.ip}}", "^"],
        ),
    ],
)
def test_what_cannot_be_is_an_error_that_shows_the_text(line: str, where: str, parts: list[str]) -> None:
    sim = run_to_end(steps(f"- - {line}\n- - {{name: z, template: say}}"))
    node = sim.node(where)
    assert node["phase"] == "Error"
    for part in parts:
        assert part in node["message"]
        assert part in sim.message
    assert sim.phase == "Failed"
    assert "z" not in sim.phases()


def test_an_expression_that_cannot_be_read_is_an_error_of_the_template_it_is_in() -> None:
    sim = run_to_end(steps('- - {name: b, template: say, arguments: {parameters: [{name: m, value: "{{= 1 + }}"}]}}'))
    assert sim.phase == "Error"
    assert sim.message.startswith("error in entry template execution: ")
    assert "{{= 1 + }}" in sim.node("wf")["message"]
    assert "^" in sim.node("wf")["message"]


def test_a_step_that_cannot_be_run_ends_its_group_but_what_runs_goes_on() -> None:
    sim = Simulation(steps("- - {name: a, template: say}\n  - {name: b, template: nope}\n  - {name: c, template: say}"))
    sim.step()
    assert sim.phases()["[0]"] == "Running"
    sim.finish()
    assert sim.phases() == {"wf": "Failed", "[0]": "Error", "a": "Succeeded", "b": "Error"}
    assert sim.message == "step group deemed errored due to child wf[0].b error: template nope not found"


def test_templates_may_use_themselves_until_it_gets_too_deep() -> None:
    text = """
entrypoint: main
templates:
- name: main
  steps: [[{name: again, template: main}]]
"""
    sim = run_to_end(text)
    assert sim.phase == "Failed"
    deepest = max(sim.run.nodes.values(), key=lambda n: len(n["name"]))
    assert "Maximum recursion depth exceeded" in deepest["message"]
    assert len(sim.run.nodes) == 2 * 99 + 1


def test_inline_templates() -> None:
    sim = run_to_end(
        """
entrypoint: main
templates:
- name: main
  inputs: {parameters: [{name: w, value: view}]}
  steps:
  - - name: a
      inline: {container: {image: busybox, args: ["{{inputs.parameters.w}}"]}}
    - name: b
      withItems: [1]
      inline: {container: {image: busybox, args: ["{{item}}"]}}
"""
    )
    assert sim.phase == "Succeeded"
    assert "templateName" not in sim.node("a")
    assert [sim.run.nodes[n]["displayName"] for n in sim.node("[0]")["children"]] == ["a", "b(0:1)"]
