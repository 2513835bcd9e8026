"""Resubmit: creates a new workflow from an earlier one, optionally with the nodes that have succeeded."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from muster.kube.errors import BadRequest
from muster.kube.objects import (
    Object,
    annotations_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    timestamp,
)
from muster.workflows.engine.node_tree import node_id
from muster.workflows.executors.resource import RETRIES
from muster.workflows.executors.resource_actions import STEP_ANNOTATION
from muster.workflows.model import COMPLETED_LABEL, PHASE_LABEL, PREVIOUS_LABEL, Node
from muster.workflows.operations.retry import ARCHIVING_LABEL, retry, with_parameters, without_shutdown

_OWN_LABELS = (
    COMPLETED_LABEL,
    PHASE_LABEL,
    ARCHIVING_LABEL,
    "workflows.argoproj.io/creator",
    "workflows.argoproj.io/creator-email",
    "workflows.argoproj.io/creator-preferred-username",
)
_OWN_ANNOTATIONS = (STEP_ANNOTATION, RETRIES, "kubectl.kubernetes.io/last-applied-configuration")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def resubmit(
    workflow: Object, *, memoized: bool = False, parameters: Sequence[str] = (), name: str = "", now: str = ""
) -> Object:
    """Returns the new workflow.

    With `memoized` it starts with the nodes that a retry would keep, and runs the rest. Node ids contain the workflow's
    name, so a name is generated if none is given. Argo turns successful nodes into skipped ones; here they stay as they
    were, so that `depends` and the outputs of loops mean the same. Raises BadRequest.
    """
    if memoized and status_of(workflow).get("phase") not in ("Failed", "Error"):
        raise BadRequest("workflow must be Failed/Error to resubmit in memoized mode")
    generate = str(meta(workflow).get("generateName") or f"{name_of(workflow)}-")
    name = name or (generate + "".join(secrets.choice(_LETTERS) for _ in range(5)) if memoized else "")
    metadata: dict[str, Any] = {
        "namespace": namespace_of(workflow),
        **({"name": name} if name else {"generateName": generate}),
        "labels": {
            **{label: value for label, value in labels_of(workflow).items() if label not in _OWN_LABELS},
            PREVIOUS_LABEL: name_of(workflow),
        },
    }
    annotations = {n: value for n, value in annotations_of(workflow).items() if n not in _OWN_ANNOTATIONS}
    if annotations:
        metadata["annotations"] = annotations
    if meta(workflow).get("ownerReferences"):
        metadata["ownerReferences"] = meta(workflow)["ownerReferences"]
    new: Object = {
        "apiVersion": workflow["apiVersion"],
        "kind": workflow["kind"],
        "metadata": metadata,
        "spec": without_shutdown(spec_of(with_parameters(workflow, parameters))),
    }
    if not memoized:
        return new
    kept = retry(workflow, parameters=parameters, now=now).workflow
    status: dict[str, Any] = {
        "nodes": _rename_nodes(kept, name, now or timestamp()),
        "conditions": [{"type": "Completed", "status": "False"}],
    }
    if status_of(workflow).get("storedTemplates"):
        status["storedTemplates"] = status_of(workflow)["storedTemplates"]
    return {**new, "status": status}


def _rename_nodes(workflow: Object, name: str, now: str) -> dict[str, Node]:
    """Returns the nodes of one workflow under the name of another."""
    old = name_of(workflow)
    nodes: Mapping[str, Node] = status_of(workflow).get("nodes") or {}
    names = {key: name + str(node["name"]).removeprefix(old) for key, node in nodes.items()}
    ids = {key: node_id(name, new) for key, new in names.items()}
    found = {}
    for key, node in nodes.items():
        new = Node(**node)
        new["id"], new["name"], new["startedAt"] = ids[key], names[key], now
        if node.get("displayName") == old:
            new["displayName"] = name
        if "boundaryID" in node:
            new["boundaryID"] = ids.get(node["boundaryID"], "")
        if "children" in node:
            new["children"] = [ids[child] for child in node["children"] if child in ids]
        if "outboundNodes" in node:
            new["outboundNodes"] = [ids[out] for out in node["outboundNodes"] if out in ids]
        if node.get("finishedAt"):
            new["finishedAt"] = now
        if node.get("phase") == "Succeeded" and node.get("type") in ("Pod", "HTTP", "Plugin"):
            new["message"] = f"original pod: {key}"
        new.pop("podIP", None)
        new.pop("hostNodeName", None)
        new.pop("resourcesDuration", None)
        found[ids[key]] = new
    return found
