"""Builds the Pod of a template. Pure.

Where Argo adds its own containers to a Pod (to fetch artifacts, to order and stop containers, to collect outputs), the
node agent does that work here, requested by annotations on the Pod.

- A script is an annotation that a downwardAPI volume shows as a file; a long one is a ConfigMap.
- Input artifacts are fetched before the Pod is created, into a folder on the node that the Pod mounts. Those inside a
  volume of the container are copied there by an init container, because the volume has to hold them.
- The containers of a set start when the ones they depend on have succeeded; sidecars are stopped when the main
  containers have ended.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from muster.kube.builtin import POD_SPEC_SCHEMA
from muster.kube.cluster import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION
from muster.kube.errors import ApiError
from muster.kube.manifests import ManifestError, parse_setting
from muster.kube.objects import Object, meta, name_of, namespace_of, owner_reference, spec_of, status_of, uid_of
from muster.kube.patches import strategic_merge
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import parse_duration
from muster.workflows.model import COMPLETED_LABEL, NODE_ID, WORKFLOW_LABEL, Launch, Template

# What a workflow and a template say about a Pod: main containers, output paths, volumes and
# volume claims. Pure.


MAIN = "main"
LONGEST_TEXT = "muster.dev/longest-text"
"""Annotation of a template: the maximum length of each output parameter."""


class CannotRun(Exception):
    """The template asks for something impossible: the node becomes an Error with this message."""


def main_containers(template: Template) -> list[str]:
    """Returns the containers whose end ends the Pod."""
    if "containerSet" in template:
        return [str(c.get("name") or "") for c in template["containerSet"].get("containers") or ()]
    return [MAIN]


def volume_mounts(template: Template) -> list[Mapping[str, Any]]:
    """Returns the mounts that input and output artifacts may be in."""
    for kind in ("container", "script", "containerSet"):
        if kind in template:
            return list(template[kind].get("volumeMounts") or ())
    return []


def output_parameters(template: Template) -> list[Mapping[str, Any]]:
    return list((template.get("outputs") or {}).get("parameters") or ())


def output_artifacts(template: Template) -> list[Mapping[str, Any]]:
    return list((template.get("outputs") or {}).get("artifacts") or ())


def input_artifacts(template: Template) -> list[Mapping[str, Any]]:
    return list((template.get("inputs") or {}).get("artifacts") or ())


def output_paths_by_container(template: Template) -> dict[str, list[str]]:
    """Returns the files and folders that become outputs, by container, each once. The index of a path is the name of
    its copy; see `muster.kube.cluster`.

    They belong to the container named main, or to any container of a set without one. In a volume that a whole set
    shares, others may write them, even after main has ended.
    """
    paths = _output_paths(template)
    if not paths:
        return {}
    names = main_containers(template)
    if MAIN not in names:
        return dict.fromkeys(names, paths)
    mounts = [str(m.get("mountPath") or "") for m in (template.get("containerSet") or {}).get("volumeMounts") or ()]
    shared = [path for path in paths if is_inside(path, mounts)]
    return {name: paths if name == MAIN else shared for name in names if name == MAIN or shared}


def _output_paths(template: Template) -> list[str]:
    outputs = template.get("outputs")
    if not outputs:
        return []
    paths = dict.fromkeys(
        [
            *(str((p.get("valueFrom") or {}).get("path") or "") for p in outputs.get("parameters") or ()),
            *(str(a.get("path") or "") for a in outputs.get("artifacts") or ()),
        ]
    )
    return [clean_path(path) for path in paths if path]


def clean_path(path: str) -> str:
    """Normalizes a path. Rejects the root and paths with `..` that leave their first folder."""
    cleaned = posixpath.normpath(path)
    if not path.startswith("/") or cleaned == "/":
        raise CannotRun(f'the path "{path}" of an artifact or output must be absolute and not /')
    before, dots, _ = f"{path}/".partition("/../")
    if dots and not cleaned.startswith(f"{before}/"):
        raise CannotRun(f'the path "{path}" uses "..": directory traversal is not permitted')
    return cleaned


def is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def archives_logs(template: Template, spec: Mapping[str, Any], repository: Mapping[str, Any]) -> bool:
    """The repository's setting applies to all; a template may override the workflow's."""
    if repository.get("archiveLogs"):
        return True
    own = (template.get("archiveLocation") or {}).get("archiveLogs")
    return bool(own if own is not None else spec.get("archiveLogs"))


def claims_of(workflow: Object, spec: Object | None = None) -> list[Object]:
    """Returns the PersistentVolumeClaims to create before the first Pod. `spec` is the one that the engine resolved,
    which includes those of a referenced template."""
    return [_claim(workflow, template) for template in _templates(workflow, spec)]


def volumes_of(workflow: Object, spec: Object | None = None) -> list[Object]:
    """Returns the claims as volumes of a Pod, and as Argo writes them into status.persistentVolumeClaims."""
    return [
        {"name": name_of(template), "persistentVolumeClaim": {"claimName": _name(workflow, template)}}
        for template in _templates(workflow, spec)
    ]


def _templates(workflow: Object, spec: Object | None) -> list[dict[str, Any]]:
    resolved = spec or status_of(workflow).get("storedWorkflowTemplateSpec") or {}
    return list(resolved.get("volumeClaimTemplates") or spec_of(workflow).get("volumeClaimTemplates") or ())


def _name(workflow: Object, template: Object) -> str:
    return f"{name_of(workflow)}-{name_of(template)}"


def _claim(workflow: Object, template: Object) -> Object:
    given = {name: value for name, value in meta(template).items() if name in ("annotations", "labels", "finalizers")}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **given,
            "name": _name(workflow, template),
            "namespace": namespace_of(workflow),
            "labels": {**(given.get("labels") or {}), WORKFLOW_LABEL: name_of(workflow)},
            "ownerReferences": [owner_reference(workflow)],
        },
        "spec": template.get("spec") or {},
    }


def volumes_in_use(
    workflow: Object, spec: Mapping[str, Any], template: Template, launch: Launch, have: list[Any]
) -> list[dict[str, Any]]:
    """Returns the workflow's volumes and claims that a container of the template mounts."""
    known = {volume["name"] for volume in have}
    mounts = [*volume_mounts(template)]
    for container in (template.get("containerSet") or {}).get("containers") or ():
        mounts += container.get("volumeMounts") or ()
    for container in (*(template.get("initContainers") or ()), *(template.get("sidecars") or ())):
        mounts += container.get("volumeMounts") or ()
    wanted = dict.fromkeys(str(m["name"]) for m in mounts if m["name"] not in known)
    if not wanted:
        return []
    offered = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    for volume in volumes_of(workflow, dict(spec)):
        offered.setdefault(volume["name"], volume)
    missing = [name for name in wanted if name not in offered]
    if missing:
        raise CannotRun(f"volume '{missing[0]}' not found in workflow spec")
    return [offered[name] for name in wanted]


def scope_of(workflow: Object, launch: Launch) -> dict[str, Any]:
    """Returns the variables that names of volumes, patches and keys outside the template may contain."""
    created = str((workflow.get("metadata") or {}).get("creationTimestamp") or "")
    scope: dict[str, Any] = {
        "workflow.name": name_of(workflow),
        "workflow.namespace": namespace_of(workflow),
        "workflow.uid": uid_of(workflow),
        "pod.name": launch.pod_name,
        "node.name": launch.node["name"],
        "workflow.creationTimestamp": created,
    }
    if len(created) >= len("2000-01-01T00"):
        fields = {"Y": created[:4], "m": created[5:7], "d": created[8:10], "H": created[11:13]}
        fields |= {"y": created[2:4], "M": created[14:16], "S": created[17:19]}
        scope.update((f"workflow.creationTimestamp.{name}", value) for name, value in fields.items())
    for parameter in ((workflow.get("spec") or {}).get("arguments") or {}).get("parameters") or ():
        scope[f"workflow.parameters.{parameter['name']}"] = str(parameter.get("value", ""))
    for parameter in (launch.template.get("inputs") or {}).get("parameters") or ():
        scope[f"inputs.parameters.{parameter['name']}"] = str(parameter.get("value", ""))
    return scope


def owner_of(workflow: Object) -> Object:
    return owner_reference({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": workflow["metadata"]})


GROUP = "workflows.argoproj.io"
ON_EXIT_LABEL = f"{GROUP}/on-exit"
NODE_NAME = f"{GROUP}/node-name"
SCRIPT = "muster.dev/script"
PROGRESS_FILE = "/tmp/.argo-progress"  # noqa: S108  (a container's own)

_STAGING = "/argo/staging"
_SCRIPT_FILE = f"{_STAGING}/script"
_INPUTS = "/argo/inputs/artifacts"
_MAIN_FILES = "/mainctrfs"
_LONGEST_SCRIPT = 64 * 1024
"""All annotations of an object together may have 256 kB."""
_NEVER = "0001-01-01T00:00:00Z"
_COPY = """set -e
while [ $# -gt 0 ]; do
  mkdir -p "${2%/*}"
  if [ -d "$1" ]; then mkdir -p "$2"; cp -a "$1/." "$2"; else cp -a "$1" "$2"; fi
  shift 2
done"""


@dataclass(frozen=True, slots=True)
class StagedInputs:
    """Input artifacts that are ready, in a folder of the node: the N-th artifact of the template is `N`."""

    folder: str
    ready: Collection[int]


def build_pod(workflow: Object, spec: Mapping[str, Any], launch: Launch, staged: StagedInputs | None = None) -> Object:
    """Raises CannotRun."""
    template, node = launch.template, launch.node
    containers = _containers(template)
    body: dict[str, Any] = {"restartPolicy": "Never", "containers": containers}
    _add_settings(body, spec, template)
    annotations = {
        NODE_ID: node["id"],
        NODE_NAME: node["name"],
        "kubectl.kubernetes.io/default-container": _default_container(containers),
    }
    labels = {WORKFLOW_LABEL: name_of(workflow), COMPLETED_LABEL: "false"}
    if ".onExit" in node["name"]:
        labels[ON_EXIT_LABEL] = "true"
    volumes = list(template.get("volumes") or ())
    inits: list[dict[str, Any]] = []
    if staged is not None and staged.ready:
        volumes.append({"name": "input-artifacts", "hostPath": {"path": staged.folder, "type": "Directory"}})
        inits += _mount_inputs(template, containers, staged)
    if "script" in template:
        source = str(template["script"].get("source") or "")
        if _is_long(source):
            volumes.append(
                _script_volume("configMap", {"name": launch.pod_name, "items": [_script_item(key="script")]})
            )
        else:
            annotations[SCRIPT] = source
            field = {"fieldPath": f"metadata.annotations['{SCRIPT}']"}
            volumes.append(_script_volume("downwardAPI", {"items": [_script_item(fieldRef=field)]}))
        _mount(containers[0], {"name": "argo-staging", "mountPath": _STAGING})
    inits += [_side_container(c, containers) for c in template.get("initContainers") or ()]
    containers += [_side_container(c, containers) for c in template.get("sidecars") or ()]
    _add_environment(containers, inits, launch)
    for metadata in (spec.get("podMetadata") or {}, template.get("metadata") or {}):
        annotations.update(metadata.get("annotations") or {})
        labels.update(metadata.get("labels") or {})
    if inits:
        body["initContainers"] = inits
    volumes += volumes_in_use(workflow, spec, template, launch, volumes)
    if volumes:
        body["volumes"] = volumes
    body = _apply_patches(body, launch)
    annotations |= _requests(template, body.get("containers"))
    metadata = {
        "name": launch.pod_name,
        "namespace": namespace_of(workflow),
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner_of(workflow)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def build_script_config_map(workflow: Object, launch: Launch) -> Object | None:
    """Returns the ConfigMap of a script that is too long for an annotation."""
    source = str((launch.template.get("script") or {}).get("source") or "")
    if not _is_long(source):
        return None
    metadata = {
        "name": launch.pod_name,
        "namespace": namespace_of(workflow),
        "labels": {WORKFLOW_LABEL: name_of(workflow)},
        "annotations": {NODE_ID: launch.node["id"], NODE_NAME: launch.node["name"]},
        "ownerReferences": [owner_of(workflow)],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"script": source}}


def _containers(template: Template) -> list[dict[str, Any]]:
    if "containerSet" in template:
        shared = template["containerSet"].get("volumeMounts") or []
        return [_container_set(c, shared) for c in template["containerSet"].get("containers") or ()]
    if "script" in template:
        script = {name: value for name, value in template["script"].items() if name != "source"}
        file = [_SCRIPT_FILE] if template["script"].get("source") else []
        return [{**script, "name": MAIN, "args": [*(script.get("args") or ()), *file]}]
    if "container" in template:
        return [{**template["container"], "name": MAIN}]
    raise CannotRun(f"template {template.get('name', '')} has neither container, script nor containerSet")


def _container_set(container: Mapping[str, Any], shared: list[Any]) -> dict[str, Any]:
    made = {name: value for name, value in container.items() if name != "dependencies"}
    if shared:
        made["volumeMounts"] = [*(made.get("volumeMounts") or ()), *shared]
    return made


def _default_container(containers: list[dict[str, Any]]) -> str:
    names = [str(container["name"]) for container in containers]
    return MAIN if MAIN in names else names[-1]


def _side_container(container: Mapping[str, Any], mains: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns a sidecar or init container."""
    made = {name: value for name, value in container.items() if name != "mirrorVolumeMounts"}
    main = next((c for c in mains if c["name"] == MAIN), None)
    if container.get("mirrorVolumeMounts") and main is not None:
        made["volumeMounts"] = [*(made.get("volumeMounts") or ()), *(main.get("volumeMounts") or ())]
    return made


def _mount(container: dict[str, Any], mount: dict[str, Any]) -> None:
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _is_long(source: str) -> bool:
    return len(source) > _LONGEST_SCRIPT


def _script_volume(kind: str, source: dict[str, Any]) -> dict[str, Any]:
    return {"name": "argo-staging", kind: source}


def _script_item(**source: Any) -> dict[str, Any]:
    return {"path": "script", "mode": 0o755, **source}


def _mount_inputs(template: Template, containers: list[dict[str, Any]], staged: StagedInputs) -> list[dict[str, Any]]:
    """Mounts the inputs into the main container, or into all containers of a set without one. Returns the init
    container that copies those that belong into a volume, if any."""
    users = [c for c in containers if c["name"] == MAIN] or containers
    mounts = volume_mounts(template)
    copies: list[str] = []
    for index, artifact in enumerate(input_artifacts(template)):
        if index not in staged.ready:
            continue
        path = clean_path(str(artifact.get("path") or ""))
        around = [m for m in mounts if is_inside(path, [str(m.get("mountPath") or "")])]
        if around:
            nearest = max(around, key=lambda m: len(posixpath.normpath(str(m.get("mountPath")))))
            if nearest.get("readOnly"):
                raise CannotRun(
                    f"the input artifact '{artifact.get('name')}' would be written to {path}, in the read-only volume "
                    f"'{nearest.get('name')}': choose a path outside of it, or mount the volume without readOnly"
                )
            copies += [f"{_INPUTS}/{index}", f"{_MAIN_FILES}{path}"]
        else:
            for container in users:
                _mount(container, {"name": "input-artifacts", "mountPath": path, "subPath": str(index)})
    if not copies:
        return []
    moved = [{**m, "mountPath": posixpath.normpath(f"{_MAIN_FILES}{m.get('mountPath')}")} for m in mounts]
    return [
        {
            "name": "init",
            "image": users[0].get("image") or "",
            "command": ["sh", "-c", _COPY, "init", *copies],
            "volumeMounts": [{"name": "input-artifacts", "mountPath": _INPUTS, "readOnly": True}, *moved],
        }
    ]


def _add_environment(containers: list[dict[str, Any]], inits: list[dict[str, Any]], launch: Launch) -> None:
    shared = [
        {"name": "ARGO_NODE_ID", "value": launch.node["id"]},
        {"name": "ARGO_INCLUDE_SCRIPT_OUTPUT", "value": "true" if launch.wants_result else "false"},
        {"name": "ARGO_DEADLINE", "value": _NEVER},
        {"name": "ARGO_PROGRESS_FILE", "value": PROGRESS_FILE},
    ]
    for container in (*containers, *inits):
        name = {"name": "ARGO_CONTAINER_NAME", "value": container["name"]}
        container["env"] = [*(container.get("env") or ()), name, *shared]


def _requests(template: Template, containers: Any) -> dict[str, str]:
    """Adds the annotations for the node agent. The containers are as patches left them, and may be invalid."""
    annotations: dict[str, str] = {}
    kept = output_paths_by_container(template)
    if kept:
        annotations[KEEP_FILES_ANNOTATION] = orjson.dumps(kept).decode()
    if "containerSet" not in template and (not isinstance(containers, list) or len(containers) == 1):
        return annotations
    group = template.get("containerSet") or {}
    order = {c["name"]: c["dependencies"] for c in group.get("containers") or () if c.get("dependencies")}
    strategy = group.get("retryStrategy") or {}
    wish: dict[str, Any] = {"leading": main_containers(template)}
    if order:
        wish["after"] = order
    if strategy.get("retries"):
        wish["retries"] = _whole(strategy["retries"], "containerSet.retryStrategy.retries")
        wish["retrySeconds"] = _seconds(str(strategy.get("duration") or "0"))
    annotations[CONTAINERS_ANNOTATION] = orjson.dumps(wish).decode()
    return annotations


def _add_settings(body: dict[str, Any], spec: Mapping[str, Any], template: Template) -> None:
    """Adds the settings of the template, or else of the workflow."""
    for field in ("nodeSelector", "affinity", "tolerations", "schedulerName", "serviceAccountName", "securityContext"):
        value = template.get(field) or spec.get(field)
        if value:
            body[field] = value
    for field in ("automountServiceAccountToken",):
        value = template.get(field, spec.get(field))
        if value is not None:
            body[field] = value
    for field in ("imagePullSecrets", "hostNetwork", "dnsPolicy", "dnsConfig"):
        if spec.get(field):
            body[field] = spec[field]
    priority = template.get("priorityClassName") or spec.get("podPriorityClassName")
    if priority:
        body["priorityClassName"] = priority
    aliases = [*(spec.get("hostAliases") or ()), *(template.get("hostAliases") or ())]
    if aliases:
        body["hostAliases"] = aliases
    deadline = template.get("activeDeadlineSeconds")
    if deadline is not None:
        body["activeDeadlineSeconds"] = _whole(deadline, "activeDeadlineSeconds")


def _apply_patches(body: dict[str, Any], launch: Launch) -> dict[str, Any]:
    """Applies the patches of the workflow and of the template, which the engine has filled in."""
    for patch in (launch.spec_patch, launch.template.get("podSpecPatch")):
        if not patch:
            continue
        try:
            parsed = parse_setting(str(patch), "podSpecPatch")
            if not isinstance(parsed, dict):
                raise CannotRun("podSpecPatch must be a Pod's spec in JSON or YAML")
            body = _without_argo_containers(strategic_merge(body, parsed, POD_SPEC_SCHEMA))
        except (ManifestError, ApiError) as error:
            raise CannotRun(f"Error applying PodSpecPatch: {error}") from None
    return body


def _without_argo_containers(body: dict[str, Any]) -> dict[str, Any]:
    """Removes from a patch the containers that Argo adds, which do not exist here."""
    for field, name in (("containers", "wait"), ("initContainers", "init")):
        found = body.get(field)
        if not isinstance(found, list) or not any(_is_only_named(c, name) for c in found):
            continue
        left = [c for c in found if not _is_only_named(c, name)]
        body = {**body, field: left} if left else {k: v for k, v in body.items() if k != field}
    return body


def _is_only_named(container: Any, name: str) -> bool:
    return isinstance(container, dict) and container.get("name") == name and not container.get("image")


def _whole(value: Any, what: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise CannotRun(f'{what}: "{value}" is not a number') from None


def _seconds(text: str) -> float:
    if text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return parse_duration(text) / 1e9
    except ExpressionError as error:
        raise CannotRun(f'"{text}" is not a duration: {error}') from None
