from __future__ import annotations

from datetime import timedelta

import pytest

from tests.workflows.engine.simulation import START, Simulation, run_to_end

WAIT = """
entrypoint: main
templates:
- name: main
  steps: [[{name: wait, template: wait}], [{name: go, template: go, arguments: {parameters: [{name: m, value: "M"}]}}]]
- name: wait
  suspend: {duration: "20"}
- {name: go, inputs: {parameters: [{name: m}]}, container: {image: busybox, args: ["{{inputs.parameters.m}}"]}}
"""
ASK = WAIT.replace(
    '{duration: "20"}', "{}\n  outputs: {parameters: [{name: answer, valueFrom: {supplied: {}}}]}"
).replace('"M"', '"{{steps.wait.outputs.parameters.answer}}"')


def test_a_pause_is_over_after_its_time() -> None:
    sim = Simulation(WAIT)
    sim.step()
    node = sim.node("wait")
    assert (node["type"], node["phase"], node["progress"]) == ("Suspend", "Running", "0/1")
    assert sim.wake == START + timedelta(seconds=20)
    sim.view.now += timedelta(seconds=19)
    sim.step()
    assert sim.launched == []
    sim.view.now += timedelta(seconds=1)
    sim.step()
    assert sim.node("wait")["phase"] == "Succeeded"
    assert sim.launched == ["wf[1].go"]


def test_without_a_time_somebody_has_to_resume_it() -> None:
    sim = Simulation(ASK)
    sim.step()
    assert sim.wake is None
    assert sim.node("wait")["outputs"] == {"parameters": [{"name": "answer", "valueFrom": {"supplied": {}}}]}
    node = sim.node("wait").copy()
    node["phase"], node["outputs"] = "Succeeded", {"parameters": [{"name": "answer", "value": "yes"}]}
    sim.stored[node["id"]] = node
    sim.restart()
    sim.step()
    assert sim.open[sim.node("go")["id"]].template["container"]["args"] == ["yes"]


@pytest.mark.parametrize(
    ("supplied", "phase", "seen"),
    [
        ("{supplied: {}, default: late}", "Succeeded", "late"),
        ("{supplied: {}}", "Failed", ""),
    ],
)
def test_nobody_answers_in_time(supplied: str, phase: str, seen: str) -> None:
    sim = Simulation(ASK.replace("{supplied: {}}", supplied).replace("suspend: {}", 'suspend: {duration: "5"}'))
    sim.step()
    sim.round()
    if seen:
        assert sim.open[sim.node("go")["id"]].template["container"]["args"] == [seen]
    sim.finish()
    assert sim.phase == phase
    if not seen:
        assert "raw output parameter 'answer' has not been set and does not have a default value" in sim.message


def test_an_input_may_offer_choices() -> None:
    text = """
entrypoint: main
templates:
- name: main
  inputs: {parameters: [{name: deploy, value: '{"enum": ["yes", "no"]}'}]}
  suspend: {}
"""
    sim = Simulation(text)
    sim.step()
    (parameter,) = sim.node("wf")["inputs"]["parameters"]
    assert (parameter["enum"], parameter["default"]) == (["yes", "no"], "yes")


def test_a_time_that_is_none_is_an_error() -> None:
    sim = run_to_end(WAIT.replace('"20"', "soon"))
    assert sim.node("wait")["phase"] == "Error"
    assert "suspend.duration" in sim.node("wait")["message"]


def test_a_suspended_workflow_begins_nothing_but_hears_of_what_runs() -> None:
    text = """
entrypoint: main
templates:
- name: main
  steps: [[{name: a, template: go}], [{name: b, template: go}]]
- {name: go, container: {image: busybox}}
"""
    sim = Simulation(text)
    sim.step()
    sim.workflow = {**sim.workflow, "spec": {**sim.workflow["spec"], "suspend": True}}
    sim.run.update(sim.workflow)
    sim.round()
    assert sim.phases() == {"wf": "Running", "[0]": "Running", "a": "Succeeded"}
    sim.restart()
    sim.step()
    assert sim.launched == ["wf[0].a"]
    sim.workflow = {**sim.workflow, "spec": {k: v for k, v in sim.workflow["spec"].items() if k != "suspend"}}
    sim.run.update(sim.workflow)
    assert sim.finish().phase == "Succeeded"
