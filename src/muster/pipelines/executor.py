"""The container of a task: its Argo template, and what its outputs mean.

The Pod executor of workflows stages input artifacts, runs the Pod and collects the paths that the template declares. So
this module only maps the executor's contract of Kubeflow Pipelines to a template, and what was collected back
to typed outputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.pipelines.placeholders import resolve_arguments, resolve_text
from muster.pipelines.task import Artifact, TaskFailed, TaskLaunch, TaskOutputs, local_path, parameter_file
from muster.pipelines.values import ValueTypeError, convert, parse_text
from muster.workflows.model import Outputs, Template

_OUTPUT_FILE = "kfp-output-file"
"""The output parameter that holds the ExecutorOutput."""


def template_of(launch: TaskLaunch) -> Template:
    """Returns the template of the task's Pod, with literal texts: nothing in it is a tag. Raises TaskFailed."""
    container = launch.container
    template: Template = {
        "container": {
            "image": resolve_text(container.image, launch),
            "command": resolve_arguments(container.command, launch),
            "args": resolve_arguments(container.args, launch),
            "env": [{"name": each.name, "value": resolve_text(each.value, launch)} for each in container.env],
        },
        "inputs": {"artifacts": _staged_inputs(launch)},
        "outputs": {
            "parameters": [
                {"name": _OUTPUT_FILE, "valueFrom": {"path": launch.output_file, "default": ""}},
                *(
                    {"name": name, "valueFrom": {"path": parameter_file(name), "default": ""}}
                    for name in launch.component.output_definitions.parameters
                ),
            ],
            "artifacts": [
                {"name": _output_name(name, index), "path": local_path(artifact.uri), "optional": True}
                for name, listed in launch.output_artifacts.items()
                for index, artifact in enumerate(listed)
            ],
        },
    }
    return template


def read_outputs(launch: TaskLaunch, outputs: Outputs) -> TaskOutputs:
    """Returns the outputs of a task whose container succeeded. Raises TaskFailed."""
    collected = {p["name"]: str(p.get("value") or "") for p in outputs.get("parameters") or ()}
    written = _executor_output(collected.get(_OUTPUT_FILE) or "")
    parameters = {}
    for name, definition in launch.component.output_definitions.parameters.items():
        values = written.get("parameterValues") or {}
        try:
            if name in values:
                parameters[name] = convert(values[name], definition.parameter_type)
            elif collected.get(name):
                parameters[name] = parse_text(collected[name], definition.parameter_type)
            else:
                raise TaskFailed(f'the component did not write its output parameter "{name}"')
        except ValueTypeError as error:
            raise TaskFailed(f'output parameter "{name}": {error}') from None
    saved = {a["name"]: a for a in outputs.get("artifacts") or ()}
    artifacts = {}
    for name, listed in launch.output_artifacts.items():
        changed = ((written.get("artifacts") or {}).get(name) or {}).get("artifacts") or []
        artifacts[name] = tuple(
            _finished(artifact, changed[index] if index < len(changed) else {}, saved.get(_output_name(name, index)))
            for index, artifact in enumerate(listed)
        )
    return TaskOutputs(parameters, artifacts)


def _staged_inputs(launch: TaskLaunch) -> list[dict[str, Any]]:
    staged: dict[str, dict[str, Any]] = {}
    for name, listed in launch.inputs.artifacts.items():
        for index, artifact in enumerate(listed):
            if artifact.location:
                path = local_path(artifact.uri)
                staged.setdefault(path, {"name": _output_name(name, index), "path": path, **artifact.location})
    return list(staged.values())


def _finished(artifact: Artifact, changed: Mapping[str, Any], saved: Mapping[str, Any] | None) -> Artifact:
    location = {k: v for k, v in (saved or {}).items() if k not in ("name", "path", "optional")}
    metadata = {**artifact.metadata, **(changed.get("metadata") or {})}
    return replace(artifact, uri=str(changed.get("uri") or artifact.uri), metadata=metadata, location=location)


def _output_name(name: str, index: int) -> str:
    return f"{name}-{index}"


def _executor_output(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise TaskFailed("the component wrote an output file that is not JSON") from None
    return found if isinstance(found, dict) else {}
