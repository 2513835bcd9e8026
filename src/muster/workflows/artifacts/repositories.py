"""Which artifact repository a workflow uses: one that a ConfigMap describes, else the box's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from muster.kube.builtin import CONFIG_MAP
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Object, annotations_of, namespace_of, spec_of, status_of
from muster.workflows.artifacts.locations import LOCAL, kind_of
from muster.workflows.artifacts.problems import ArtifactError

CONFIG_MAP_NAME = "artifact-repositories"
DEFAULT_ANNOTATION = "workflows.argoproj.io/default-artifact-repository"


async def repository_of(
    cluster: Cluster, workflow: Object, default: Mapping[str, Any] = LOCAL, system_namespace: str = ""
) -> Mapping[str, Any]:
    """What `status.artifactRepositoryRef` has fixed, or `spec.artifactRepositoryRef` names (in the workflow's namespace
    or in the system's), or the ConfigMap `artifact-repositories` of the namespace says, or else the default."""
    fixed = status_of(workflow).get("artifactRepositoryRef") or {}
    if fixed.get("artifactRepository"):
        found: Mapping[str, Any] = fixed["artifactRepository"]
        return found
    wanted = spec_of(workflow).get("artifactRepositoryRef")
    namespaces = [namespace_of(workflow), *([system_namespace] if wanted and system_namespace else [])]
    for namespace in namespaces:
        repository = await _described(cluster, namespace, wanted or {})
        if repository is not None:
            return repository if kind_of(repository) else {**LOCAL, **repository}
    if not wanted:
        return default
    name, key = wanted.get("configMap") or CONFIG_MAP_NAME, wanted.get("key") or "(its default)"
    raise ArtifactError(
        f'spec.artifactRepositoryRef: there is no ConfigMap "{name}" with the key "{key}" in the namespace '
        f'"{namespace_of(workflow)}"'
    )


async def _described(cluster: Cluster, namespace: str, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    name = wanted.get("configMap") or CONFIG_MAP_NAME
    try:
        config_map = await cluster.get(CONFIG_MAP, name, namespace)
    except NotFound:
        return None
    key = wanted.get("key") or annotations_of(config_map).get(DEFAULT_ANNOTATION) or ""
    text = (config_map.get("data") or {}).get(key)
    if text is None:
        return None
    try:
        repository = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ArtifactError(f'ConfigMap "{name}", key "{key}": this is no YAML: {error}') from None
    if not isinstance(repository, dict):
        raise ArtifactError(f'ConfigMap "{name}", key "{key}": an artifact repository is needed: s3: {{bucket: ...}}')
    return repository if kind_of(repository) else {**LOCAL, **repository}
