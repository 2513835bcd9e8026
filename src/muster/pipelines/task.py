"""One task of a run as data: what is handed to the container that runs it, and what comes back.

This is the contract between the engine's side (`resolver.py`) and the executor's side (`executor.py`):

- `executor.template_of(launch)` returns the Argo template of the task's Pod: a container with its command after
  substitution, volumes, and declared outputs.
- `executor.read_outputs(launch, outputs)` turns what the Pod left (`Outputs` of the node, as the Pod executor collected
  it by that template) into `TaskOutputs`. It raises TaskFailed if a declared output parameter is missing or has
  the wrong type; then the task has failed.

Both are pure. Everything in here can be written as JSON and read again, because it is a part of the workflow's record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.pipelines.model import ArtifactType, Component, ContainerSpec, PipelineConfig
from muster.pipelines.object_stores import NO_STORES, ObjectStores

TASK_INPUTS = "kfp-inputs"
"""The input parameter of a node that holds its TaskInputs as JSON, beside one parameter as text for each value."""
TASK_OUTPUTS = "kfp-outputs"
"""The same for the outputs of a node."""


class TaskFailed(Exception):
    """The task has failed: its message says why."""


@dataclass(frozen=True, slots=True)
class Artifact:
    name: str
    uri: str
    type: ArtifactType = field(default_factory=ArtifactType)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    location: Mapping[str, Any] = field(default_factory=dict)
    """Where its bytes are, as an artifact location of Argo (`{"local": {...}}`, `{"s3": {...}}`). Empty if they are
    where the uri says: imported artifacts, and those that wrote nothing."""

    def to_json(self) -> dict[str, Any]:
        """Returns it as ExecutorInput has it, with the location."""
        kind = {"schemaTitle": self.type.schema_title, "schemaVersion": self.type.schema_version}
        if self.type.instance_schema:
            kind = {"instanceSchema": self.type.instance_schema}
        found = {"name": self.name, "uri": self.uri, "type": {n: v for n, v in kind.items() if v}}
        found["metadata"] = dict(self.metadata)
        return {**found, "location": dict(self.location)} if self.location else found

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Artifact:
        kind = _mapping(value.get("type"))
        return Artifact(
            name=str(value.get("name") or ""),
            uri=str(value.get("uri") or ""),
            type=ArtifactType(
                schema_title=str(kind.get("schemaTitle") or ""),
                instance_schema=str(kind.get("instanceSchema") or ""),
                schema_version=str(kind.get("schemaVersion") or ""),
            ),
            metadata=_mapping(value.get("metadata")),
            location=_mapping(value.get("location")),
        )


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """Values of inputs, in the form that `inputs` of an ExecutorInput has. An unset optional input is absent."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"parameterValues": dict(self.parameters)}
        if self.artifacts:
            found["artifacts"] = _artifacts_to_json(self.artifacts)
        return found

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> TaskInputs:
        return TaskInputs(_mapping(value.get("parameterValues")), _artifacts_from_json(value.get("artifacts")))


@dataclass(frozen=True, slots=True)
class TaskOutputs:
    parameters: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"parameterValues": dict(self.parameters)}
        if self.artifacts:
            found["artifacts"] = _artifacts_to_json(self.artifacts)
        return found

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> TaskOutputs:
        return TaskOutputs(_mapping(value.get("parameterValues")), _artifacts_from_json(value.get("artifacts")))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What every task of a run has in common."""

    run_id: str
    display_name: str
    workflow_name: str
    namespace: str
    pipeline_name: str
    pipeline_root: str
    """Below it are the artifacts: `minio://mlpipeline/v2/artifacts` unless the run or the pipeline says otherwise."""
    created: str = ""
    """RFC 3339."""
    scheduled: str = ""
    pipeline_config: PipelineConfig = field(default_factory=PipelineConfig)
    workspace_claim: str = ""
    """The claim of `/kfp-workspace`, if the pipeline has one."""
    stores: ObjectStores = NO_STORES
    """The stores for which the namespace has credentials."""


@dataclass(frozen=True, slots=True)
class TaskLaunch:
    """Everything that the executor needs to know about one task (one iteration, if it is in a loop)."""

    run: RunInfo
    task_name: str
    """The key of the task in its DAG."""
    task_id: str
    """Unique in the run and the same after a restart: the id of its node. Retries of a task share it."""
    component_name: str
    component: Component
    container: ContainerSpec
    """As in the IR: command, args, image and resources still have their placeholders."""
    inputs: TaskInputs
    """All inputs with a value: given ones and defaults, converted to their declared types."""
    task_root: str
    """`<pipeline root>/<pipeline>/<run id>/<task>/<task id>`: output artifacts and the output file are below it."""
    platform: Mapping[str, Any] = field(default_factory=dict)
    """`platforms.kubernetes.deploymentSpec.executors.<label>`, with every `...Parameter` and `...Json` input replaced
    by its value: `{"secretNameParameter": {"constant": "my-secret"}}`. An entry whose optional value is absent is
    left out."""
    output_artifacts: Mapping[str, tuple[Artifact, ...]] = field(default_factory=dict)
    """The artifacts that it is to produce, with their uris, by output. A list output has none yet."""

    def executor_input(self) -> dict[str, Any]:
        """Returns the ExecutorInput, which `{{$}}` stands for."""
        inputs = TaskInputs(self.inputs.parameters, self.inputs.artifacts).to_json()
        for listed in (inputs.get("artifacts") or {}).values():
            for artifact in listed["artifacts"]:
                artifact.pop("location", None)
        outputs: dict[str, Any] = {"outputFile": self.output_file}
        names = self.component.output_definitions.parameters
        if names:
            outputs["parameters"] = {name: {"outputFile": parameter_file(name)} for name in names}
        if self.component.output_definitions.artifacts:
            outputs["artifacts"] = _artifacts_to_json(self.output_artifacts)
        return {"inputs": inputs, "outputs": outputs}

    @property
    def output_file(self) -> str:
        """The file in the container for the ExecutorOutput. `dsl.get_uri()` takes its folder for the task's root."""
        return f"{local_path(self.task_root)}/output_metadata.json"


def parameter_file(name: str) -> str:
    """Returns the file in the container for an output parameter."""
    return f"/tmp/kfp/outputs/{name}"  # noqa: S108 (it is in the container)


_MOUNTS = {"gs://": "/gcs/", "minio://": "/minio/", "s3://": "/s3/"}


def local_path(uri: str) -> str:
    """Returns the path in the container that stands for a uri, as the SDK computes it."""
    for scheme, folder in _MOUNTS.items():
        if uri.startswith(scheme):
            return folder + uri.removeprefix(scheme)
    if uri.startswith("oci://"):
        return "/oci/" + uri.removeprefix("oci://").replace("/", "_") + "/models"
    return uri


def _artifacts_to_json(artifacts: Mapping[str, tuple[Artifact, ...]]) -> dict[str, Any]:
    return {name: {"artifacts": [each.to_json() for each in listed]} for name, listed in artifacts.items()}


def _artifacts_from_json(value: Any) -> dict[str, tuple[Artifact, ...]]:
    found = {}
    for name, named in _mapping(value).items():
        listed = _mapping(named).get("artifacts")
        found[name] = tuple(Artifact.from_json(_mapping(each)) for each in (listed if isinstance(listed, list) else ()))
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    """Anyone who may write Workflows can write the nodes that this comes from. What is no object counts as empty."""
    return value if isinstance(value, dict) else {}
