"""The annotations by which a Pod asks this agent for more than Kubernetes offers."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from muster.embedded.node.pod_context import ConfigError
from muster.embedded.node.supervisor.contract import ContainerOrder
from muster.kube.node_annotations import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION, STOP_ANNOTATION
from muster.kube.objects import Object, annotations_of, spec_of

_KEPT = "kept"


def output_folder(pods: Path, uid: str, container: str) -> Path:
    """Returns the folder with the copies of the container's output paths, named by their index. `pods` is
    AgentSettings.pods."""
    return pods / uid / _KEPT / container


def output_paths(pod: Object, container: str) -> list[str]:
    """Returns the paths of a container to copy when it has ended. Raises ConfigError."""
    text = annotations_of(pod).get(KEEP_FILES_ANNOTATION)
    if not text:
        return []
    paths = _parse_annotation(KEEP_FILES_ANNOTATION, text).get(container) or []
    if not isinstance(paths, list) or not all(isinstance(p, str) and p.startswith("/") for p in paths):
        raise ConfigError(f"{KEEP_FILES_ANNOTATION}: a list of absolute paths is needed for {container}", container)
    return [posixpath.normpath(path) for path in paths]


def container_order_of(pod: Object) -> ContainerOrder | None:
    """Returns the order of the main containers, if the Pod sets one. Raises ConfigError."""
    text = annotations_of(pod).get(CONTAINERS_ANNOTATION)
    if not text:
        return None
    value = _parse_annotation(CONTAINERS_ANNOTATION, text)
    names = {container.get("name") for container in spec_of(pod).get("containers") or ()}
    leading, after = list(value.get("leading") or ()), dict(value.get("after") or {})
    named = {*leading, *after, *(name for awaited in after.values() for name in awaited)}
    if not leading or not named <= names:
        unknown = ", ".join(sorted(named - names))
        problem = f"the Pod has no container {unknown}" if unknown else "leading: at least one container is needed"
        raise ConfigError(f"{CONTAINERS_ANNOTATION}: {problem}")
    return {
        "leading": leading,
        "after": after,
        "retries": int(value.get("retries") or 0),
        "retrySeconds": float(value.get("retrySeconds") or 0.0),
    }


def requested_stop_grace(pod: Object) -> float | None:
    """Returns the grace period if the annotation asks the Pod to stop."""
    text = annotations_of(pod).get(STOP_ANNOTATION)
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def scratch_folder(folder: str, container: str) -> str:
    """Returns the folder that a container sees as /tmp. `folder` is the Pod's."""
    return f"{folder}/tmp-{container}"


def container_output_folder(folder: str, container: str) -> str:
    return f"{folder}/{_KEPT}/{container}"


def paths_outside_mounts(paths: list[str], targets: list[str]) -> list[str]:
    """Returns the paths that are neither in a mount nor in a file system of the kernel."""
    inside = tuple(f"{target.rstrip('/')}/" for target in (*targets, "/proc", "/sys", "/dev"))
    return [path for path in paths if not f"{path}/".startswith(inside)]


def _parse_annotation(annotation: str, text: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{annotation} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{annotation}: a JSON object is needed, not {text[:40]}")
    return value
