"""The volumes of a template's Pod that the workflow has for all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.kube.objects import Object, name_of, namespace_of, owner_reference, uid_of
from muster.workflows.cleanup.claims import volumes_of
from muster.workflows.expressions.tags import substitute
from muster.workflows.model import Launch, Template
from muster.workflows.pods.templates import CannotRun, volume_mounts


def volumes_in_use(
    workflow: Object, spec: Mapping[str, Any], template: Template, launch: Launch, have: list[Any]
) -> list[dict[str, Any]]:
    """The workflow's volumes and claims that a container of the template mounts."""
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
    """The variables that names outside of the template may still hold: of volumes, of patches, of keys."""
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
