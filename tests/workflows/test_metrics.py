"""With the engine: each end counts once, even if a run is reloaded in between."""

from __future__ import annotations

from typing import Any

import yaml

from muster.kube.objects import Object
from muster.workflows.engine.run import Run
from muster.workflows.metrics import Emitter, MetricRegistry
from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import Simulation

WORKFLOW: dict[str, Any] = yaml.safe_load("""
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: wf, namespace: default, uid: u-1}
spec:
  entrypoint: main
  metrics:
    prometheus:
    - {name: runs, help: Runs, counter: {value: '1'}, labels: [{key: status, value: '{{workflow.status}}'}]}
  templates:
  - name: main
    dag:
      tasks:
      - {name: a, template: work}
      - {name: b, template: stubborn, depends: a}
      - {name: c, template: work, depends: b, when: '1 == 2'}
  - name: work
    metrics:
      prometheus:
      - {name: done, help: Done, counter: {value: '1'}, labels: [{key: status, value: '{{status}}'}]}
      - name: live
        help: Live
        gauge: {value: '{{duration}}', realtime: true}
        labels: [{key: n, value: '{{workflow.name}}'}]
    container: {image: busybox, command: [work]}
  - name: stubborn
    retryStrategy: {limit: 2}
    metrics:
      prometheus:
      - {name: tries, help: Tries, gauge: {value: '{{retries}}'}}
      - {name: attempts, help: Attempts, counter: {value: '1'}, labels: [{key: status, value: '{{status}}'}]}
    container: {image: busybox, command: [work]}
""")  # fmt: skip


def answer(launch: Launch) -> Outcome:
    return Outcome("Failed" if launch.node["displayName"] == "b(0)" else "Succeeded", exit_code=0)


def values(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def emitted(found: Object, *, reload: bool) -> dict[str, str]:
    registry, simulation = MetricRegistry(), Simulation(found, answer)
    emitter = Emitter(registry, simulation.run)
    for _ in range(20):
        before = dict(simulation.stored)
        simulation.round() if simulation.steps else simulation.step()
        changed = [key for key, node in simulation.run.nodes.items() if before.get(key) != node]
        assert emitter.emit(simulation.workflow, simulation.run, changed, simulation.view.now) == []
        if simulation.run.finished:
            return values(registry.text(simulation.view.now))
        if reload:
            simulation.run = Run.load(simulation.workflow, dict(simulation.stored), simulation.view)
            emitter = Emitter(registry, simulation.run)
    raise AssertionError("it does not end")


def test_every_end_counts_once() -> None:
    found = emitted(WORKFLOW, reload=False)
    assert found.pop('argo_workflows_live{n="wf"}').removesuffix(".0").isdigit()
    assert found == {
        'argo_workflows_runs{status="Succeeded"}': "1.0",
        'argo_workflows_done{status="Succeeded"}': "1.0",
        "argo_workflows_tries": "1.0",
        'argo_workflows_attempts{status="Failed"}': "1.0",
        'argo_workflows_attempts{status="Succeeded"}': "1.0",
    }


def test_a_restart_counts_nothing_twice() -> None:
    assert emitted(WORKFLOW, reload=True) == emitted(WORKFLOW, reload=False)
