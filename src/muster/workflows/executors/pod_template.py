"""What a workflow and a template say about a Pod: main containers, output paths, volumes and volume claims. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from muster.kube.objects import Object, meta, name_of, namespace_of, owner_reference, spec_of, status_of, uid_of
from muster.workflows.lang.tags import substitute
from muster.workflows.model import WORKFLOW_LABEL, Launch, Template

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
    its copy; see `muster.kube.node_files`.

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
    found: list[dict[str, Any]] = substitute(
        [offered[name] for name in wanted], scope_of(workflow, launch), allow_unresolved=True
    )
    return found


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
