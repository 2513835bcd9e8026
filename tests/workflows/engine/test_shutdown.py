from __future__ import annotations

from datetime import timedelta

import pytest

from muster.workflows.model import Outcome
from tests.workflows.engine.simulation import START, Simulation, by_node, failed, run_to_end

TWO = """
entrypoint: main
onExit: say
templates:
- name: main
  steps: [[{name: a, template: say}, {name: w, template: wait}], [{name: b, template: say}]]
- {name: wait, suspend: {}}
- {name: say, container: {image: busybox}}
"""


def shut_down(sim: Simulation, strategy: str) -> None:
    sim.workflow = {**sim.workflow, "spec": {**sim.workflow["spec"], "shutdown": strategy}}
    sim.run.update(sim.workflow)
    sim.step()


def running(text: str) -> Simulation:
    """Reports everything that was launched as Running."""
    sim = Simulation(text, lambda launch: Outcome("Running"))
    sim.step()
    sim.round()
    sim.answer = lambda launch: Outcome("Succeeded")
    return sim


def test_stop_ends_what_runs_and_then_runs_the_exit_handler() -> None:
    sim = running(TWO)
    shut_down(sim, "Stop")
    assert sim.stopped == {sim.node("a")["id"]: False}
    assert sim.node("w")["phase"] == "Failed"
    assert sim.node("w")["message"] == "Stopped with strategy 'Stop'"
    assert sim.node("a")["phase"] == "Running"
    sim.finish()
    assert sim.node("a")["message"] == "workflow shutdown with strategy:  Stop"
    assert sim.launched == ["wf[0].a", "wf.onExit"]
    assert (sim.phase, sim.message) == ("Failed", "Stopped with strategy 'Stop'")
    assert sim.node("wf.onExit")["phase"] == "Succeeded"


def test_terminate_ends_everything() -> None:
    sim = running(TWO)
    shut_down(sim, "Terminate")
    assert sim.stopped == {sim.node("a")["id"]: True}
    sim.finish()
    assert sim.launched == ["wf[0].a"]
    assert (sim.phase, sim.message) == ("Failed", "Stopped with strategy 'Terminate'")


def test_terminate_ends_an_exit_handler_that_stop_let_run() -> None:
    sim = running(TWO)
    shut_down(sim, "Stop")
    sim.round()
    assert "wf.onExit" in sim.launched
    handler = sim.node("wf.onExit")["id"]
    sim.step({handler: Outcome("Running")})
    shut_down(sim, "Terminate")
    assert sim.stopped[handler] is True
    assert sim.finish().phase == "Failed"


def test_what_has_not_begun_to_run_is_not_waited_for() -> None:
    sim = Simulation(TWO)
    sim.step()
    shut_down(sim, "Stop")
    assert sim.node("a")["phase"] == "Failed"
    assert sim.run.launch(sim.node("a")["id"]).pod_name == sim.open[sim.node("a")["id"]].pod_name


@pytest.mark.parametrize("strategy", ["Stop", "Terminate"])
def test_a_dag_begins_nothing_any_more(strategy: str) -> None:
    sim = running(
        """
entrypoint: main
templates:
- name: main
  dag:
    tasks:
    - {name: A, template: say}
    - {name: B, template: say, depends: A.Failed}
- {name: say, container: {image: busybox}}
"""
    )
    shut_down(sim, strategy)
    sim.finish()
    assert sim.phases() == {"wf": "Failed", "A": "Failed"}
    assert sim.phase == "Failed"


def test_nothing_is_tried_again() -> None:
    text = "entrypoint: main\ntemplates:\n- {name: main, retryStrategy: {limit: 5}, container: {image: busybox}}"
    sim = running(text)
    shut_down(sim, "Stop")
    sim.finish()
    assert len(sim.launched) == 1
    assert sim.node("wf")["message"] == "Stopped with strategy 'Stop'"


def test_those_who_wait_to_try_again_stop_waiting() -> None:
    text = (
        "entrypoint: main\ntemplates:\n"
        "- {name: main, retryStrategy: {limit: 5, backoff: {duration: 1h}}, container: {image: busybox}}"
    )
    sim = Simulation(text, lambda launch: failed())
    sim.step()
    sim.round()
    shut_down(sim, "Stop")
    assert (sim.phase, len(sim.launched)) == ("Failed", 1)


def test_a_workflow_has_no_more_time_than_it_is_given() -> None:
    sim = running(TWO.replace("onExit: say", "onExit: say\nactiveDeadlineSeconds: 30"))
    assert sim.wake == START + timedelta(seconds=30)
    sim.view.now = START + timedelta(seconds=30)
    sim.step()
    assert sim.stopped == {sim.node("a")["id"]: False}
    assert sim.node("w")["message"] == "Step exceeded its deadline"
    sim.finish()
    assert sim.node("a")["message"] == "Step exceeded its deadline"
    assert sim.node("wf.onExit")["phase"] == "Succeeded"
    assert sim.phase == "Failed"
    assert "b" not in sim.phases()


def test_a_shorter_time_may_be_set_later() -> None:
    sim = running(TWO)
    sim.workflow = {**sim.workflow, "spec": {**sim.workflow["spec"], "activeDeadlineSeconds": 0}}
    sim.run.update(sim.workflow)
    sim.step()
    assert sim.stopped
    assert sim.finish().phase == "Failed"


def test_what_ends_well_in_spite_of_being_stopped_has_ended_well() -> None:
    sim = running("entrypoint: main\ntemplates:\n- {name: main, container: {image: busybox}}")
    shut_down(sim, "Stop")
    sim.step({"wf": Outcome("Succeeded", exit_code=0)})
    assert sim.phase == "Succeeded"


def test_a_workflow_that_is_over_takes_no_more_steps() -> None:
    sim = run_to_end("entrypoint: main\ntemplates:\n- {name: main, container: {image: busybox}}", by_node({}))
    before = dict(sim.run.nodes)
    actions = sim.step({"wf": failed()})
    assert (actions.changed, actions.launch, actions.status, actions.wake) == (set(), [], None, None)
    assert sim.run.nodes == before
