"""Retried and resubmitted workflows, continued by the engine: nothing that succeeded runs again, and all succeed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from muster.kube.objects import Object
from muster.workflows.engine.run import Run
from muster.workflows.model import Launch, Outcome
from muster.workflows.operations.control import resume, set_outputs
from muster.workflows.operations.resubmit import resubmit
from muster.workflows.operations.retry import retry
from tests.workflows.engine.simulation import Simulation

LEAF = """
    - name: work
      inputs: {parameters: [{name: x, value: '0'}]}
      container: {image: busybox, command: [work]}
"""
WORKFLOWS = {
    "steps": """
      - name: main
        steps:
        - - {name: a, template: work}
        - - {name: b, template: work}
          - {name: bad, template: work}
        - - {name: c, template: work}
    """,
    "dag": """
      - name: main
        dag:
          tasks:
          - {name: a, template: work}
          - {name: bad, template: work, depends: a}
          - {name: b, template: work, depends: a}
          - {name: c, template: work, depends: bad && b}
          - {name: d, template: work, depends: c}
    """,
    "tolerated": """
      - name: main
        dag:
          tasks:
          - {name: fine-1, template: work}
          - {name: after, template: work, depends: fine-1.Failed}
          - {name: bad, template: work, depends: after}
          - {name: last, template: work, depends: bad}
    """,
    "continue": """
      - name: main
        steps:
        - - {name: fine-1, template: work, continueOn: {failed: true}}
        - - {name: fine-2, template: work, continueOn: {failed: true}}
          - {name: bad, template: work}
        - - {name: c, template: work}
    """,
    "loop": """
      - name: main
        dag:
          tasks:
          - {name: fan, template: work, withItems: [one, bad, three]}
          - {name: c, template: work, depends: fan}
    """,
    "loop of steps": """
      - name: main
        steps:
        - - {name: fan, template: work, withItems: [one, bad, three]}
        - - {name: c, template: work}
    """,
    "nested": """
      - name: main
        dag:
          tasks:
          - {name: a, template: inner}
          - {name: b, template: outer, depends: a}
          - {name: c, template: work, depends: b}
      - name: outer
        steps:
        - - {name: x, template: work}
        - - {name: bad, template: work}
        - - {name: y, template: work}
      - name: inner
        dag:
          tasks:
          - {name: x, template: work}
    """,
    "attempts": """
      - name: main
        dag:
          tasks:
          - {name: a, template: work}
          - {name: bad, template: stubborn, depends: a}
          - {name: c, template: work, depends: bad}
      - name: stubborn
        retryStrategy: {limit: 1}
        container: {image: busybox, command: [work]}
    """,
    "attempts of a dag": """
      - name: main
        dag:
          tasks:
          - {name: again, template: inner}
          - {name: c, template: work, depends: again}
      - name: inner
        retryStrategy: {limit: 1}
        dag:
          tasks:
          - {name: x, template: work}
          - {name: bad, template: work, depends: x}
    """,
    "hooks": """
      - name: main
        dag:
          tasks:
          - {name: a, template: work, hooks: {exit: {template: work}}}
          - {name: bad, template: work, hooks: {exit: {template: work}}}
    """,
    "alone": """
      - name: main
        container: {image: busybox, command: [bad]}
    """,
    "skipped": """
      - name: main
        steps:
        - - {name: s, template: work, when: '1 == 2'}
          - {name: bad, template: work}
        - - {name: c, template: work, when: '{{steps.bad.status}} == Succeeded'}
    """,
}  # fmt: skip


def workflow(case: str, name: str = "wf", **spec: Any) -> Object:
    templates = yaml.safe_load(WORKFLOWS[case]) + yaml.safe_load(LEAF)
    if case == "alone":
        templates[0]["name"] = "main"
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": "default", "uid": "u-1"},
        "spec": {"entrypoint": "main", "templates": templates, **spec},
    }


def is_bad(launch: Launch) -> bool:
    name = str(launch.node["displayName"])
    return name.startswith("bad") or ":bad)" in name or launch.template["container"]["command"] == ["bad"]


def first_time(launch: Launch) -> Outcome:
    tolerated = str(launch.node["displayName"]).startswith("fine")
    return (
        Outcome("Failed", "no luck", exit_code=1) if is_bad(launch) or tolerated else Outcome("Succeeded", exit_code=0)
    )


def second_time(launch: Launch) -> Outcome:
    return Outcome("Succeeded", exit_code=0)


def joined(simulation: Simulation) -> Object:
    return {**simulation.workflow, "status": {**simulation.run.status, "nodes": dict(simulation.run.nodes)}}


def go_on(found: Object, answer: Callable[[Launch], Outcome]) -> Simulation:
    """Loads a workflow that was written with its nodes, as the controller does."""
    nodes = found["status"]["nodes"]
    status = {name: value for name, value in found["status"].items() if name != "nodes"}
    simulation = Simulation({**found, "status": status}, answer)
    simulation.stored = dict(nodes)
    simulation.run = Run.load(simulation.workflow, simulation.stored, simulation.view)
    for node in simulation.run.unfinished():
        simulation.open[node] = simulation.run.launch(node)
        simulation.launched.append(str(simulation.run.nodes[node]["name"]))
    return simulation.finish()


@pytest.mark.parametrize("case", WORKFLOWS)
def test_a_retried_workflow_goes_on(case: str) -> None:
    first = Simulation(workflow(case, onExit="work"), first_time).finish()
    assert first.phase == "Failed"
    succeeded = {n["name"] for n in first.run.nodes.values() if n["phase"] == "Succeeded" and n["type"] == "Pod"}
    second = go_on(retry(joined(first)).workflow, second_time)
    assert second.phase == "Succeeded", second.message
    again = succeeded & set(second.launched)
    exits = {name for name in succeeded if name == "wf.onExit" or name.endswith("bad.onExit")}
    assert again == exits
    assert "wf.onExit" in second.launched
    fine = [n for n in second.run.nodes.values() if str(n["displayName"]).startswith("fine")]
    assert all(n["phase"] == "Failed" for n in fine)


@pytest.mark.parametrize("case", [case for case in WORKFLOWS if case != "alone"])
def test_a_memoized_one_does_too(case: str) -> None:
    first = Simulation(workflow(case), first_time).finish()
    succeeded = {n["name"] for n in first.run.nodes.values() if n["phase"] == "Succeeded" and n["type"] == "Pod"}
    new = resubmit(joined(first), memoized=True, name="again")
    new["metadata"]["uid"] = "u-2"
    second = go_on(new, second_time)
    assert second.phase == "Succeeded", second.message
    before = {"again" + str(name).removeprefix("wf") for name in succeeded if not str(name).endswith("bad.onExit")}
    assert not before & set(second.launched)


@pytest.mark.parametrize("case", WORKFLOWS)
def test_a_second_failure_can_be_retried_as_well(case: str) -> None:
    simulation = Simulation(workflow(case), first_time).finish()
    for _ in range(2):
        simulation = go_on(retry(joined(simulation)).workflow, first_time)
        assert simulation.phase == "Failed"
    assert go_on(retry(joined(simulation)).workflow, second_time).phase == "Succeeded"


def test_what_failed_is_all_an_exit_handler_runs_again_for() -> None:
    def only_exit_fails(launch: Launch) -> Outcome:
        return Outcome("Failed" if launch.node["name"] == "wf.onExit" else "Succeeded", exit_code=0)

    good = workflow("dag", onExit="work")
    first = Simulation(good, only_exit_fails).finish()
    assert first.phase in ("Failed", "Error")
    second = go_on(retry(joined(first)).workflow, second_time)
    assert (second.phase, second.launched) == ("Succeeded", ["wf.onExit"])


def test_a_daemon_is_there_again() -> None:
    templates = """
      - name: main
        steps:
        - - {name: server, template: serve}
        - - {name: a, template: work}
          - {name: bad, template: work}
      - name: serve
        daemon: true
        container: {image: busybox, command: [serve]}
    """

    def answer(launch: Launch) -> Outcome:
        if launch.node["displayName"] == "server":
            return Outcome("Running", ready=True, address="127.0.0.1")
        return first_time(launch)

    def better(launch: Launch) -> Outcome:
        return answer(launch) if launch.node["displayName"] == "server" else second_time(launch)

    found = workflow("steps")
    found["spec"]["templates"] = yaml.safe_load(templates) + yaml.safe_load(LEAF)
    first = Simulation(found, answer).finish()
    assert first.phase == "Failed"
    second = go_on(retry(joined(first)).workflow, better)
    assert second.phase == "Succeeded", second.message
    assert second.launched == ["wf[0].server", "wf[1].bad"]


def test_other_parameters_for_what_runs_again() -> None:
    found = workflow("loop", arguments={"parameters": [{"name": "list", "value": '["bad", "two"]'}]})
    task = found["spec"]["templates"][0]["dag"]["tasks"][0]
    del task["withItems"]
    task["withParam"] = "{{workflow.parameters.list}}"
    first = Simulation(found, first_time).finish()
    second = go_on(retry(joined(first), parameters=['list=["three", "four"]']).workflow, second_time)
    assert second.phase == "Succeeded", second.message
    assert second.launched == ["wf.fan(0:three)", "wf.fan(1:four)", "wf.c"]


SUSPEND = """
  - name: main
    steps:
    - - {name: ask, template: ask}
    - - name: tell
        template: work
        arguments: {parameters: [{name: x, value: '{{steps.ask.outputs.parameters.answer}}'}]}
  - name: ask
    suspend: {}
    outputs: {parameters: [{name: answer, valueFrom: {supplied: {}, default: 'no'}}]}
"""


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda found: resume(found), "no"),
        (lambda found: resume(found, "displayName=ask"), "no"),
        (lambda found: set_outputs(found, "displayName=ask", outputs={"answer": "yes"}, phase="Succeeded"), "yes"),
    ],
)
def test_what_waits_for_somebody_goes_on(operation: Callable[[Object], Object], expected: str) -> None:
    found = workflow("steps")
    found["spec"]["templates"] = yaml.safe_load(SUSPEND) + yaml.safe_load(LEAF)
    waiting = Simulation(found).finish()
    assert waiting.phase == "Running"
    after = go_on(operation(joined(waiting)), second_time)
    assert after.phase == "Succeeded", after.message
    assert after.node("tell")["inputs"]["parameters"][0]["value"] == expected
