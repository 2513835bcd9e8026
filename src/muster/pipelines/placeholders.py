"""Placeholders of compiled pipelines: `{{$}}`, `{{$.inputs.parameters['n']}}` and so on, IfPresent and Concat.

Values replace placeholders in values, never in serialized JSON, so a quote in a value breaks nothing. What a value
contains is not searched for placeholders again. Text that only looks like a placeholder stays as it is; a name that
the component does not have is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.pipelines.task import Artifact, RunInfo, TaskFailed, TaskLaunch, local_path, parameter_file
from muster.pipelines.values import to_text
from muster.workflows.lang.limits import count_text

WORKSPACE = "/kfp-workspace"
_PLACEHOLDER = re.compile(r"\{\{\$(\.[A-Za-z_][^{}]*)?\}\}")
_MEMBER = re.compile(r"\.([A-Za-z_]\w*)|\[(?:'([^']*)'|\"([^\"]*)\"|(\d+))\]")
_STRUCTURED = re.compile(r'\s*\{\s*"(?:IfPresent|Concat)"\s*:')
_DEEPEST = 20


def resolve_arguments(arguments: Sequence[str], launch: TaskLaunch) -> list[str]:
    """Returns a command or its arguments with everything filled in. Raises TaskFailed."""
    scope = _Scope(launch)
    return [text for argument in arguments for text in _expand(_parse(argument), scope, 0)]


def resolve_text(text: str, launch: TaskLaunch) -> str:
    """Returns one text of the container, such as its image. Raises TaskFailed."""
    return _fill(text, _Scope(launch).text)


def resolve_value(value: Any, parameters: Mapping[str, Any], names: Mapping[str, str] | None = None) -> Any:
    """Returns a constant input with the values of other inputs of its task filled in, which is what becomes of an
    f-string in a pipeline function, and with `names`: `{"pipeline_job_name": "my run"}`."""

    def text_of(path: str) -> str | None:
        members = _members(path)
        if members is not None and len(members) == 1 and names is not None:
            return names.get(members[0])
        if members is None or len(members) != 3 or members[:2] != ["inputs", "parameters"]:
            return None
        if members[2] not in parameters:
            return None  # a placeholder for the container, which knows more
        return to_text(parameters[members[2]])

    return _map_strings(value, lambda text: _fill(text, text_of))


def has_workspace_placeholder(value: Any) -> bool:
    """Whether a value, or a text in it, contains `{{$.workspace_path}}`."""
    if isinstance(value, str):
        return "{{$.workspace_path}}" in value
    if isinstance(value, dict):
        return any(map(has_workspace_placeholder, value.values()))
    return isinstance(value, list) and any(map(has_workspace_placeholder, value))


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _map_strings(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [_map_strings(inner, change) for inner in value]
    return value


def _parse(argument: str) -> Any:
    """Returns the object of an argument that is IfPresent or Concat, else the text."""
    if not _STRUCTURED.match(argument):
        return argument
    try:
        return json.loads(argument)
    except (ValueError, RecursionError):
        return argument


def _expand(part: Any, scope: _Scope, depth: int) -> list[str]:
    if depth > _DEEPEST:
        raise TaskFailed(f"IfPresent and Concat are nested more than {_DEEPEST} levels deep")
    if isinstance(part, str):
        inner = _parse(part) if depth else part
        return [_fill(part, scope.text)] if isinstance(inner, str) else _expand(inner, scope, depth + 1)
    if isinstance(part, list):
        return [text for each in part for text in _expand(each, scope, depth + 1)]
    if isinstance(part, dict) and len(part) == 1 and isinstance(part.get("Concat"), list):
        return ["".join(text for each in part["Concat"] for text in _expand(each, scope, depth + 1))]
    if isinstance(part, dict) and len(part) == 1 and isinstance(part.get("IfPresent"), dict):
        choice = part["IfPresent"]
        chosen = choice.get("Then") if scope.is_present(str(choice.get("InputName"))) else choice.get("Else")
        return _expand(chosen, scope, depth + 1) if chosen is not None else []
    return [_fill(to_text(part), scope.text)]


def _fill(text: str, text_of: Callable[[str], str | None]) -> str:
    if "{{$" not in text:
        return text

    def replaced(found: re.Match[str]) -> str:
        value = text_of(found[1] or "")
        count_text(len(value or ""))
        return found[0] if value is None else value

    return _PLACEHOLDER.sub(replaced, text)


def _members(path: str) -> list[str] | None:
    """Returns `['inputs', 'parameters', 'n']` for `.inputs.parameters['n']`, or None if this is no such path."""
    found, at = list[str](), 0
    while at < len(path):
        match = _MEMBER.match(path, at)
        if match is None:
            return None
        found.append(next(group for group in match.groups() if group is not None))
        at = match.end()
    return found


def names_of(run: RunInfo, task_name: str, task_id: str) -> dict[str, str]:
    """Returns what the placeholders about a run and a task stand for."""
    return {
        "pipeline_root": run.pipeline_root,
        "pipeline_job_name": run.display_name,
        "pipeline_job_resource_name": run.workflow_name,
        "pipeline_job_uuid": run.run_id,
        "pipeline_task_name": task_name,
        "pipeline_task_uuid": task_id,
        "pipeline_job_create_time_utc": run.created,
        "pipeline_job_schedule_time_utc": run.scheduled or run.created,
    }


class _Scope:
    """What the placeholders of one task stand for."""

    def __init__(self, launch: TaskLaunch) -> None:
        self.launch = launch
        self.simple = {
            **names_of(launch.run, launch.task_name, launch.task_id),
            "workspace_path": WORKSPACE,
            "outputMetadataUri": launch.output_file,
        }

    def is_present(self, name: str) -> bool:
        return name in self.launch.inputs.parameters or bool(self.launch.inputs.artifacts.get(name))

    def text(self, path: str) -> str | None:
        """Returns the text of a placeholder, or None if it is not one. Raises TaskFailed."""
        if not path:
            return json.dumps(self.launch.executor_input(), ensure_ascii=False)
        members = _members(path)
        if members is None:
            return None
        match members:
            case [name] if name in self.simple:
                return self.simple[name]
            case ["inputs"]:
                return json.dumps(self.launch.executor_input()["inputs"], ensure_ascii=False)
            case ["outputs"]:
                return json.dumps(self.launch.executor_input()["outputs"], ensure_ascii=False)
            case ["outputs", "output_file" | "outputFile"]:
                return self.launch.output_file
            case ["inputs", "parameters", name]:
                return self._parameter(name)
            case ["inputs", "artifacts", name, *rest]:
                inputs = self.launch.inputs.artifacts
                return self._artifact(inputs, name, rest, name in self.launch.component.input_definitions.artifacts)
            case ["outputs", "parameters", name, "output_file" | "outputFile"]:
                if name not in self.launch.component.output_definitions.parameters:
                    raise self._unknown("output parameter", name)
                return parameter_file(name)
            case ["outputs", "artifacts", name, *rest]:
                outputs = self.launch.output_artifacts
                return self._artifact(outputs, name, rest, name in self.launch.component.output_definitions.artifacts)
        return None

    def _parameter(self, name: str) -> str:
        if name in self.launch.inputs.parameters:
            # A value may name the workspace, whose path is the same for all tasks.
            return to_text(self.launch.inputs.parameters[name]).replace("{{$.workspace_path}}", WORKSPACE)
        if name in self.launch.component.input_definitions.parameters:
            return ""
        raise self._unknown("input parameter", name)

    def _artifact(
        self, artifacts: Mapping[str, tuple[Artifact, ...]], name: str, rest: list[str], declared: bool
    ) -> str | None:
        listed = artifacts.get(name) or ()
        if not listed:
            if declared:
                return ""
            raise self._unknown("artifact", name)
        match rest:
            case []:
                found = [{n: v for n, v in each.to_json().items() if n != "location"} for each in listed]
                return json.dumps(found[0] if len(found) == 1 else found, ensure_ascii=False)
            case ["uri"]:
                return listed[0].uri
            case ["path"]:
                return local_path(listed[0].uri)
            case ["metadata"]:
                return json.dumps(dict(listed[0].metadata), ensure_ascii=False)
            case ["metadata", key]:
                return to_text(listed[0].metadata.get(key, ""))
        return None

    def _unknown(self, what: str, name: str) -> TaskFailed:
        return TaskFailed(f'the command of component {self.launch.component_name} has no {what} "{name}"')
