"""How a workflow is resolved before it runs, and its templates, variables, outputs and status."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from muster.kube.objects import Object
from muster.workflows.engine.run import Run
from muster.workflows.engine.templates import merge_specs, merge_workflow_spec
from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import FakeView, Simulation, by_node, manifest, run_to_end


def args_of(text: str | Object, view: FakeView | None = None) -> list[str]:
    sim = Simulation(text, view=view)
    sim.step()
    assert sim.open, sim.message
    launch: Launch = next(iter(sim.open.values()))
    found: list[str] = launch.template["container"]["args"]
    return found


P = '{"name":"p","value":"v"}'
REF = '{"configMapKeyRef":{"name":"settings","key":"k"}}'


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("workflow.name", "wf"),
        ("workflow.namespace", "default"),
        ("workflow.uid", "11111111-2222-3333-4444-555555555555"),
        ("workflow.mainEntrypoint", "main"),
        ("workflow.serviceAccountName", "robot"),
        ("workflow.priority", "5"),
        ("workflow.parameters.p", "v"),
        ("workflow.parameters.map", "from-map"),
        ("workflow.parameters.json", f'[{P},{{"name":"n","value":"3"}},{{"name":"map","valueFrom":{REF}}}]'),
        ("workflow.labels.team", "ml"),
        ("workflow.labels.json", '{"team":"ml"}'),
        ("workflow.labels.size", "3x"),
        ("workflow.annotations.note", "hi"),
        ("workflow.creationTimestamp", "2026-01-01T00:00:00Z"),
        ("workflow.creationTimestamp.Y", "2026"),
        ("workflow.creationTimestamp.s", "1767225600"),
        ("workflow.status", "Running"),
        ("workflow.duration", "0.000000"),
        ("pod.name", "wf"),
        ("node.name", "wf"),
        ("=workflow.parameters.n + workflow.name", "3wf"),
        ("inputs.parameters.own", "v!"),
    ],
)  # fmt: skip
def test_variables(tag: str, expected: str) -> None:
    text = f"""
kind: Workflow
metadata: {{labels: {{team: ml}}, annotations: {{note: hi}}}}
spec:
  entrypoint: main
  serviceAccountName: robot
  priority: 5
  workflowMetadata: {{labelsFrom: {{size: {{expression: workflow.parameters.n + "x"}}}}}}
  arguments:
    parameters: [{{name: p, value: v}}, {{name: n, value: 3}}, {{name: map, valueFrom: {REF}}}]
  templates:
  - name: main
    inputs: {{parameters: [{{name: own, value: "{{{{workflow.parameters.p}}}}!"}}]}}
    container: {{image: x, args: ['{{{{{tag}}}}}']}}
"""
    assert args_of(text, FakeView(config_maps={"settings": {"k": "from-map"}})) == [expected]


def test_metadata_that_the_workflow_wants_to_have() -> None:
    text = """
entrypoint: main
workflowMetadata: {labels: {a: "1"}, annotations: {b: "2"}, labelsFrom: {c: {expression: workflow.name}}}
templates: [{name: main, container: {image: x}}]
"""
    assert Run.load(manifest(text), {}, FakeView()).metadata == {
        "labels": {"a": "1", "c": "wf"},
        "annotations": {"b": "2"},
    }


@pytest.mark.parametrize(
    ("text", "phase", "part"),
    [
        ("arguments: {parameters: [{name: p}]}", "Failed", "either value or valueFrom must be specified"),
        (
            "arguments: {parameters: [{name: p, valueFrom: {configMapKeyRef: {name: none, key: k}}}]}",
            "Failed",
            "failed to set global parameters: unable to retrieve arguments.parameters.p",
        ),
        ("workflowMetadata: {labelsFrom: {c: {expression: '1 +'}}}", "Error", "1 +"),
        ("workflowMetadata: {labelsFrom: {c: {expression: '1'}}}", "Error", "must evaluate to a string"),
        ("onExit: '{{= 1 + }}'", "Failed", "{{= 1 + }}"),
        ("workflowTemplateRef: {name: nope}", "Error", 'workflowtemplates.argoproj.io "nope" not found'),
        ("entrypoint: nope", "Error", "error in entry template execution: template nope not found"),
        ("entrypoint: untyped", "Error", "template 'untyped' has no type"),
        ("entrypoint: ''", "Error", "has no template"),
    ],
)
def test_a_workflow_that_cannot_run_says_why(text: str, phase: str, part: str) -> None:
    spec = {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "x"}}, {"name": "untyped"}]}
    sim = run_to_end(manifest(yaml.safe_dump({**spec, **yaml.safe_load(text)})))
    assert sim.phase == phase
    assert part in sim.message
    assert sim.run.status["finishedAt"]


LIBRARY = yaml.safe_load(
    """
kind: WorkflowTemplate
metadata: {name: lib}
spec:
  entrypoint: main
  podMetadata: {labels: {from: lib}}
  arguments: {parameters: [{name: p, value: theirs}, {name: q, value: also}]}
  hooks: {exit: {template: say}}
  templates:
  - name: main
    steps: [[{name: a, template: say}, {name: b, inline: {container: {image: x, args: [inline]}}}]]
  - name: say
    inputs: {parameters: [{name: p, value: "{{workflow.parameters.p}}"}]}
    container: {image: x, args: ["{{inputs.parameters.p}}"]}
"""
)


def test_a_workflow_from_a_template() -> None:
    view = FakeView(templates={("lib", False): LIBRARY})
    text = "workflowTemplateRef: {name: lib}\narguments: {parameters: [{name: p, value: mine}]}"
    sim = Simulation(text, view=view)
    sim.step()
    assert [launch.template["container"]["args"] for launch in sim.open.values()] == [["mine"], ["inline"]]
    stored = sim.run.status["storedWorkflowTemplateSpec"]
    assert stored["arguments"]["parameters"] == [{"name": "p", "value": "mine"}, {"name": "q", "value": "also"}]
    assert sim.node("a")["templateScope"] == "local/"
    view.templates.clear()  # what is stored is enough
    sim.reload = True
    assert sim.finish().phase == "Succeeded"
    assert "wf.onExit" in sim.launched


@pytest.mark.parametrize("cluster_scope", [False, True])
def test_templates_of_others(cluster_scope: bool) -> None:
    view = FakeView(templates={("lib", cluster_scope): LIBRARY})
    text = f"""
entrypoint: main
arguments: {{parameters: [{{name: p, value: v}}]}}
templates:
- name: main
  steps: [[{{name: s, templateRef: {{name: lib, template: main, clusterScope: {str(cluster_scope).lower()}}}}}]]
"""
    sim = Simulation(text, view=view)
    sim.step()
    scope = "cluster/lib" if cluster_scope else "namespaced/lib"
    assert set(sim.run.status["storedTemplates"]) == {f"{scope}/main", f"{scope}/say", f"{scope}/inline/b"}
    assert sim.node("s")["templateRef"]["template"] == "main"
    assert sim.node("s")["templateScope"] == "local/wf"
    assert sim.node("a")["templateScope"] == scope
    assert sim.open[sim.node("a")["id"]].template["metadata"] == {"labels": {"from": "lib"}}
    assert sim.open[sim.node("a")["id"]].pod_name.startswith("wf-say-")
    view.templates.clear()
    sim.reload = True
    assert sim.finish().phase == "Succeeded"


@pytest.mark.parametrize(
    ("ref", "part"),
    [
        ("{name: nope, template: say}", "workflow template nope not found"),
        ("{name: lib, template: nope}", "template nope not found in workflow template lib"),
    ],
)
def test_templates_of_others_that_are_not_there(ref: str, part: str) -> None:
    view = FakeView(templates={("lib", False): LIBRARY})
    text = f"entrypoint: main\ntemplates:\n- name: main\n  steps: [[{{name: s, templateRef: {ref}}}]]"
    assert part in run_to_end(text, view=view).message


def test_defaults_of_all_templates() -> None:
    text = """
entrypoint: main
templateDefaults:
  activeDeadlineSeconds: 9
  container: {image: default, env: [{name: A, value: a}, {name: B, value: b}]}
  script: {image: other}
templates:
- {name: main, container: {args: [x], env: [{name: B, value: mine}]}}
"""
    sim = Simulation(text)
    sim.step()
    (launch,) = sim.open.values()
    assert launch.template["container"] == {
        "image": "default",
        "args": ["x"],
        "env": [{"name": "A", "value": "a"}, {"name": "B", "value": "mine"}],
    }
    assert launch.template["activeDeadlineSeconds"] == 9
    assert "script" not in launch.template


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        ({"a": 1, "b": {"c": 1}}, {"b": {"d": 2}}, {"a": 1, "b": {"c": 1, "d": 2}}),
        ({"args": [1, 2]}, {"args": [3]}, {"args": [3]}),
        (
            {"env": [{"name": "A", "value": 1}]},
            {"env": [{"name": "B"}, {"name": "A", "value": 2}]},
            {"env": [{"name": "A", "value": 2}, {"name": "B"}]},
        ),
        ({"a": 1}, {"a": None}, {"a": 1}),
    ],
)
def test_laying_one_over_another(base: Any, over: Any, expected: Any) -> None:
    assert merge_specs(base, over) == expected


def test_of_an_argument_only_one_source_counts() -> None:
    theirs = {"arguments": {"parameters": [{"name": "p", "valueFrom": {"configMapKeyRef": {}}}]}, "suspend": True}
    mine = {"arguments": {"parameters": [{"name": "p", "value": "v"}]}}
    assert merge_workflow_spec(mine, theirs) == {"arguments": {"parameters": [{"name": "p", "value": "v"}]}}


def test_outputs_with_a_global_name_are_those_of_the_workflow() -> None:
    text = """
entrypoint: main
templates:
- name: main
  steps:
  - - {name: a, template: gen}
  - - name: b
      template: use
      arguments:
        parameters: [{name: p, value: "{{workflow.outputs.parameters.total}}"}]
        artifacts: [{name: f, from: "{{workflow.outputs.artifacts.file}}"}]
- name: gen
  container: {image: x}
  outputs:
    parameters: [{name: p, valueFrom: {path: /p}, globalName: total}]
    artifacts: [{name: f, path: /f, globalName: file}]
- name: use
  inputs: {parameters: [{name: p}], artifacts: [{name: f, path: /in}]}
  container: {image: x, args: ["{{inputs.parameters.p}}"]}
"""
    outputs: Any = {
        "parameters": [{"name": "p", "value": "7"}],
        "artifacts": [{"name": "f", "path": "/f", "s3": {"key": "k"}}],
    }
    sim = Simulation(text, by_node({"a": Outcome("Succeeded", outputs=outputs)}))
    sim.step()
    sim.round()
    (use,) = sim.open.values()
    assert use.template["container"]["args"] == ["7"]
    assert use.template["inputs"]["artifacts"] == [{"name": "f", "path": "/in", "s3": {"key": "k"}}]
    assert sim.finish().run.status["outputs"] == {
        "parameters": [{"name": "total", "value": "7"}],
        "artifacts": [{"name": "file", "s3": {"key": "k"}}],
    }


def test_the_status_of_a_workflow() -> None:
    sim = Simulation("entrypoint: main\ntemplates: [{name: main, container: {image: x}}]")
    first = sim.step().status
    assert first == {
        "phase": "Running",
        "startedAt": "2026-01-01T00:00:00Z",
        "progress": "0/1",
        "conditions": [{"type": "PodRunning", "status": "False"}],
    }
    assert sim.step().status is None
    sim.round()
    assert sim.run.status == {
        **first,
        "phase": "Succeeded",
        "finishedAt": "2026-01-01T00:00:01Z",
        "progress": "1/1",
        "conditions": [{"type": "PodRunning", "status": "False"}, {"type": "Completed", "status": "True"}],
    }
    assert [(n.type, n.reason) for n in sim.news] == [("Normal", "WorkflowRunning"), ("Normal", "WorkflowSucceeded")]


def test_what_others_write_into_the_status_stays() -> None:
    sim = Simulation("entrypoint: main\ntemplates: [{name: main, container: {image: x}}]")
    sim.step()
    claims = [{"name": "work", "persistentVolumeClaim": {"claimName": "wf-work"}}]
    sim.workflow = {**sim.workflow, "status": {**sim.run.status, "persistentVolumeClaims": claims, "nodes": {}}}
    sim.run.update(sim.workflow)
    assert sim.finish().run.status["persistentVolumeClaims"] == claims
    assert "nodes" not in sim.run.status


def test_labels_that_change_are_seen() -> None:
    sim = Simulation(
        "entrypoint: main\nonExit: bye\ntemplates:\n- {name: main, container: {image: x}}\n"
        "- {name: bye, container: {image: x, args: ['{{workflow.labels.team}}']}}"
    )
    sim.step()
    sim.workflow = {**sim.workflow, "metadata": {**sim.workflow["metadata"], "labels": {"team": "new"}}}
    sim.run.update(sim.workflow)
    sim.round()
    (bye,) = sim.open.values()
    assert bye.template["container"]["args"] == ["new"]


def test_chance_falls_the_same_way_after_a_restart() -> None:
    text = "entrypoint: main\ntemplates: [{name: main, container: {image: x, args: ['{{=sprig.randAlpha(20)}}']}}]"
    sim = Simulation(text)
    sim.step()
    before = sim.open["wf"].template
    sim.restart()
    assert sim.run.launch("wf").template == before
    other = manifest(text)
    other["metadata"]["name"] = "other"
    assert args_of(other) != before["container"]["args"]


def test_a_mistake_of_ours_ends_the_workflow_and_not_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation(
        "entrypoint: main\ntemplates:\n- {name: main, steps: [[{name: a, template: x}, {name: b, template: y}]]}\n"
        "- {name: x, container: {image: x}}\n- {name: y, suspend: {}}"
    )
    sim.step()

    def broken(*_: Any) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(sim.run.queue, "drain", broken)
    sim.step({sim.node("a")["id"]: Outcome("Running")})
    assert (sim.phase, sim.message) == ("Error", "internal error: KeyError: 'oops'")
    assert sim.phases() == {"wf": "Failed", "[0]": "Failed", "a": "Failed", "b": "Failed"}
    assert sim.stopped == {sim.node("a")["id"]: False}
    assert json.dumps(sim.run.status)
