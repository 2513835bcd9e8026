"""Compiled pipelines are read as they are written, and mistakes in them are found before anything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from muster.pipelines.compile import to_workflow
from muster.pipelines.model import PipelineSpec
from muster.pipelines.spec import PipelineError, check_parameters, parse_pipeline, read_pipeline

PIPELINE: dict[str, Any] = {
    "pipelineInfo": {"name": "demo"},
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.17.0",
    "components": {
        "comp-say": {
            "executorLabel": "exec-say",
            "inputDefinitions": {"parameters": {"text": {"parameterType": "STRING"}}},
            "outputDefinitions": {"parameters": {"Output": {"parameterType": "STRING"}}},
        }
    },
    "deploymentSpec": {"executors": {"exec-say": {"container": {"image": "python:3.11", "command": ["echo"]}}}},
    "root": {
        "dag": {
            "tasks": {
                "first": {
                    "componentRef": {"name": "comp-say"},
                    "inputs": {"parameters": {"text": {"componentInputParameter": "text"}}},
                },
                "second": {
                    "componentRef": {"name": "comp-say"},
                    "dependentTasks": ["first"],
                    "inputs": {
                        "parameters": {
                            "text": {"taskOutputParameter": {"producerTask": "first", "outputParameterKey": "Output"}}
                        }
                    },
                    "triggerPolicy": {"condition": "inputs.parameter_values['text'] == 'x'"},
                },
            }
        },
        "inputDefinitions": {
            "parameters": {
                "text": {"parameterType": "STRING"},
                "count": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3.0},
                "color": {"parameterType": "STRING", "isOptional": True, "literals": ["red", "blue"]},
                "maybe": {"parameterType": "STRUCT", "isOptional": True},
            }
        },
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    found = deepcopy(PIPELINE)
    *above, last = path.split("/")
    inner = found
    for name in above:
        inner = inner[name]
    inner[last] = value
    return found


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def test_yaml_json_and_the_form_of_the_api_are_the_same() -> None:
    text = yaml.safe_dump(PIPELINE)
    config: dict[str, Any] = {"exec-say": {"nodeSelector": {}}}
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": config}}}}
    plain = read_pipeline(text).spec
    assert plain == read_pipeline(json.dumps(PIPELINE)).spec == parse_pipeline(PIPELINE).spec
    two = read_pipeline(text + "\n---\n" + yaml.safe_dump(platform))
    assert (
        two == parse_pipeline({"pipeline_spec": PIPELINE, "platform_spec": platform}) == parse_pipeline(two.to_json())
    )
    assert two.platform.kubernetes.deployment_spec.executors["exec-say"] == {"nodeSelector": {}}
    assert plain.root.input_definitions.parameters["count"].default_value == 3


def test_letters_are_names_as_pyyaml_writes_them() -> None:
    spec = changed("root/inputDefinitions/parameters", {"y": {}, "n": {"defaultValue": "y"}, "text": {}})
    text = yaml.safe_dump(spec).replace("'y'", "y").replace("'n'", "n")  # other libraries teach PyYAML to quote them
    assert "\n      y: {}" in text
    found = read_pipeline(text).spec.root.input_definitions.parameters
    assert (sorted(found), found["n"].default_value) == (["n", "text", "y"], "y")


def test_an_error_names_the_file_the_line_and_the_fix() -> None:
    text = yaml.safe_dump(changed("root/dag/tasks/second/componentReff", {}), sort_keys=False)
    line = next(number for number, each in enumerate(text.split("\n"), 1) if "componentReff" in each)
    with pytest.raises(PipelineError) as error:
        read_pipeline(text, "demo.yaml")
    assert str(error.value) == (
        f'demo.yaml:{line} root.dag.tasks.second.componentReff: unknown field "componentReff"; did you mean '
        '"componentRef"?'
    )


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("schemaVersion", "3.0.0", 'schemaVersion: it is "3.0.0", but has to be 2.1.0'),
        ("pipelineInfo", {}, "pipelineInfo.name: Required value"),
        ("pipelineInfo/name", "No Good", "pipelineInfo.name: "),
        ("extra", 1, 'extra: unknown field "extra"'),
        ("kind", "Workflow", "this is a Kubernetes object"),
        ("root", {}, "root.dag: Required value"),
        (
            "root/dag/tasks/first/componentRef/name",
            "comp-sya",
            'there is no component "comp-sya"; did you mean "comp-say"?',
        ),
        ("components/comp-say/executorLabel", "exec", 'there is no executor "exec"'),
        ("root/dag/tasks/first/dependentTasks", ["second"], "these tasks wait for each other: first, second"),
        ("root/dag/tasks/first/dependentTasks", ["third"], 'there is no task "third"'),
        ("root/dag/tasks/first/dependentTasks", "second", "expected a list"),
        ("root/dag/tasks/second/triggerPolicy/condition", "1 ==", "the expression ends too early"),
        ("root/dag/tasks/second/triggerPolicy/strategy", "SOMETIMES", "unknown value 'SOMETIMES'"),
        (
            "root/dag/tasks/second/inputs/parameters/text/taskOutputParameter/outputParameterKey",
            "Out",
            'there is no output of task first "Out"',
        ),
        ("root/dag/tasks/first/inputs/parameters/text/componentInputParameter", "txt", 'there is no input "txt"'),
        (
            "root/dag/tasks/first/parameterIterator",
            {"itemInput": "item", "items": {"raw": "[1]"}},
            'parameterIterator.itemInput: there is no input "item"',
        ),
        ("deploymentSpec/executors/exec-say", {"customJob": {}}, "customJob executors run only on Vertex AI"),
        ("deploymentSpec/executors/exec-say", {}, "expected one of container and importer"),
        (
            "components/comp-say",
            {"dag": {"tasks": {"again": {"componentRef": {"name": "comp-say"}}}}},
            "these components contain each other: comp-say",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_runs(path: str, value: Any, problem: str) -> None:
    with pytest.raises(PipelineError) as error:
        parse_pipeline(changed(path, value))
    assert problem in str(error.value)


@pytest.mark.parametrize("text", ["", "[1]", "a: [", "a: 1\na: 2", "a: 1\n---\nb: 1\n---\nc: 1", "x" * 100])
def test_a_file_that_is_no_pipeline_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="pipeline"):
        read_pipeline(text)


@pytest.mark.parametrize(
    "parameters",
    [
        {"text": "x"},
        {"text": "x", "count": 4, "color": "red", "maybe": {"a": 1}},
        {"text": "x", "count": 4.0, "color": None, "maybe": None},
    ],
)
def test_parameters_that_fit(parameters: dict[str, Any]) -> None:
    check_parameters(_spec(), parameters)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, 'parameters.text: the parameter "text" is required and has no value'),
        ({"text": None}, "parameters.text: expected a string, got nothing"),
        ({"text": 1}, "parameters.text: expected a string, got the number 1"),
        ({"text": "x", "count": "3"}, "parameters.count: expected an integer"),
        ({"text": "x", "count": 1.5}, "parameters.count: expected an integer"),
        ({"text": "x", "count": True}, "parameters.count: expected an integer"),
        ({"text": "x", "maybe": []}, "parameters.maybe: expected an object"),
        ({"text": "x", "maybe": deep(500)}, "parameters.maybe: the value is nested more than 200 levels deep"),
        ({"text": "x", "color": "green"}, 'parameters.color: "green" is not allowed: use one of "red", "blue"'),
        ({"text": "x", "colour": "red"}, 'the pipeline has no parameter "colour"; did you mean "color"?'),
    ],
)
def test_parameters_that_do_not_fit(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(PipelineError) as error:
        check_parameters(_spec(), parameters)
    assert problem in str(error.value)


def _spec() -> PipelineSpec:
    return parse_pipeline(PIPELINE).spec


def test_a_value_of_any_other_type_anywhere_is_refused_or_harmless() -> None:
    """Never any other error than PipelineError."""
    wrong: list[Any] = [None, 1, 1.5, True, "x", "", [], ["x"], {}, {"x": 1}, [[]]]
    for path in list(_paths(PIPELINE)):
        for value in wrong:
            found = deepcopy(PIPELINE)
            inner: Any = found
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = value
            try:
                pipeline = parse_pipeline(found)
                to_workflow(pipeline, run_id="r", display_name="r", parameters={"text": "x"}, namespace="n")
            except PipelineError as error:
                assert str(error)


def _paths(value: Any) -> Iterator[list[Any]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield [step]
        for rest in _paths(inner):
            yield [step, *rest]
