"""Resolves the inputs of a task from typed values: those of its DAG, and the outputs of the tasks before it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.pipelines.cel import CelError, select
from muster.pipelines.model import (
    CHANNEL_PREFIX,
    Component,
    DagOutputs,
    InputParameter,
    Task,
    TaskInputParameter,
    decode,
)
from muster.pipelines.placeholders import resolve_value
from muster.pipelines.task import Artifact, TaskFailed, TaskInputs, TaskOutputs
from muster.pipelines.values import ValueTypeError, convert, to_text, whole_numbers

_INJECTED = ("TASK_FINAL_STATUS", "TASK_CONFIG")
"""Types of inputs that the server fills in."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """How a task of the same DAG has ended."""

    state: str
    """COMPLETE, CACHED, FAILED or SKIPPED."""
    outputs: TaskOutputs = field(default_factory=TaskOutputs)
    message: str = ""


_OLD_SOURCES = ("taskOutputParameter", "componentInputParameter")
"""Fields by which older SDKs say directly in an entry where its name comes from. Newer ones write them beside their
own, such as `pvcNameParameter`, with the same content."""


class InputResolver:
    """Resolves the inputs of a task. `around` are the inputs of its DAG, `tasks` returns the state of another task of
    the DAG by its key, and `names` says what the placeholders about the run and the task stand for."""

    def __init__(self, around: TaskInputs, tasks: Callable[[str], TaskState], names: Mapping[str, str]) -> None:
        self._around = around
        self._tasks = tasks
        self._names = names

    def resolve(self, task: Task, component: Component) -> TaskInputs:
        """Returns the inputs of a task, with the defaults of its component. Raises TaskFailed."""
        declared = component.input_definitions.parameters
        found: dict[str, Any] = {}
        constants = list[str]()
        for name, source in task.inputs.parameters.items():
            if _is_constant(source):
                constants.append(name)  # it may refer to the other inputs
                continue
            value = self.parameter(name, source)
            if value is not None:
                found[name] = value
        for name in constants:
            source = task.inputs.parameters[name]
            value = resolve_value(whole_numbers(_constant(source)), found, self._names)
            if value is not None:
                found[name] = self._select(name, source, value)
        item = task.parameter_iterator.item_input if task.parameter_iterator is not None else ""
        if component.dag is not None:
            # What no task inside uses may be missing; one that uses it says so.
            absent = [name for name in declared if name.startswith(CHANNEL_PREFIX) and found.get(name) is None]
            declared = {name: each for name, each in declared.items() if name not in absent}
        return TaskInputs(with_defaults(found, declared, item), self._artifacts(task, component))

    def parameter(self, name: str, source: TaskInputParameter) -> Any:
        """Returns the value of an input, or None if it has none. Raises TaskFailed."""
        if source.runtime_value is not None:
            if source.runtime_value.runtime_parameter:
                value = self._around.parameters.get(source.runtime_value.runtime_parameter)
            else:
                value = resolve_value(whole_numbers(_constant(source)), self._around.parameters, self._names)
        elif source.component_input_parameter:
            key = source.component_input_parameter
            value = self._around.parameters.get(key)
            if value is None and key.startswith(CHANNEL_PREFIX):
                value = self._around.parameters.get(key.removeprefix(CHANNEL_PREFIX))
        elif source.task_output_parameter is not None:
            taken = source.task_output_parameter
            value = self._tasks(taken.producer_task).outputs.parameters.get(taken.output_parameter_key)
        elif source.task_final_status is not None:
            value = self._final_status(source.task_final_status.producer_task)
        else:
            value = None
        return None if value is None else self._select(name, source, value)

    def platform(self, config: Mapping[str, Any], own: TaskInputs) -> dict[str, Any]:
        """Returns the Kubernetes settings of a task with every reference to an input replaced by a constant. An entry
        whose optional value is absent is left out. Raises TaskFailed."""
        resolved = self._platform_value(config, own)
        return resolved if isinstance(resolved, dict) else {}

    def _platform_value(self, value: Any, own: TaskInputs) -> Any:
        """Returns None for an entry that is to be left out."""
        if isinstance(value, list):
            found = [self._platform_value(each, own) for each in value]
            return [each for each in found if each is not None]
        if not isinstance(value, dict):
            return value
        out: dict[str, Any] = {}
        for name, inner in value.items():
            is_old = name in _OLD_SOURCES
            if is_old and any(other.endswith("Parameter") and other not in _OLD_SOURCES for other in value):
                continue
            if is_old or (isinstance(inner, dict) and name.endswith(("Parameter", "Json"))):
                constant = self._platform_parameter(name, {name: inner} if is_old else inner, own)
                if constant is None:
                    return None
                out[name] = {"constant": constant}
            else:
                changed = self._platform_value(inner, own)
                if changed is not None or inner is None:
                    out[name] = changed
        return out

    def _platform_parameter(self, name: str, written: Mapping[str, Any], own: TaskInputs) -> Any:
        problems: list[Any] = []
        source = decode(TaskInputParameter, dict(written), name, problems)
        if problems:
            raise TaskFailed(f"{problems[0].field}: {problems[0].message}")
        value = self.parameter(name, source)
        if value is None and source.component_input_parameter:
            value = own.parameters.get(source.component_input_parameter)
        return value

    def _artifacts(self, task: Task, component: Component) -> dict[str, tuple[Artifact, ...]]:
        found: dict[str, tuple[Artifact, ...]] = {}
        for name, source in task.inputs.artifacts.items():
            if source.task_output_artifact is not None:
                taken = source.task_output_artifact
                listed = self._tasks(taken.producer_task).outputs.artifacts.get(taken.output_artifact_key) or ()
            else:
                listed = self._around.artifacts.get(source.component_input_artifact) or ()
            if listed:
                found[name] = listed
        iterated = task.artifact_iterator.item_input if task.artifact_iterator is not None else ""
        for name, definition in component.input_definitions.artifacts.items():
            if name not in found and not definition.is_optional and name != iterated:
                if definition.is_artifact_list and name in task.inputs.artifacts:
                    found[name] = ()  # nothing was collected
                    continue
                raise TaskFailed(f'the input artifact "{name}" has no value: nothing produced it')
        return found

    def _select(self, name: str, source: TaskInputParameter, value: Any) -> Any:
        if not source.parameter_expression_selector:
            return value
        try:
            return select(source.parameter_expression_selector, value)
        except CelError as error:
            raise TaskFailed(f'input "{name}": {source.parameter_expression_selector}: {error}') from None

    def _final_status(self, producer: str) -> dict[str, Any]:
        state = self._tasks(producer)
        found: dict[str, Any] = {
            "state": state.state,
            "pipelineTaskName": producer,
            "pipelineJobResourceName": self._names.get("pipeline_job_resource_name", ""),
        }
        if state.message:
            found["error"] = {"message": state.message}
        return found


def with_defaults(given: Mapping[str, Any], declared: Mapping[str, InputParameter], item: str = "") -> dict[str, Any]:
    """Returns the values of parameters, converted to their types, with defaults. `item` is the one that takes the item
    of a loop, later. Raises TaskFailed."""
    found = dict(given)
    for name, definition in declared.items():
        if name == item:
            continue
        value = found.get(name)
        if value is None:
            value = whole_numbers(definition.default_value)
        if value is None:
            found.pop(name, None)
            if not definition.is_optional and definition.parameter_type not in _INJECTED:
                raise TaskFailed(f'the input "{name}" has no value: nothing produced it')
            continue
        try:
            found[name] = convert(value, definition.parameter_type)
        except ValueTypeError as error:
            raise TaskFailed(f'input "{name}": {error}') from None
    return found


def loop_items(task: Task, inputs: TaskInputs) -> list[tuple[str, Any]] | None:
    """Returns the input that takes the item, and its value, for every iteration; None if the task is no loop. Raises
    TaskFailed."""
    if task.artifact_iterator is not None:
        name = task.artifact_iterator.item_input
        return [(name, (each,)) for each in inputs.artifacts.get(task.artifact_iterator.items.input_artifact) or ()]
    if task.parameter_iterator is None:
        return None
    source = task.parameter_iterator.items
    value = source.raw or inputs.parameters.get(source.input_parameter)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list):
        shown = source.input_parameter or "raw"
        raise TaskFailed(f"a loop needs a list, or JSON text of one, and {shown} is none")
    return [(task.parameter_iterator.item_input, whole_numbers(each)) for each in value]


def iteration_inputs(inputs: TaskInputs, component: Component, name: str, item: Any) -> TaskInputs:
    """Returns the inputs of one iteration. Raises TaskFailed."""
    if isinstance(item, tuple):
        return TaskInputs(inputs.parameters, {**inputs.artifacts, name: item})
    if item is None:
        return inputs
    try:
        value = convert(item, component.input_definitions.parameters[name].parameter_type)
    except ValueTypeError as error:
        raise TaskFailed(f'input "{name}": {error}') from None
    return TaskInputs({**inputs.parameters, name: value}, inputs.artifacts)


def collect_iterations(component: Component, iterations: Sequence[TaskOutputs]) -> TaskOutputs:
    """Returns the outputs of a loop: of every parameter the list of its values, in order, of every artifact all of
    them. An iteration in which nothing produced an output adds nothing."""
    outputs = component.output_definitions
    parameters = {
        name: [each.parameters[name] for each in iterations if name in each.parameters] for name in outputs.parameters
    }
    artifacts = {
        name: tuple(artifact for each in iterations for artifact in each.artifacts.get(name) or ())
        for name in outputs.artifacts
    }
    return TaskOutputs(parameters, artifacts)


def select_dag_outputs(outputs: DagOutputs, tasks: Callable[[str], TaskState]) -> TaskOutputs:
    """Returns the outputs of a DAG. Of several sources (`dsl.OneOf`), the first that has a value."""
    parameters: dict[str, Any] = {}
    for name, parameter in outputs.parameters.items():
        for chosen in parameter.selectors:
            values = tasks(chosen.producer_subtask).outputs.parameters
            if chosen.output_parameter_key in values:
                parameters[name] = values[chosen.output_parameter_key]
                break
    artifacts: dict[str, tuple[Artifact, ...]] = {}
    for name, artifact in outputs.artifacts.items():
        for selector in artifact.artifact_selectors:
            listed = tasks(selector.producer_subtask).outputs.artifacts.get(selector.output_artifact_key)
            if listed:
                artifacts[name] = listed
                break
    return TaskOutputs(parameters, artifacts)


def as_parameters(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Returns values as parameters of Argo, which are text."""
    return [{"name": name, "value": to_text(value)} for name, value in values.items()]


def _is_constant(source: TaskInputParameter) -> bool:
    return source.runtime_value is not None and not source.runtime_value.runtime_parameter


def _constant(source: TaskInputParameter) -> Any:
    return source.runtime_value.value if source.runtime_value is not None else None
