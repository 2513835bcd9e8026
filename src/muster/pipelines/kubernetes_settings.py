"""What a task asks of Kubernetes: resources, and everything that the `kfp.kubernetes` functions set. Pure.

The names are those of KubernetesExecutorConfig. Every `...Parameter` and `...Json` has its value already (see
`TaskLaunch.platform`). A setting that is not known here is refused by name: nothing is silently left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.kube.pod_security import PREFIX
from muster.pipelines.model import Resources
from muster.pipelines.placeholders import WORKSPACE, has_workspace_placeholder, resolve_text
from muster.pipelines.task import TaskFailed, TaskLaunch
from muster.pipelines.values import to_text

_SHARED_MEMORY = "/dev/shm"  # noqa: S108  (a container's own)
_CONFIG_FIELDS = {
    "RESOURCES": ("resources",),
    "ENV": ("env",),
    "KUBERNETES_TOLERATIONS": ("tolerations",),
    "KUBERNETES_NODE_SELECTOR": ("nodeSelector",),
    "KUBERNETES_AFFINITY": ("affinity",),
    "KUBERNETES_VOLUMES": ("volumes", "volumeMounts"),
}
"""What `dsl.TaskConfigField` names -> the fields of PodSettings."""


@dataclass(slots=True)
class PodSettings:
    """Parts of a Pod and of its container, under the names of Kubernetes."""

    resources: dict[str, Any] = field(default_factory=dict)
    env: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    volumeMounts: list[dict[str, Any]] = field(default_factory=list)  # noqa: N815
    nodeSelector: dict[str, Any] = field(default_factory=dict)  # noqa: N815
    tolerations: list[dict[str, Any]] = field(default_factory=list)
    affinity: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    image_pull_secrets: list[dict[str, str]] = field(default_factory=list)
    image_pull_policy: str = ""
    active_deadline_seconds: int = 0
    security_context: dict[str, Any] = field(default_factory=dict)

    def mount(self, name: str, source: Mapping[str, Any], path: str, **more: Any) -> None:
        """Adds a volume with a name that no other one has."""
        taken = {volume["name"] for volume in self.volumes}
        while name in taken:
            name = f"{name}-{len(taken)}"
        self.volumes.append({"name": name, **source})
        self.volumeMounts.append({"name": name, "mountPath": path, **{k: v for k, v in more.items() if v}})


def pod_settings(launch: TaskLaunch) -> PodSettings:
    """Returns what a task asks for. Raises TaskFailed for what no cluster of ours can do."""
    found = PodSettings()
    for variable in launch.container.env:
        found.env.append({"name": variable.name, "value": resolve_text(variable.value, launch)})
    found.resources = resources_of(launch.container.resources, lambda text: resolve_text(text, launch))
    for name, value in launch.platform.items():
        add = _SETTINGS.get(name)
        if add is None:
            raise TaskFailed(f'the Kubernetes setting "{name}" of the task is not supported')
        try:
            add(found, value)
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise TaskFailed(f'the Kubernetes setting "{name}" of the task does not have the form it needs') from None
    if launch.run.workspace_claim and uses_workspace(launch):
        claim = {"persistentVolumeClaim": {"claimName": launch.run.workspace_claim}}
        found.mount("kfp-workspace", claim, WORKSPACE)
    return found


def uses_workspace(launch: TaskLaunch) -> bool:
    """A task has the workspace if an input names it, or is an artifact that an importer has put there."""
    artifacts = (artifact for listed in launch.inputs.artifacts.values() for artifact in listed)
    return has_workspace_placeholder(dict(launch.inputs.parameters)) or any(
        artifact.metadata.get("_kfp_workspace") for artifact in artifacts
    )


def pass_to_task(launch: TaskLaunch, settings: PodSettings) -> dict[str, dict[str, Any]]:
    """Returns the values of the inputs of type `dsl.TaskConfig`, and takes from the settings what the component has for
    itself: a field that is passed through stays off the Pod, unless `apply_to_task` says otherwise."""
    config: dict[str, Any] = {}
    for passthrough in launch.component.task_config_passthroughs:
        for name in _CONFIG_FIELDS.get(passthrough.field, ()):
            value = getattr(settings, name)
            if value:
                config[name] = value
            if not passthrough.apply_to_task:
                setattr(settings, name, type(value)())
    definitions = launch.component.input_definitions.parameters
    return {name: config for name, each in definitions.items() if each.parameter_type == "TASK_CONFIG"}


def resources_of(resources: Resources, resolve: Callable[[str], str]) -> dict[str, Any]:
    """Returns `resources` of a container. The texts of newer SDKs win over the numbers of older ones, whose memory is
    in GB."""
    limits = {
        "cpu": resolve(resources.resource_cpu_limit) or _plain(resources.cpu_limit, ""),
        "memory": resolve(resources.resource_memory_limit) or _plain(resources.memory_limit, "G"),
    }
    requests = {
        "cpu": resolve(resources.resource_cpu_request) or _plain(resources.cpu_request, ""),
        "memory": resolve(resources.resource_memory_request) or _plain(resources.memory_request, "G"),
    }
    accelerator = resources.accelerator
    if accelerator is not None:
        kind = resolve(accelerator.resource_type) or accelerator.type
        count = resolve(accelerator.resource_count) or (str(accelerator.count) if accelerator.count else "")
        if kind and count and count != "0":
            limits[kind] = count
    found = {"limits": {k: v for k, v in limits.items() if v}, "requests": {k: v for k, v in requests.items() if v}}
    return {name: values for name, values in found.items() if values}


def _plain(number: float, unit: str) -> str:
    return f"{to_text(number if number % 1 else int(number))}{unit}" if number else ""


def _name_of(entry: Mapping[str, Any], field: str) -> str:
    """Returns a name that newer SDKs write as an input, and older ones as text."""
    value = _constant(entry.get(f"{field}Parameter"))
    if value is None:
        value = entry.get(field)
    if not isinstance(value, str) or not value:
        raise TaskFailed(f"{field} of a Kubernetes setting has no value")
    return value


def _constant(value: Any) -> Any:
    return value.get("constant") if isinstance(value, Mapping) else None


def _secret_as_env(found: PodSettings, entries: Any) -> None:
    _keys_as_env(found, entries, "secretName", "secretKey", "secretKeyRef")


def _config_map_as_env(found: PodSettings, entries: Any) -> None:
    _keys_as_env(found, entries, "configMapName", "configMapKey", "configMapKeyRef")


def _keys_as_env(found: PodSettings, entries: Any, name_field: str, key_field: str, reference: str) -> None:
    for entry in entries:
        name = _name_of(entry, name_field)
        for pair in entry.get("keyToEnv") or ():
            source = {"name": name, "key": pair.get(key_field) or ""}
            if entry.get("optional"):
                source["optional"] = True
            found.env.append({"name": pair.get("envVar") or "", "valueFrom": {reference: source}})


def _secret_as_volume(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        source: dict[str, Any] = {"secretName": _name_of(entry, "secretName")}
        if entry.get("optional"):
            source["optional"] = True
        found.mount(f"secret-{len(found.volumes)}", {"secret": source}, _path_of(entry))


def _config_map_as_volume(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        source: dict[str, Any] = {"name": _name_of(entry, "configMapName")}
        if entry.get("optional"):
            source["optional"] = True
        found.mount(f"config-map-{len(found.volumes)}", {"configMap": source}, _path_of(entry))


def _claims(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        value = _constant(entry.get("pvcNameParameter")) or entry.get("constant")
        value = value or _constant(entry.get("taskOutputParameter")) or _constant(entry.get("componentInputParameter"))
        if not isinstance(value, str) or not value:
            raise TaskFailed(f"the claim that is to be mounted at {_path_of(entry)} has no name")
        source = {"persistentVolumeClaim": {"claimName": value}}
        known = next(
            (v["name"] for v in found.volumes if v.get("persistentVolumeClaim") == source["persistentVolumeClaim"]), ""
        )
        sub_path = entry.get("subPath") or ""
        if known:
            mount = {"name": known, "mountPath": _path_of(entry), **({"subPath": sub_path} if sub_path else {})}
            found.volumeMounts.append(mount)
        else:
            found.mount(f"claim-{len(found.volumes)}", source, _path_of(entry), subPath=sub_path)


def _empty_dirs(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        source = {name: entry[name] for name in ("medium", "sizeLimit") if entry.get(name)}
        found.mount(str(entry.get("volumeName") or "empty-dir"), {"emptyDir": source}, _path_of(entry))


def _shared_memory(found: PodSettings, entry: Any) -> None:
    source = {"medium": "Memory", **({"sizeLimit": entry["size"]} if entry.get("size") else {})}
    found.mount(str(entry.get("volumeName") or "shared-memory"), {"emptyDir": source}, _SHARED_MEMORY)


def _ephemeral_volumes(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        spec: dict[str, Any] = {
            "accessModes": list(entry.get("accessModes") or ("ReadWriteOnce",)),
            "resources": {"requests": {"storage": entry.get("size") or ""}},
        }
        if entry.get("storageClassName") and not entry.get("defaultStorageClass"):
            spec["storageClassName"] = entry["storageClassName"]
        template: dict[str, Any] = {"spec": spec}
        if entry.get("metadata"):
            template["metadata"] = {k: v for k, v in entry["metadata"].items() if k in ("labels", "annotations")}
        source = {"ephemeral": {"volumeClaimTemplate": template}}
        found.mount(str(entry.get("volumeName") or "ephemeral"), source, _path_of(entry))


def _node_selector(found: PodSettings, value: Any) -> None:
    given = _constant(value.get("nodeSelectorJson"))
    found.nodeSelector.update(given if isinstance(given, Mapping) else value.get("labels") or {})


def _tolerations(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        given = _constant(entry.get("tolerationJson"))
        for one in given if isinstance(given, list) else [given if isinstance(given, Mapping) else entry]:
            made = {k: one[k] for k in ("key", "operator", "value", "effect") if one.get(k)}
            if one.get("tolerationSeconds") is not None:
                made["tolerationSeconds"] = int(one["tolerationSeconds"])
            if made:
                found.tolerations.append(made)


def _node_affinity(found: PodSettings, entries: Any) -> None:
    into = found.affinity.setdefault("nodeAffinity", {})
    for entry in entries:
        given = _constant(entry.get("nodeAffinityJson"))
        if isinstance(given, Mapping):
            into.update(given)
            continue
        term = {k: entry[k] for k in ("matchExpressions", "matchFields") if entry.get(k)}
        if entry.get("weight"):
            preferred = into.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
            preferred.append({"weight": int(entry["weight"]), "preference": term})
        else:
            required = into.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []})
            required["nodeSelectorTerms"].append(term)


def _pod_affinity(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        into = found.affinity.setdefault("podAntiAffinity" if entry.get("anti") else "podAffinity", {})
        selector = {"matchLabels": entry.get("matchPodLabels"), "matchExpressions": entry.get("matchPodExpressions")}
        others = {
            "matchLabels": entry.get("matchNamespaceLabels"),
            "matchExpressions": entry.get("matchNamespaceExpressions"),
        }
        term: dict[str, Any] = {"labelSelector": {k: v for k, v in selector.items() if v}}
        term["topologyKey"] = entry.get("topologyKey") or ""
        if entry.get("namespaces"):
            term["namespaces"] = list(entry["namespaces"])
        if any(others.values()):
            term["namespaceSelector"] = {k: v for k, v in others.items() if v}
        if entry.get("weight"):
            preferred = into.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
            preferred.append({"weight": int(entry["weight"]), "podAffinityTerm": term})
        else:
            into.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)


def _pod_metadata(found: PodSettings, value: Any) -> None:
    found.labels.update(_not_reserved(value, "labels"))
    found.annotations.update(_not_reserved(value, "annotations"))


def _not_reserved(metadata: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Labels and annotations of ours are for the server, as in a Workflow."""
    given = dict(metadata.get(field) or {})
    for name in given:
        if name.startswith(PREFIX):
            raise TaskFailed(f"podMetadata.{field}: {name} is reserved for the server")
    return given


def _image_pull_secrets(found: PodSettings, entries: Any) -> None:
    found.image_pull_secrets += [{"name": _name_of(entry, "secretName")} for entry in entries]


def _image_pull_policy(found: PodSettings, value: Any) -> None:
    found.image_pull_policy = str(value)


def _field_paths(found: PodSettings, entries: Any) -> None:
    for entry in entries:
        source = {"fieldRef": {"fieldPath": entry.get("fieldPath") or ""}}
        found.env.append({"name": entry.get("name") or "", "valueFrom": source})


def _active_deadline(found: PodSettings, value: Any) -> None:
    found.active_deadline_seconds = int(value)


def _security_context(found: PodSettings, value: Any) -> None:
    unknown = set(value) - {"runAsUser", "runAsGroup", "runAsNonRoot"}
    if unknown:
        raise TaskFailed(f'the Kubernetes setting "securityContext.{min(unknown)}" of the task is not supported')
    for name in ("runAsUser", "runAsGroup"):
        if value.get(name) is not None:
            found.security_context[name] = int(value[name])
    if value.get("runAsNonRoot") is not None:
        found.security_context["runAsNonRoot"] = bool(value["runAsNonRoot"])


def _path_of(entry: Mapping[str, Any]) -> str:
    path = str(entry.get("mountPath") or "")
    if not path.startswith("/"):
        raise TaskFailed(f'mountPath "{path}" of a Kubernetes setting has to be an absolute path')
    return path


_SETTINGS: Mapping[str, Callable[[PodSettings, Any], None]] = {
    "secretAsEnv": _secret_as_env,
    "configMapAsEnv": _config_map_as_env,
    "secretAsVolume": _secret_as_volume,
    "configMapAsVolume": _config_map_as_volume,
    "pvcMount": _claims,
    "emptyDirMounts": _empty_dirs,
    "enabledSharedMemory": _shared_memory,
    "genericEphemeralVolume": _ephemeral_volumes,
    "nodeSelector": _node_selector,
    "tolerations": _tolerations,
    "nodeAffinity": _node_affinity,
    "podAffinity": _pod_affinity,
    "podMetadata": _pod_metadata,
    "imagePullSecret": _image_pull_secrets,
    "imagePullPolicy": _image_pull_policy,
    "fieldPathAsEnv": _field_paths,
    "activeDeadlineSeconds": _active_deadline,
    "securityContext": _security_context,
}
