"""A server may end at any moment: a run that is loaded from the store continues as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from muster.workflows.model import Actions, Launch, Outcome
from tests.workflows.engine.simulation import FakeView, Simulation

SAY = """
- name: say
  inputs: {parameters: [{name: m, default: x}]}
  container: {image: busybox, args: ["{{inputs.parameters.m}}"]}
"""
WORKFLOWS = {
    "steps": """
entrypoint: main
templates:
- name: main
  steps:
  - - {name: a, template: say, arguments: {parameters: [{name: m, value: "{{workflow.name}}"}]}}
    - {name: b, template: say, withItems: [1, 2], arguments: {parameters: [{name: m, value: "{{item}}"}]}}
  - - {name: c, template: say, when: "{{steps.a.outputs.result}} == r1", onExit: say}
    - {name: d, template: say, when: "{{steps.a.outputs.result}} == other"}
  - - {name: e, template: inner, arguments: {parameters: [{name: m, value: "{{steps.b.outputs.result}}"}]}}
- name: inner
  inputs: {parameters: [{name: m}]}
  steps: [[{name: x, template: say, arguments: {parameters: [{name: m, value: "{{inputs.parameters.m}}"}]}}]]
  outputs: {parameters: [{name: o, globalName: total, valueFrom: {parameter: "{{steps.x.outputs.result}}"}}]}
""",
    "dag": """
entrypoint: main
templates:
- name: main
  dag:
    tasks:
    - {name: A, template: say}
    - {name: fan, template: say, depends: A, withParam: '["p", "q", "r"]',
       arguments: {parameters: [{name: m, value: "{{item}}"}]}}
    - {name: B, template: inner, depends: A.Succeeded}
    - {name: C, template: say, depends: B.Failed}
    - {name: D, template: say, depends: "(fan && B) || C",
       arguments: {parameters: [{name: m, value: "{{tasks.fan.outputs.result}}"}]}}
- name: inner
  dag:
    tasks:
    - {name: x, template: say}
    - {name: y, template: say, depends: x, onExit: say}
""",
    "retries": """
entrypoint: main
templates:
- name: main
  steps: [[{name: flaky, template: flaky}, {name: group, template: group}], [{name: z, template: say}]]
- {name: flaky, retryStrategy: {limit: 3, backoff: {duration: 10s, factor: 2}}, container: {image: busybox}}
- name: group
  retryStrategy: {limit: 2}
  steps: [[{name: x, template: say}], [{name: flaky-2, template: say}]]
""",
    "limits": """
entrypoint: main
parallelism: 2
templates:
- name: main
  parallelism: 3
  dag:
    tasks:
    - {name: fan, template: inner, withSequence: {count: 4}}
    - {name: Z, template: say, depends: fan.AnySucceeded}
- name: inner
  steps: [[{name: x, template: say}, {name: y, template: say}]]
""",
    "locks": """
entrypoint: main
synchronization: {mutex: {name: whole}}
templates:
- name: main
  steps: [[{name: a, template: locked, withItems: [1, 2, 3]}]]
- name: locked
  synchronization: {mutex: {name: gpu}}
  retryStrategy: {limit: 1}
  steps: [[{name: x, template: say}]]
""",
    "hooks": """
entrypoint: main
onExit: bye
hooks: {running: {template: say, expression: workflow.status == "Running"}}
templates:
- name: main
  dag:
    tasks:
    - name: A
      template: say
      hooks:
        up: {template: say, expression: tasks.A.status == "Running"}
        exit: {template: say, arguments: {parameters: [{name: m, value: "{{tasks.A.outputs.result}}"}]}}
    - {name: fail, template: say, depends: A, withItems: [1, 2], onExit: say, continueOn: {failed: true}}
    - {name: B, template: say, depends: fail || fail.Failed}
- name: bye
  container: {image: busybox, args: ["{{workflow.status}} {{workflow.failures}}"]}
""",
    "waiting": """
entrypoint: main
activeDeadlineSeconds: 3600
templates:
- name: main
  steps:
  - - {name: db, template: db}
  - - {name: pause, template: pause}
    - {name: use, template: say, arguments: {parameters: [{name: m, value: "{{steps.db.ip}}"}]}}
  - - {name: memo, template: memo, withItems: [1, 2]}
- {name: db, daemon: true, container: {image: db}}
- {name: pause, suspend: {duration: 30s}}
- name: memo
  memoize: {key: k, cache: {configMap: {name: cache}}}
  container: {image: busybox}
""",
    "failing": """
entrypoint: main
templates:
- name: main
  failFast: true
  parallelism: 1
  steps: [[{name: a, template: say}, {name: fail, template: say}, {name: c, template: say}]]
""",
    "nested": """
entrypoint: main
templates:
- name: main
  inputs: {parameters: [{name: depth, value: "3"}]}
  steps:
  - - name: down
      template: main
      when: "{{inputs.parameters.depth}} > 0"
      arguments: {parameters: [{name: depth, value: "{{=string(asInt(inputs.parameters.depth) - 1)}}"}]}
    - name: set
      inline: {containerSet: {containers: [{name: main}, {name: second, dependencies: [main]}]}}
""",
}


def answer(launch: Launch) -> Outcome:
    """Depends only on the node, so it is the same in every run."""
    name = launch.node["displayName"]
    if launch.template.get("daemon"):
        return Outcome("Running", ready=True, address="10.0.0.9")
    if launch.node["phase"] == "Pending" and "A" in name:
        return Outcome("Running", host="node-1")
    if "fail" in name or ("flaky" in name and "(2)" not in launch.node["name"] and "(1)" not in launch.node["name"]):
        return Outcome("Failed", "boom", exit_code=1)
    outputs: Any = {"result": "3"} if "(" in name else {"result": "r1"}
    return Outcome("Succeeded", exit_code=0, outputs=outputs if launch.wants_result else {}, progress="1/1")


def undisturbed(text: str, limit: int = 500) -> Simulation:
    return Simulation(text + SAY, answer, view=FakeView()).finish(limit)


def same(one: Simulation, other: Simulation) -> None:
    assert _sorted(one.run.nodes) == _sorted(other.run.nodes)
    assert one.run.status == other.run.status
    assert one.launched == other.launched


def _sorted(nodes: Any) -> Any:
    return json.loads(json.dumps(nodes, sort_keys=True))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_workflow_ends(name: str) -> None:
    sim = undisturbed(WORKFLOWS[name])
    assert sim.phase == ("Failed" if name == "failing" else "Succeeded"), (sim.message, sim.names())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_restart_before_every_step_changes_nothing(name: str) -> None:
    disturbed = Simulation(WORKFLOWS[name] + SAY, answer, view=FakeView(), reload=True).finish(500)
    same(undisturbed(WORKFLOWS[name]), disturbed)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_restart_at_any_step_changes_nothing(name: str) -> None:
    expected = undisturbed(WORKFLOWS[name])
    for moment in range(1, expected.steps + 1):
        sim = Simulation(WORKFLOWS[name] + SAY, answer, view=FakeView())
        sim.step()
        while not sim.run.finished and sim.steps < expected.steps + 5:
            if sim.steps == moment:
                sim.restart()
            sim.round()
        same(expected, sim)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_status_that_was_not_written_in_time_changes_no_node(name: str) -> None:
    """Nodes are stored at once, the status of the workflow only sometimes."""
    expected = undisturbed(WORKFLOWS[name])
    sim = Simulation(WORKFLOWS[name] + SAY, answer, view=FakeView())
    statuses: list[Any] = [None, None]
    sim.step()
    while not sim.run.finished and sim.steps < expected.steps + 5:
        statuses.append(sim.workflow.get("status"))
        old = statuses[-2]
        if old is not None and sim.steps % 2:
            current = sim.workflow
            sim.workflow = {**current, "status": old}
            sim.restart()
        sim.round()
    assert _sorted(expected.run.nodes) == _sorted(sim.run.nodes)
    assert expected.launched == sim.launched


@pytest.mark.parametrize("name", WORKFLOWS)
def test_hearing_of_an_outcome_twice_changes_nothing(name: str) -> None:
    sim = _Forgetful(WORKFLOWS[name] + SAY, answer, view=FakeView())
    sim.finish(500)
    same(undisturbed(WORKFLOWS[name]), sim)


class _Forgetful(Simulation):
    """Repeats every report each time."""

    told: Mapping[str, Outcome] = {}

    def step(self, outcomes: Mapping[str, Outcome] | None = None) -> Actions:
        self.told = {**self.told, **{n: o for n, o in (outcomes or {}).items() if o.phase in ("Succeeded", "Failed")}}
        return super().step({**self.told, **(outcomes or {})})
