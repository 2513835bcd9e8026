"""Short ways to write workflows with a status."""

from __future__ import annotations

from typing import Any

from muster.kube.objects import Object


def node(id: str, type: str = "Pod", phase: str = "Succeeded", **more: Any) -> Object:
    made = {"id": id, "name": id, "displayName": id, "type": type, "phase": phase, "templateName": "t", **more}
    made.setdefault("startedAt", "2026-01-01T00:00:00Z")
    if phase not in ("Pending", "Running"):
        made.setdefault("finishedAt", "2026-01-01T00:00:07Z")
    return made


def workflow(*nodes: Object, name: str = "wf", phase: str = "Running", **more: Any) -> Object:
    status = {"phase": phase, "startedAt": "2026-01-01T00:00:00Z", "nodes": {n["id"]: n for n in nodes}}
    if phase not in ("Pending", "Running"):
        status["finishedAt"] = "2026-01-01T00:01:00Z"
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {**metadata, **more.pop("metadata", {})},
        "spec": more.pop("spec", {}),
        "status": {**status, **more},
    }
