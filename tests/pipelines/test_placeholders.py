"""What placeholders of a command stand for."""

import json

import pytest

from muster.pipelines.model import (
    ArtifactType,
    Component,
    ContainerSpec,
    InputArtifact,
    InputDefinitions,
    InputParameter,
    OutputArtifact,
    OutputDefinitions,
    OutputParameter,
)
from muster.pipelines.placeholders import resolve_arguments, resolve_value
from muster.pipelines.task import Artifact, RunInfo, TaskFailed, TaskInputs, TaskLaunch

ROOT = "minio://mlpipeline/v2/artifacts/demo/run-1/train/task-1"
LAUNCH = TaskLaunch(
    run=RunInfo(
        "run-1", "my run", "demo-abc", "team", "demo", "minio://mlpipeline/v2/artifacts", "2026-01-01T00:00:00Z"
    ),
    task_name="train",
    task_id="task-1",
    component_name="comp-train",
    component=Component(
        input_definitions=InputDefinitions(
            {name: InputParameter() for name in ("text", "number", "small", "list", "unset")},
            {"data": InputArtifact(), "nothing": InputArtifact(is_optional=True)},
        ),
        output_definitions=OutputDefinitions({"out": OutputParameter()}, {"model": OutputArtifact()}),
    ),
    container=ContainerSpec(),
    inputs=TaskInputs(
        {"text": 'a "quoted" {{$}}', "number": 3, "small": 1e-7, "list": [1, "x"]},
        {"data": (Artifact("data", "gs://bucket/d", ArtifactType("system.Dataset"), {"rows": 5, "of": {"a": 1}}),)},
    ),
    task_root=ROOT,
    output_artifacts={"model": (Artifact("model", f"{ROOT}/model", ArtifactType("system.Model")),)},
)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("plain", ["plain"]),
        ("{{$.inputs.parameters['text']}}", ['a "quoted" {{$}}']),
        ("--n={{$.inputs.parameters['number']}}!", ["--n=3!"]),
        ('{{$.inputs.parameters["number"]}}', ["3"]),
        ("{{$.inputs.parameters['small']}}", ["0.0000001"]),
        ("{{$.inputs.parameters['list']}}", ['[1, "x"]']),
        ("{{$.inputs.parameters['unset']}}", [""]),
        ("{{$.inputs.artifacts['data'].uri}}", ["gs://bucket/d"]),
        ("{{$.inputs.artifacts['data'].path}}", ["/gcs/bucket/d"]),
        ("{{$.inputs.artifacts['data'].metadata['rows']}}", ["5"]),
        ("{{$.inputs.artifacts['data'].metadata}}", ['{"rows": 5, "of": {"a": 1}}']),
        ("{{$.inputs.artifacts['nothing'].path}}", [""]),
        ("{{$.outputs.artifacts['model'].path}}", ["/" + ROOT.replace("://", "/") + "/model"]),
        ("{{$.outputs.parameters['out'].output_file}}", ["/tmp/kfp/outputs/out"]),
        ("{{$.outputs.output_file}}", ["/" + ROOT.replace("://", "/") + "/output_metadata.json"]),
        ("{{$.pipeline_job_name}} {{$.pipeline_job_uuid}} {{$.pipeline_task_name}}", ["my run run-1 train"]),
        ("{{$.pipeline_job_resource_name}} {{$.pipeline_task_uuid}}", ["demo-abc task-1"]),
        ("{{$.workspace_path}}/x", ["/kfp-workspace/x"]),
        ("{{ jinja }} {{$.unknown}} {{$ }}", ["{{ jinja }} {{$.unknown}} {{$ }}"]),
        ('{"Concat": ["a=", "{{$.inputs.parameters[\'text\']}}", ";"]}', ['a=a "quoted" {{$}};']),
        (
            '{"IfPresent": {"InputName": "number", "Then": ["--n", "{{$.inputs.parameters[\'number\']}}"]}}',
            ["--n", "3"],
        ),
        ('{"IfPresent": {"InputName": "unset", "Then": ["--n"], "Else": "no"}}', ["no"]),
        ('{"IfPresent": {"InputName": "unset", "Then": ["--n"]}}', []),
        ('{"IfPresent": {"InputName": "data", "Then": "{{$.inputs.artifacts[\'data\'].path}}"}}', ["/gcs/bucket/d"]),
        (
            '{"Concat": ["x", {"IfPresent": {"InputName": "unset", "Then": "1", "Else": {"Concat": ["2", "3"]}}}]}',
            ["x23"],
        ),
        ('{"other": 1}', ['{"other": 1}']),
        ('{"Concat": broken', ['{"Concat": broken']),
    ],
)
def test_an_argument_is_filled_in(argument: str, expected: list[str]) -> None:
    assert resolve_arguments([argument], LAUNCH) == expected


def test_the_whole_executor_input_is_json() -> None:
    (text,) = resolve_arguments(["{{$}}"], LAUNCH)
    found = json.loads(text)
    assert found["inputs"]["parameterValues"] == dict(LAUNCH.inputs.parameters)
    assert found["inputs"]["artifacts"]["data"]["artifacts"] == [
        {
            "name": "data",
            "uri": "gs://bucket/d",
            "type": {"schemaTitle": "system.Dataset"},
            "metadata": {"rows": 5, "of": {"a": 1}},
        }
    ]
    assert found["outputs"]["parameters"] == {"out": {"outputFile": "/tmp/kfp/outputs/out"}}
    assert found["outputs"]["artifacts"]["model"]["artifacts"][0]["uri"] == f"{ROOT}/model"
    assert found["outputs"]["outputFile"].endswith("/task-1/output_metadata.json")


def test_a_name_that_the_component_does_not_have_is_an_error() -> None:
    with pytest.raises(TaskFailed, match='comp-train has no input parameter "wrong"'):
        resolve_arguments(["{{$.inputs.parameters['wrong']}}"], LAUNCH)


def test_constants_take_the_values_of_other_inputs() -> None:
    constant = {"say": ["hello {{$.inputs.parameters['pipelinechannel--who']}}", 1]}
    assert resolve_value(constant, {"pipelinechannel--who": 'a "b"'}) == {"say": ['hello a "b"', 1]}
    assert resolve_value("{{$.pipeline_job_name}} {{$.other}}", {}, {"pipeline_job_name": "r"}) == "r {{$.other}}"
