"""Every field of Argo is known, and no other. argo_fields.json lists the fields of v4.0 and v3.7 together, by type;
those from Kubernetes ("k8s") are specified elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.kube.kinds import Kind, Schema
from muster.workflows.kinds import (
    CLUSTER_WORKFLOW_TEMPLATE,
    CRON_WORKFLOW,
    WORKFLOW,
    WORKFLOW_EVENT_BINDING,
    WORKFLOW_TEMPLATE,
)

ARGO: dict[str, Any] = json.loads((Path(__file__).parent / "argo_fields.json").read_text())
KINDS = (WORKFLOW, WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW_EVENT_BINDING)
OF_CONTAINERS = {"ContainerNode", "ScriptTemplate", "UserContainer"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_has_the_fields_that_argo_has(kind: Kind) -> None:
    assert list(differences(kind.kind, kind.schema, kind.kind, ())) == []


def differences(type_: str, schema: Schema, path: str, inside: tuple[str, ...]) -> list[str]:
    if type_.startswith("["):
        return differences(type_[1:-1], schema["items"], f"{path}[]", inside)
    if type_.startswith("{") and type_ != "{}":
        return differences(type_[1:-1], schema["additionalProperties"], f"{path}{{}}", inside)
    known = ARGO.get(type_)
    if isinstance(known, dict):
        if inside.count(type_) > (1 if type_ == "Template" else 0):
            return []
        fields = schema.get("properties") or {}
        wrong = [f"{path}: {name}" for name in sorted(known.keys() ^ fields.keys())]
        for name in known.keys() & fields.keys():
            wrong += differences(known[name], fields[name], f"{path}.{name}", (*inside, type_))
        return wrong
    if known is not None and known != "any":
        return differences(known, schema, path, inside)
    return [] if fits(type_, schema) else [f"{path}: {type_} is not {schema}"]


def fits(type_: str, schema: Schema) -> bool:
    match type_:
        case "k8s":
            return True
        case "any" | "Item":
            return "x-kubernetes-preserve-unknown-fields" in schema
        case "int-or-string":
            return schema.get("x-kubernetes-int-or-string") is True
        case "time":
            return schema.get("format") == "date-time"
        case "{}":
            return schema.get("type") == "object"
        case "string":
            return schema.get("type") == "string" or "x-muster-scalar" in schema
    return bool(schema.get("type") == type_)
