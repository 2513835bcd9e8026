"""The cache of pipelines: which earlier execution of a component stands for a new one.

The key covers what a result depends on: inputs, declared outputs, and the container with its image, its code (the
command and arguments before substitution) and its environment. Two tasks of one pipeline with equal keys share a
result. Results are stored by the engine's memoization in one ConfigMap for each pipeline of a namespace.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from muster.pipelines.task import Artifact, TaskLaunch

_LONGEST_NAME = 253


def cache_key(launch: TaskLaunch, chosen: str = "") -> str:
    """Returns the key of an execution. Values that differ in type differ in the key: `1` is not `"1"`. A key that the
    user has chosen (`set_caching_options(cache_key=...)`) stands for all but the component."""
    component, container = launch.component, launch.container
    if chosen:
        return _digest({"component": launch.component_name, "chosen": chosen})
    found: dict[str, Any] = {
        "component": launch.component_name,
        "parameters": dict(sorted(launch.inputs.parameters.items())),
        "artifacts": {
            name: [_identity(artifact) for artifact in listed]
            for name, listed in sorted(launch.inputs.artifacts.items())
        },
        "outputParameters": {
            name: each.parameter_type for name, each in sorted(component.output_definitions.parameters.items())
        },
        "outputArtifacts": {
            name: [asdict(each.artifact_type), each.metadata]
            for name, each in sorted(component.output_definitions.artifacts.items())
        },
        "image": container.image,
        "command": [*container.command, None, *container.args],
        "env": sorted((each.name, each.value) for each in container.env),
        "claims": sorted(json.dumps(mount, sort_keys=True) for mount in launch.platform.get("pvcMount") or ()),
    }
    return _digest(found)


def _digest(found: dict[str, Any]) -> str:
    text = json.dumps(found, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def cache_name(pipeline: str) -> str:
    """Returns the ConfigMap that holds the cache of a pipeline."""
    return f"pipeline-cache-{pipeline}"[:_LONGEST_NAME].rstrip("-")


def _identity(artifact: Artifact) -> list[Any]:
    """Every execution writes to a uri of its own, so a uri says which bytes these are. A hit returns the artifacts of
    the earlier execution, so what follows is found as well."""
    return [artifact.uri, artifact.type.schema_title, dict(artifact.metadata)]
