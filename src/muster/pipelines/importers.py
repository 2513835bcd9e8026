"""Importers (`dsl.importer`): they make an artifact of something that exists already. Pure.

An importer copies nothing and runs nothing: its consumers fetch what its uri says. One with `download_to_workspace`
copies it into the workspace of the run, in a Pod, because only a Pod has the workspace.
"""

from __future__ import annotations

from dataclasses import replace

from muster.pipelines.executor import location_of_uri
from muster.pipelines.model import Component, ContainerSpec, ImporterSpec
from muster.pipelines.placeholders import WORKSPACE, resolve_value
from muster.pipelines.task import Artifact, TaskFailed, TaskInputs, TaskLaunch, TaskOutputs, local_path

IN_WORKSPACE = "_kfp_workspace"
"""In the metadata of an artifact: it is in the workspace, below `.artifacts`. The SDK looks for it there."""
_COPY = 'mkdir -p "$(dirname "$1")" && rm -rf "$1" && cp -R "$0" "$1"'


def imported(importer: ImporterSpec, component: Component, inputs: TaskInputs) -> TaskOutputs:
    """Returns the outputs of an importer. Raises TaskFailed."""
    source = importer.artifact_uri
    uri = inputs.parameters.get(source.runtime_parameter) if source.runtime_parameter else source.value
    uri = resolve_value(uri, inputs.parameters)
    if not isinstance(uri, str) or not uri:
        raise TaskFailed("the uri of the importer has no value")
    metadata = resolve_value(dict(importer.metadata), inputs.parameters)
    if importer.download_to_workspace:
        metadata = {**metadata, IN_WORKSPACE: True}
    artifacts = {
        name: (Artifact(name, uri, importer.type_schema, metadata),) for name in component.output_definitions.artifacts
    }
    return TaskOutputs({}, artifacts)


def copy_to_workspace(launch: TaskLaunch, outputs: TaskOutputs) -> TaskLaunch:
    """Returns the launch of the container that copies an imported artifact into the workspace. Raises TaskFailed."""
    if not launch.run.workspace_claim:
        raise TaskFailed(
            "download_to_workspace needs a workspace: set dsl.PipelineConfig(workspace=dsl.WorkspaceConfig(size=...))"
        )
    (artifact,) = next(iter(outputs.artifacts.values()))
    path = local_path(artifact.uri)
    if not location_of_uri(artifact.uri, launch.run.stores) and not path.startswith("/"):
        raise TaskFailed(f"{artifact.uri} cannot be fetched: use gs://, s3://, or an artifact of another run")
    fetched = replace(artifact, metadata={})
    copy = ["sh", "-ec", _COPY, path, f"{WORKSPACE}/.artifacts/{path.lstrip('/')}"]
    return replace(
        launch,
        container=ContainerSpec(image="busybox", command=tuple(copy)),
        inputs=TaskInputs({"workspace": "{{$.workspace_path}}"}, {"artifact": (fetched,)}),
        component=Component(),
        output_artifacts={},
    )
