from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.engine.clock import RunClock
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.templates import ABSENT, fill_inputs, has_location, takes_only_inputs
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.model import Template

CLOCK = RunClock().expressions

MAPS = {"settings": {"size": "9"}}


def filled(template: Template, arguments: dict[str, Any] | None = None, own: dict[str, str] | None = None) -> Template:
    return fill_inputs(
        template, arguments or {}, {"workflow.name": "wf", "workflow.parameters.p": "g"}, own or {}, MAPS.get, CLOCK
    )


def value_of(parameter: dict[str, Any], argument: dict[str, Any] | None = None) -> str:
    arguments = {"parameters": [{"name": "m", **argument}]} if argument is not None else {}
    template = filled(
        {"inputs": {"parameters": [{"name": "m", **parameter}]}, "container": {"args": ["{{inputs.parameters.m}}"]}},
        arguments,
    )
    assert template["inputs"]["parameters"][0]["value"] == template["container"]["args"][0]
    return str(template["container"]["args"][0])


@pytest.mark.parametrize(
    ("parameter", "argument", "expected"),
    [
        ({}, {"value": "x"}, "x"),
        ({}, {"value": 3}, "3"),
        ({}, {"value": True}, "true"),
        ({}, {"value": [1, "a"]}, '[1,"a"]'),
        ({"default": "d"}, None, "d"),
        ({"default": "d"}, {"value": "x"}, "x"),
        ({"value": "v", "default": "d"}, None, "v"),
        ({"default": "d"}, {"value": ""}, ""),
        ({"default": "{{workflow.name}}"}, None, "wf"),
        ({}, {"value": "{{workflow.parameters.p}}"}, "g"),
        ({"default": "d"}, {"value": ABSENT}, "d"),
        ({}, {"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "size"}}}, "9"),
        ({"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "size"}}}, None, "9"),
        ({}, {"valueFrom": {"default": "d", "configMapKeyRef": {"name": "settings", "key": "none"}}}, "d"),
        ({}, {"valueFrom": {"default": "d", "configMapKeyRef": {"name": "none", "key": "none"}}}, "d"),
    ],
)
def test_where_an_input_comes_from(parameter: dict[str, Any], argument: dict[str, Any] | None, expected: str) -> None:
    assert value_of(parameter, argument) == expected


@pytest.mark.parametrize(
    ("parameter", "argument", "problem"),
    [
        ({}, None, "inputs.parameters.m was not supplied"),
        ({}, {"value": ABSENT}, "argument references an absent optional"),
        ({}, {"valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}, "ConfigMap 'none' does not exist"),
        ({}, {"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}}, "it has no key 'k'"),
    ],
)
def test_inputs_that_are_missing(parameter: dict[str, Any], argument: dict[str, Any] | None, problem: str) -> None:
    with pytest.raises(WorkflowError, match=problem):
        value_of(parameter, argument)


def test_tags_of_all_kinds() -> None:
    template = filled(
        {
            "inputs": {
                "parameters": [{"name": "m", "value": "1"}],
                "artifacts": [{"name": "a", "path": "/a", "raw": {}}],
            },
            "outputs": {
                "artifacts": [{"name": "o", "path": "/{{inputs.parameters.m}}"}],
                "parameters": [{"name": "q", "valueFrom": {"path": "/q"}}],
            },
            "container": {
                "args": [
                    "{{inputs.artifacts.a.path}} {{outputs.parameters.q.path}} {{pod.name}} {{node.name}}",
                    "{{=asInt(inputs.parameters.m) + 1}} {{inputs.parameters}} {{steps.x.ip}}",
                ],
                "env": [{"name": "{{inputs.parameters.m}}", "value": "{{=nope.nope}}"}],
            },
        },
        own={"pod.name": "pod", "node.name": "node"},
    )
    assert template["container"]["args"] == [
        "/a /q pod node",
        '2 [{"name":"m","value":"1"}] {{steps.x.ip}}',
    ]
    assert template["container"]["env"] == [{"name": "1", "value": "{{=nope.nope}}"}]
    assert template["outputs"]["artifacts"][0]["path"] == "/1"


def test_an_expression_that_cannot_be_read_shows_where() -> None:
    with pytest.raises(ExpressionError) as caught:
        filled({"container": {"args": ["{{= 1 + }}"]}})
    assert "{{= 1 + }}" in str(caught.value)
    assert "^" in str(caught.value)


GIVEN = {"name": "a", "s3": {"key": "k"}, "path": "/theirs"}


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        ({"path": "/a"}, GIVEN, {"name": "a", "s3": {"key": "k"}, "path": "/a"}),
        ({"path": "/a", "mode": 420}, GIVEN, {"name": "a", "s3": {"key": "k"}, "path": "/a", "mode": 420}),
        ({"path": "/a", "optional": True}, None, {"name": "a", "path": "/a", "optional": True}),
        ({"path": "/a", "raw": {"data": "x"}}, None, {"name": "a", "path": "/a", "raw": {"data": "x"}}),
        ({"path": "/a", "raw": {"data": "x"}}, GIVEN, {"name": "a", "s3": {"key": "k"}, "path": "/a"}),
    ],
)
def test_where_an_artifact_comes_from(
    declared: dict[str, Any], given: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    template = {"inputs": {"artifacts": [{"name": "a", **declared}]}, "container": {}}
    arguments = {"artifacts": [given]} if given else {}
    assert filled(template, arguments)["inputs"]["artifacts"] == [expected]


@pytest.mark.parametrize(
    ("given", "problem"),
    [(None, "inputs.artifacts.a was not supplied"), ({"name": "a"}, "inputs.artifacts.a missing location information")],
)
def test_artifacts_that_are_missing(given: dict[str, Any] | None, problem: str) -> None:
    with pytest.raises(WorkflowError, match=problem):
        filled({"inputs": {"artifacts": [{"name": "a", "path": "/a"}]}}, {"artifacts": [given]} if given else {})


def test_what_says_where_an_artifact_is() -> None:
    assert has_location({"name": "a", "raw": {"data": ""}})
    assert not has_location({"name": "a", "path": "/a", "archive": {"none": {}}, "from": "{{x}}"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", True),
        ("{{inputs.parameters.m}}", True),
        ("{{workflow.name}}", False),
        ("{{=1}}", False),
        ("{{", False),
    ],
)
def test_templates_that_take_only_inputs(text: str, expected: bool) -> None:
    assert takes_only_inputs({"container": {"args": [text]}}) is expected
