"""The IR of Kubeflow Pipelines as frozen dataclasses, and the decoder that reads them from JSON.

A class has the fields of its protobuf message (`pipeline_spec.proto`) under the same names. Fields that a file may have
and that mean nothing here are read and kept, so that only unknown ones are refused. `spec.py` has the rules that
go beyond the form of a file.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar

from muster.kube.errors import Cause, closest_word, join_path, type_mismatch

ParameterType = Literal[
    "PARAMETER_TYPE_ENUM_UNSPECIFIED",
    "NUMBER_DOUBLE",
    "NUMBER_INTEGER",
    "STRING",
    "BOOLEAN",
    "LIST",
    "STRUCT",
    "TASK_FINAL_STATUS",
    "TASK_CONFIG",
]
Strategy = Literal[
    "TRIGGER_STRATEGY_UNSPECIFIED", "ALL_UPSTREAM_TASKS_SUCCEEDED", "ALL_UPSTREAM_TASKS_COMPLETED"
]  # fmt: skip
T = TypeVar("T")
CHANNEL_PREFIX = "pipelinechannel--"
"""Inputs that the SDK added to a DAG begin with it: values that tasks inside take from outside."""


@dataclass(frozen=True, slots=True)
class ArtifactType:
    schema_title: str = ""
    schema_uri: str = ""
    instance_schema: str = ""
    schema_version: str = ""


@dataclass(frozen=True, slots=True)
class InputParameter:
    parameter_type: ParameterType = "PARAMETER_TYPE_ENUM_UNSPECIFIED"
    default_value: Any = None
    is_optional: bool = False
    description: str = ""
    literals: tuple[Any, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class InputArtifact:
    artifact_type: ArtifactType = ArtifactType()
    is_artifact_list: bool = False
    is_optional: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class InputDefinitions:
    parameters: Mapping[str, InputParameter] = field(default_factory=dict)
    artifacts: Mapping[str, InputArtifact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputParameter:
    parameter_type: ParameterType = "PARAMETER_TYPE_ENUM_UNSPECIFIED"
    description: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class OutputArtifact:
    artifact_type: ArtifactType = ArtifactType()
    properties: Mapping[str, Any] = field(default_factory=dict)
    custom_properties: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_artifact_list: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class OutputDefinitions:
    parameters: Mapping[str, OutputParameter] = field(default_factory=dict)
    artifacts: Mapping[str, OutputArtifact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParameterSelector:
    producer_subtask: str = ""
    output_parameter_key: str = ""


@dataclass(frozen=True, slots=True)
class ParameterSelectors:
    parameter_selectors: tuple[ParameterSelector, ...] = ()


@dataclass(frozen=True, slots=True)
class DagOutputParameter:
    value_from_parameter: ParameterSelector | None = None
    value_from_oneof: ParameterSelectors | None = None

    @property
    def selectors(self) -> tuple[ParameterSelector, ...]:
        if self.value_from_oneof is not None:
            return self.value_from_oneof.parameter_selectors
        return (self.value_from_parameter,) if self.value_from_parameter is not None else ()


@dataclass(frozen=True, slots=True)
class ArtifactSelector:
    producer_subtask: str = ""
    output_artifact_key: str = ""


@dataclass(frozen=True, slots=True)
class DagOutputArtifact:
    artifact_selectors: tuple[ArtifactSelector, ...] = ()


@dataclass(frozen=True, slots=True)
class DagOutputs:
    parameters: Mapping[str, DagOutputParameter] = field(default_factory=dict)
    artifacts: Mapping[str, DagOutputArtifact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskOutputParameter:
    producer_task: str = ""
    output_parameter_key: str = ""


@dataclass(frozen=True, slots=True)
class TaskFinalStatus:
    producer_task: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeValue:
    """A constant, or the name of an input of the component."""

    constant: Any = None
    runtime_parameter: str = ""
    constant_value: Any = None
    """The same in the older form: `{"intValue": "3"}`, with 64-bit numbers as text."""

    @property
    def value(self) -> Any:
        if self.constant is not None or not isinstance(self.constant_value, dict):
            return self.constant
        for kind, value in self.constant_value.items():
            is_number = kind == "intValue" and isinstance(value, str) and len(value) < 21
            return int(value) if is_number and value.removeprefix("-").isdecimal() else value
        return None


@dataclass(frozen=True, slots=True)
class TaskInputParameter:
    task_output_parameter: TaskOutputParameter | None = None
    runtime_value: RuntimeValue | None = None
    component_input_parameter: str = ""
    task_final_status: TaskFinalStatus | None = None
    parameter_expression_selector: str = ""


@dataclass(frozen=True, slots=True)
class TaskOutputArtifact:
    producer_task: str = ""
    output_artifact_key: str = ""


@dataclass(frozen=True, slots=True)
class TaskInputArtifact:
    task_output_artifact: TaskOutputArtifact | None = None
    component_input_artifact: str = ""


@dataclass(frozen=True, slots=True)
class TaskInputsSpec:
    parameters: Mapping[str, TaskInputParameter] = field(default_factory=dict)
    artifacts: Mapping[str, TaskInputArtifact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    name: str = ""


@dataclass(frozen=True, slots=True)
class CachingOptions:
    enable_cache: bool = False
    cache_key: str = ""


@dataclass(frozen=True, slots=True)
class ComponentRef:
    name: str = ""


@dataclass(frozen=True, slots=True)
class TriggerPolicy:
    condition: str = ""
    strategy: Strategy = "TRIGGER_STRATEGY_UNSPECIFIED"


@dataclass(frozen=True, slots=True)
class ParameterItems:
    raw: str = ""
    input_parameter: str = ""


@dataclass(frozen=True, slots=True)
class ParameterIterator:
    items: ParameterItems = ParameterItems()
    item_input: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactItems:
    input_artifact: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactIterator:
    items: ArtifactItems = ArtifactItems()
    item_input: str = ""


@dataclass(frozen=True, slots=True)
class IteratorPolicy:
    parallelism_limit: int = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_retry_count: int = 0
    backoff_duration: str = ""
    backoff_factor: float = 0
    backoff_max_duration: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    component_ref: ComponentRef = ComponentRef()
    task_info: TaskInfo = TaskInfo()
    inputs: TaskInputsSpec = field(default_factory=TaskInputsSpec)
    dependent_tasks: tuple[str, ...] = ()
    caching_options: CachingOptions = CachingOptions()
    trigger_policy: TriggerPolicy = TriggerPolicy()
    artifact_iterator: ArtifactIterator | None = None
    parameter_iterator: ParameterIterator | None = None
    retry_policy: RetryPolicy | None = None
    iterator_policy: IteratorPolicy = IteratorPolicy()

    @property
    def runs_after_failures(self) -> bool:
        """Whether it runs however its upstream tasks ended: an exit task, or `ignore_upstream_failure()`."""
        return self.trigger_policy.strategy == "ALL_UPSTREAM_TASKS_COMPLETED"

    @property
    def is_loop(self) -> bool:
        return self.parameter_iterator is not None or self.artifact_iterator is not None

    def upstream(self) -> tuple[str, ...]:
        """Returns the tasks it waits for: those it names, and those whose outputs or status it takes."""
        found = dict.fromkeys(self.dependent_tasks)
        for parameter in self.inputs.parameters.values():
            for source in (parameter.task_output_parameter, parameter.task_final_status):
                if source is not None:
                    found[source.producer_task] = None
        for artifact in self.inputs.artifacts.values():
            if artifact.task_output_artifact is not None:
                found[artifact.task_output_artifact.producer_task] = None
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Dag:
    tasks: Mapping[str, Task] = field(default_factory=dict)
    outputs: DagOutputs = field(default_factory=DagOutputs)


@dataclass(frozen=True, slots=True)
class TaskConfigPassthrough:
    field: str = ""
    apply_to_task: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    input_definitions: InputDefinitions = field(default_factory=InputDefinitions)
    output_definitions: OutputDefinitions = field(default_factory=OutputDefinitions)
    dag: Dag | None = None
    executor_label: str = ""
    single_platform_specs: tuple[Any, ...] = ()
    task_config_passthroughs: tuple[TaskConfigPassthrough, ...] = ()


@dataclass(frozen=True, slots=True)
class Accelerator:
    type: str = ""
    count: int = 0
    resource_type: str = ""
    resource_count: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    cpu_limit: float = 0
    memory_limit: float = 0
    cpu_request: float = 0
    memory_request: float = 0
    resource_cpu_limit: str = ""
    resource_memory_limit: str = ""
    resource_cpu_request: str = ""
    resource_memory_request: str = ""
    accelerator: Accelerator | None = None


@dataclass(frozen=True, slots=True)
class EnvVar:
    name: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    lifecycle: Any = None
    resources: Resources = Resources()
    env: tuple[EnvVar, ...] = ()


@dataclass(frozen=True, slots=True)
class ImporterSpec:
    artifact_uri: RuntimeValue = RuntimeValue()
    type_schema: ArtifactType = ArtifactType()
    properties: Mapping[str, Any] = field(default_factory=dict)
    custom_properties: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reimport: bool = False
    download_to_workspace: bool = False


@dataclass(frozen=True, slots=True)
class ExecutorSpec:
    container: ContainerSpec | None = None
    importer: ImporterSpec | None = None
    resolver: Any = None
    custom_job: Any = None


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    executors: Mapping[str, ExecutorSpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineInfo:
    name: str = ""
    display_name: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    pipeline_info: PipelineInfo = PipelineInfo()
    schema_version: str = ""
    sdk_version: str = ""
    default_pipeline_root: str = ""
    components: Mapping[str, Component] = field(default_factory=dict)
    root: Component = field(default_factory=Component)
    deployment_spec: DeploymentSpec = field(default_factory=DeploymentSpec)


@dataclass(frozen=True, slots=True)
class KubernetesWorkspace:
    pvc_spec_patch: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workspace:
    size: str = ""
    kubernetes: KubernetesWorkspace = field(default_factory=KubernetesWorkspace)


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    workspace: Workspace | None = None
    resource_ttl_on_completion: int = 0
    resource_ttl_on_success: int = 0
    resource_ttl_on_failure: int = 0
    active_deadline_seconds: int = 0
    semaphore_key: str = ""
    mutex_name: str = ""


@dataclass(frozen=True, slots=True)
class PlatformDeployment:
    executors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By executor label: what `kfp.kubernetes` configured, as it is written."""


@dataclass(frozen=True, slots=True)
class SinglePlatformSpec:
    deployment_spec: PlatformDeployment = field(default_factory=PlatformDeployment)
    platform: str = ""
    version: str = ""
    config: Any = None
    pipeline_config: PipelineConfig = field(default_factory=PipelineConfig)


@dataclass(frozen=True, slots=True)
class PlatformSpec:
    platforms: Mapping[str, SinglePlatformSpec] = field(default_factory=dict)

    @property
    def kubernetes(self) -> SinglePlatformSpec:
        return self.platforms.get("kubernetes") or SinglePlatformSpec()


# The decoder.


def decode(cls: type[T], value: Any, path: str, causes: list[Cause]) -> T:
    """Reads a message from JSON. Names may be written in camelCase or snake_case, as protobuf allows. What is wrong is
    added to `causes`, and the result is then not to be used."""
    decoded: T = _decode(cls, value, path, causes)
    return decoded


def _decode(wanted: Any, value: Any, path: str, causes: list[Cause]) -> Any:
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _decode(typing.get_args(wanted)[0], value, path, causes)
    if dataclasses.is_dataclass(wanted):
        return _decode_message(wanted, value, path, causes)
    if origin is tuple:
        return tuple(_decode_items(typing.get_args(wanted)[0], value, path, causes))
    if origin is not None and issubclass(origin, Mapping) if isinstance(origin, type) else False:
        return _decode_map(typing.get_args(wanted)[1], value, path, causes)
    if origin is Literal:
        return _decode_enum(typing.get_args(wanted), value, path, causes)
    return _decode_scalar(wanted, value, path, causes)


def _decode_message(cls: Any, value: Any, path: str, causes: list[Cause]) -> Any:
    if not isinstance(value, dict):
        causes.append(_wrong_type(path, value, "object"))
        return cls()
    known = _fields(cls)
    given: dict[str, Any] = {}
    for name, inner in value.items():
        found = known.get(name)
        if found is None:
            near = closest_word(name, known)
            causes.append(Cause(join_path(path, name), f'unknown field "{name}"{_meant(near)}'))
        elif inner is not None:
            given[found[0]] = _decode(found[1], inner, join_path(path, name), causes)
    return cls(**given)


def _decode_map(inner: Any, value: Any, path: str, causes: list[Cause]) -> dict[str, Any]:
    if not isinstance(value, dict):
        causes.append(_wrong_type(path, value, "object"))
        return {}
    if inner is Any:
        return value
    return {name: _decode(inner, item, join_path(path, name), causes) for name, item in value.items()}


def _decode_items(inner: Any, value: Any, path: str, causes: list[Cause]) -> Iterator[Any]:
    if not isinstance(value, list):
        causes.append(_wrong_type(path, value, "array"))
        return
    for index, item in enumerate(value):
        yield _decode(inner, item, f"{path}[{index}]", causes)


def _decode_enum(names: tuple[str, ...], value: Any, path: str, causes: list[Cause]) -> Any:
    if isinstance(value, str) and value in names:
        return value
    causes.append(Cause(path, f"unknown value {value!r}: use one of {', '.join(names)}"))
    return names[0]


def _decode_scalar(wanted: Any, value: Any, path: str, causes: list[Cause]) -> Any:
    if wanted is Any:
        return value
    if wanted is bool and isinstance(value, bool):
        return value
    if wanted is str and isinstance(value, str):
        return value
    if wanted is int and not isinstance(value, bool):
        # protobuf writes 64-bit integers as strings
        if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            return int(value)
        if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 20:
            return int(value)
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    causes.append(_wrong_type(path, value, names[wanted]))
    return wanted()


def _wrong_type(path: str, value: Any, wanted: str) -> Cause:
    return Cause(path, type_mismatch(value, wanted).message)


def _meant(near: str | None) -> str:
    return f'; did you mean "{near}"?' if near else ""


@cache
def _fields(cls: Any) -> dict[str, tuple[str, Any]]:
    """Returns the fields of a message by each of their two names."""
    hints = typing.get_type_hints(cls)
    found: dict[str, tuple[str, Any]] = {}
    for each in dataclasses.fields(cls):
        found[_camel_case(each.name)] = found[each.name] = (each.name, hints[each.name])
    return found


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
