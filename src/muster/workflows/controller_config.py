"""The settings of Argo's controller that are honoured: ConfigMap `workflow-controller-configmap` in namespace `argo`.

Each setting is a key with YAML, or a field of the key `config`. Only administrators write to the namespace `argo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from muster.kube.builtin import CONFIG_MAP, NAMESPACE
from muster.kube.cluster import StatusRowsCluster
from muster.kube.errors import is_count
from muster.kube.objects import Key, Object, labels_of

NAMESPACE_LIMIT: Final = "workflows.argoproj.io/parallelism-limit"
"""The label of a namespace: how many of its workflows run at the same time."""
CONFIG_KEY = Key("argo", "workflow-controller-configmap")


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    artifact_repository: Mapping[str, Any] = field(default_factory=dict)
    """The repository of workflows that name none."""
    parallelism: int = 0
    """How many workflows run at the same time; 0 for any number."""
    namespace_parallelism: int = 0
    """How many of one namespace run at the same time; 0 for any number. A label of the namespace has priority."""
    node_events: bool = True
    """Whether nodes of workflows have events."""
    workflow_defaults: Mapping[str, Any] = field(default_factory=dict)
    """What workflows have that do not say otherwise."""
    links: tuple[Mapping[str, Any], ...] = ()
    """What Argo's UI shows: name, scope and url."""
    retention: Mapping[str, int] = field(default_factory=dict)
    """How many workflows are kept of each phase in which they end. Of a phase that is not there, all are."""
    failed_pod_restarts: int = 0
    """How often the Pod of a node is created again that failed before its work began, because of its machine."""
    problems: tuple[str, ...] = ()
    """What could not be read."""


def controller_config(cluster: StatusRowsCluster) -> ControllerConfig:
    return parse_controller_config(cluster.peek(CONFIG_MAP, CONFIG_KEY))


def namespace_limit(cluster: StatusRowsCluster, namespace: str) -> int:
    """Returns how many workflows of a namespace run at the same time; 0 for any number."""
    label = labels_of(cluster.peek(NAMESPACE, Key("", namespace)) or {}).get(NAMESPACE_LIMIT, "")
    return int(label) if is_count(label) else controller_config(cluster).namespace_parallelism


def parse_controller_config(config_map: Object | None) -> ControllerConfig:
    """Never raises: a setting that cannot be read is left out and named in `problems`."""
    data: Mapping[str, Any] = (config_map or {}).get("data") or {}
    problems: list[str] = []

    def read(key: str, text: Any) -> Any:
        try:
            return yaml.safe_load(text) if isinstance(text, str) else None
        except yaml.YAMLError as error:
            problems.append(f"{key}: invalid YAML: {error}")
            return None

    whole = read("config", data.get("config"))
    found = dict(whole) if isinstance(whole, dict) else {}
    found |= {key: read(key, data[key]) for key in _TYPES if key in data}
    values: dict[str, Any] = {}
    for key, type_ in _TYPES.items():
        value: Any = found.get(key)
        if value is None:
            continue
        if type_ is int and isinstance(value, str) and is_count(value):
            value = int(value)
        is_negative = isinstance(value, int) and value < 0
        if isinstance(value, type_) and not isinstance(value, bool) and not is_negative:
            values[key] = value
        else:
            problems.append(f"{key}: expected {_EXPECTED[type_]}")
    return ControllerConfig(
        values.get("artifactRepository") or {},
        values.get("parallelism") or 0,
        values.get("namespaceParallelism") or 0,
        (values.get("nodeEvents") or {}).get("enabled") is not False,
        values.get("workflowDefaults") or {},
        tuple(link for link in values.get("links") or () if isinstance(link, dict)),
        _read_retention(values.get("retentionPolicy") or {}, problems),
        _read_restarts(values.get("failedPodRestart") or {}, problems),
        tuple(problems),
    )


def _read_retention(policy: Mapping[str, Any], problems: list[str]) -> dict[str, int]:
    found = {}
    for name, phase in _RETAINED.items():
        count = policy.get(name)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            found[phase] = count
        elif count is not None:
            problems.append(f"retentionPolicy.{name}: expected {_EXPECTED[int]}")
    return found


def _read_restarts(setting: Mapping[str, Any], problems: list[str]) -> int:
    if setting.get("enabled") is not True:
        return 0
    most = setting.get("maxRestarts")
    if most is None:
        return _DEFAULT_RESTARTS
    if isinstance(most, int) and not isinstance(most, bool) and most >= 0:
        return most
    problems.append(f"failedPodRestart.maxRestarts: expected {_EXPECTED[int]}")
    return _DEFAULT_RESTARTS


def with_defaults(workflow: Object, defaults: Mapping[str, Any]) -> Object:
    """Returns the workflow with the defaults for what it does not say itself; a list of its own replaces the default's.
    Returns the workflow itself if nothing is missing."""
    wanted = {
        "metadata": {name: (defaults.get("metadata") or {}).get(name) or {} for name in ("labels", "annotations")},
        "spec": defaults.get("spec") or {},
    }
    merged: Object = _merge(wanted, workflow)
    for name in ("labels", "annotations"):
        if not merged["metadata"].get(name):
            merged["metadata"].pop(name, None)
    return workflow if merged == workflow else merged


def _merge(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**own}
    for name, value in defaults.items():
        mine = own.get(name)
        if mine is None:
            merged[name] = value
        elif isinstance(mine, dict) and isinstance(value, dict):
            merged[name] = _merge(value, mine)
    return merged


_TYPES: Mapping[str, type] = {
    "artifactRepository": dict,
    "parallelism": int,
    "namespaceParallelism": int,
    "nodeEvents": dict,
    "workflowDefaults": dict,
    "links": list,
    "retentionPolicy": dict,
    "failedPodRestart": dict,
}
_DEFAULT_RESTARTS = 3
_RETAINED: Mapping[str, str] = {"completed": "Succeeded", "failed": "Failed", "errored": "Error"}
_EXPECTED: Mapping[type, str] = {dict: "a map", int: "a number, 0 or more", list: "a list"}
