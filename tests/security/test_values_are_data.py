"""What a Pod prints, and what is given as a parameter, is data: it is never evaluated as a template."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.kube.objects import Object
from muster.workflows.model import Launch, Outcome, Outputs
from tests.workflows.engine.simulation import FakeView, Simulation

SECRET = "only-for-the-author"
TAKES_X: Object = {"parameters": [{"name": "x"}]}
SHOW: Object = {"name": "show", "inputs": TAKES_X, "container": {"image": "i", "args": ["{{inputs.parameters.x}}"]}}
PRINT: Object = {
    "name": "print",
    "container": {"image": "i"},
    "outputs": {"parameters": [{"name": "p", "valueFrom": {"path": "/p"}}]},
}
RESULT, PARAMETER = "{{steps.first.outputs.result}}", "{{steps.first.outputs.parameters.p}}"
PAYLOADS = {
    "an expression": "{{=1+1}}",
    "an expression that reads the workflow's parameters": "{{=workflow.parameters.secret}}",
    "a tag of the workflow's parameters": "{{workflow.parameters.secret}}",
    "a tag of the workflow's name": "{{workflow.name}}",
    "a tag of its own input": "{{inputs.parameters.x}}",
    "a tag that is set late": "{{pod.name}}{{retries}}{{node.name}}",
    "a tag of another node's output": "{{steps.first.outputs.result}}{{tasks.first.outputs.result}}",
    "three braces": "{{{=1+1}}}",
    "the mark that separates braces of values": "{\ufdd0{=1+1}}",
    "quotes and line breaks that would end a JSON string": '", "hostNetwork": true, "a": "\\\n{{=1+1}}',
}


def give(value: str) -> Object:
    return {"parameters": [{"name": "x", "value": value}]}


def workflow(*templates: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "wf", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "entrypoint": templates[0]["name"],
            "templates": [*templates],
            "arguments": {"parameters": [{"name": "secret", "value": SECRET}]},
            **spec,
        },
    }


def steps(*groups: Object, name: str = "main", **more: Any) -> Object:
    return {"name": name, "steps": [[group] for group in groups], **more}


FIRST: Object = {"name": "first", "template": "print"}
WAYS: dict[str, list[Object]] = {
    "as an argument of a step": [steps(FIRST, {"name": "a", "template": "show", "arguments": give(RESULT)})],
    "through an output parameter": [steps(FIRST, {"name": "a", "template": "show", "arguments": give(PARAMETER)})],
    "through a template in between": [
        steps(FIRST, {"name": "a", "template": "between", "arguments": give(RESULT)}),
        steps(
            {"name": "b", "template": "show", "arguments": give("{{inputs.parameters.x}}")},
            name="between",
            inputs=TAKES_X,
        ),
    ],
    "as an argument of a task": [
        {
            "name": "main",
            "dag": {
                "tasks": [
                    FIRST,
                    {
                        "name": "a",
                        "depends": "first",
                        "template": "show",
                        "arguments": give("{{tasks.first.outputs.result}}"),
                    },
                ]
            },
        }
    ],
    "to a template that is retried": [
        steps(FIRST, {"name": "a", "template": "again", "arguments": give(RESULT)}),
        {**SHOW, "name": "again", "retryStrategy": {"limit": "1"}},
    ],
    "in a loop over other items": [
        steps(FIRST, {"name": "a", "template": "show", "arguments": give(RESULT), "withItems": ["one"]})
    ],
    "as the argument of an exit hook": [
        steps(
            FIRST,
            {"name": "a", "template": "print", "hooks": {"exit": {"template": "show", "arguments": give(RESULT)}}},
        )
    ],
    "through an expression": [
        steps(FIRST, {"name": "a", "template": "show", "arguments": give("{{=steps.first.outputs.result}}")})
    ],
}


class Run(Simulation):
    """Every Pod of the template `print` prints the payload."""

    def __init__(self, document: Object, payload: str, view: FakeView | None = None) -> None:
        super().__init__(document, self.outcome, view=view, reload=True)
        self.payload = payload
        self.arguments: list[str] = []
        self.launches: list[Launch] = []

    def outcome(self, launch: Launch) -> Outcome:
        self.launches.append(launch)
        self.arguments += launch.template["container"].get("args") or ()
        if launch.template["name"] != "print":
            return Outcome("Succeeded")
        parameters = [{"name": "p", "value": self.payload}]
        return Outcome("Succeeded", outputs=Outputs(result=self.payload, parameters=list(parameters)))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_what_a_pod_prints_arrives_unchanged(payload: str, way: list[Object]) -> None:
    run = Run(workflow(*way, SHOW, PRINT), payload)
    run.finish()
    assert run.phase == "Succeeded", run.message
    assert run.arguments == [payload.replace("\ufdd0", "")] or run.arguments == [payload]
    inputs = [node.get("inputs") or {} for node in run.run.nodes.values()]
    given = {p["value"] for each in inputs for p in each.get("parameters") or ()}
    assert given <= {payload, payload.replace("\ufdd0", ""), "one"}


def test_items_of_a_list_that_a_pod_prints() -> None:
    """A Pod prints a list whose items look like expressions, and a loop goes over it"""
    items = ["{{=1+1}}", "{{workflow.parameters.secret}}", {"a": "{{=2+2}}"}]
    loop = {"name": "a", "template": "show", "arguments": give("{{item}}"), "withParam": RESULT}
    run = Run(workflow(steps(FIRST, loop), SHOW, PRINT), json.dumps(items))
    run.finish()
    assert sorted(run.arguments) == sorted(i if isinstance(i, str) else '{"a":"{{=2+2}}"}' for i in items)


def test_two_values_that_are_a_tag_together() -> None:
    """Two values that are harmless alone become an expression when they are put side by side"""
    first = {"name": "a", "template": "show", "arguments": give("{{workflow.parameters.l}}{{workflow.parameters.r}}")}
    arguments = {"parameters": [{"name": "l", "value": "{"}, {"name": "r", "value": "{=1+1}}"}]}
    run = Run(workflow(steps(first), SHOW, arguments=arguments), "")
    run.finish()
    assert run.arguments == ["{{=1+1}}"]


def test_a_value_of_a_config_map() -> None:
    """A ConfigMap that others may write contains an expression"""
    source = {"valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}
    show = {**SHOW, "inputs": {"parameters": [{"name": "x", **source}]}}
    run = Run(workflow(show), "", FakeView(config_maps={"cm": {"k": "{{=1+1}}{{workflow.parameters.secret}}"}}))
    run.finish()
    assert run.arguments == ["{{=1+1}}{{workflow.parameters.secret}}"]


def test_the_patch_of_a_pod_sees_values_only_once() -> None:
    """A Pod's output with an expression is used in podSpecPatch of the template and of the workflow"""
    show = {**SHOW, "podSpecPatch": "{{inputs.parameters.x}}"}
    first = {"name": "a", "template": "show", "arguments": give(RESULT)}
    run = Run(workflow(steps(FIRST, first), show, PRINT, podSpecPatch="{{inputs.parameters.x}}"), "{{=1+1}}")
    run.finish()
    last = run.launches[-1]
    assert (last.template["podSpecPatch"], last.spec_patch) == ("{{=1+1}}", "{{=1+1}}")


def test_names_of_labels_from_values() -> None:
    """A Pod's output becomes the key and the value of a label, and is not evaluated there either"""
    metadata = {"labels": {"{{inputs.parameters.x}}": "{{inputs.parameters.x}}"}}
    first = {"name": "a", "template": "show", "arguments": give(RESULT)}
    run = Run(workflow(steps(FIRST, first), {**SHOW, "metadata": metadata}, PRINT), "{{=1+1}}")
    run.finish()
    assert run.launches[-1].template["metadata"]["labels"] == {"{{=1+1}}": "{{=1+1}}"}


def test_outputs_of_the_workflow_are_values() -> None:
    """A Pod's output is passed on as an output of a steps template and used by the next one"""
    passed: Object = {"parameters": [{"name": "p", "valueFrom": {"parameter": PARAMETER}}]}
    inner = steps(FIRST, name="inner", outputs=passed)
    use = {"name": "b", "template": "show", "arguments": give("{{steps.a.outputs.parameters.p}}")}
    run = Run(workflow(steps({"name": "a", "template": "inner"}, use), inner, SHOW, PRINT), "{{=1+1}}")
    run.finish()
    assert run.arguments == ["{{=1+1}}"]
    assert run.node("a")["outputs"]["parameters"][0]["value"] == "{{=1+1}}"


def test_tags_that_the_author_wrote_still_work() -> None:
    """The author's own tags in arguments and defaults are replaced, each once"""
    use = {"name": "a", "template": "show", "arguments": give("{{workflow.name}}-{{pod.name}}-{{=1+1}}")}
    run = Run(workflow(steps(use), SHOW), "")
    run.finish()
    assert run.arguments[0].startswith("wf-wf-show-") and run.arguments[0].endswith("-2")


def test_volumes_of_the_workflow_see_the_inputs() -> None:
    """A volume of the workflow takes its claim from a template's input, whose value is not evaluated"""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "{{inputs.parameters.x}}"}}
    run = Run(workflow(SHOW, arguments=give("{{=1+1}}"), volumes=[volume]), "")
    run.finish()
    assert run.launches[-1].template["volumes"][0]["persistentVolumeClaim"] == {"claimName": run.arguments[0]}
