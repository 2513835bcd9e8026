"""The volumes that a workflow asks for with volumeClaimTemplates. Pure."""

from __future__ import annotations

from typing import Any

from muster.kube.objects import Object, meta, name_of, namespace_of, owner_reference, spec_of, status_of

WORKFLOW_LABEL = "workflows.argoproj.io/workflow"


def claims_of(workflow: Object, spec: Object | None = None) -> list[Object]:
    """The PersistentVolumeClaims that have to be there before its first Pod. `spec` is the workflow's as the engine
    resolved it, which is where those of a template it refers to are found."""
    return [_claim(workflow, template) for template in _templates(workflow, spec)]


def volumes_of(workflow: Object, spec: Object | None = None) -> list[Object]:
    """The same as volumes of a Pod, and as Argo writes them into status.persistentVolumeClaims."""
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
