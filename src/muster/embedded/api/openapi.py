"""The API described in OpenAPI, version 3 group by group and version 2 as a whole.

Enough for `kubectl explain`, for `kubectl apply` to know what to ask for, and for clients that check fields themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from muster.embedded.api.openapi_sharing import Sharing
from muster.kube.kinds import Kind, Schema
from muster.kube.schema import OBJECT_META, STRING

_GVK = "x-kubernetes-group-version-kind"
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_APPLY_PARAMETERS = (*_WRITE_PARAMETERS, "force")
# Strategic merge patches are understood but not announced: kubectl then works them out from its own knowledge of the
# built-in types, which is complete, rather than from these schemas.
_PATCH_MEDIA = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_V2_KEYS = frozenset((
    "type", "format", "title", "description", "default", "required", "enum", "items", "properties",
    "additionalProperties", "maximum", "minimum", "pattern", "maxLength", "minLength", "maxItems", "minItems",
))  # fmt: skip


def index(kinds: Iterable[Kind]) -> dict[str, Any]:
    """/openapi/v3: where the document of each group and version is. The hash lets clients keep what has not changed."""
    known = list(kinds)
    hashes = {path: digest(orjson.dumps(v3(known, path))) for path in sorted({group_path(kind) for kind in known})}
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hash}"} for path, hash in hashes.items()}}


def group_path(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def v3(kinds: Iterable[Kind], path: str) -> dict[str, Any] | None:
    """The document of one group and version, `apis/batch/v1`; None if there is no such group."""
    members = [kind for kind in kinds if group_path(kind) == path]
    if not members:
        return None
    sharing = Sharing([kind.schema for kind in members], "#/components/schemas/")
    schemas = {_name(kind): _definition(kind, sharing.written(kind.schema)) for kind in members}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": {where: item for kind in members for where, item in _paths(kind).items()},
        "components": {"schemas": {**schemas, **sharing.definitions}},
    }


def v2(kinds: Iterable[Kind]) -> dict[str, Any]:
    """/openapi/v2"""
    known = list(kinds)
    sharing = Sharing([kind.schema for kind in known], "#/definitions/")
    definitions = {_name(kind): _definition(kind, _v2_schema(sharing.written(kind.schema))) for kind in known}
    shared = {name: _v2_schema(schema) for name, schema in sharing.definitions.items()}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": {where: _v2_item(item) for kind in known for where, item in _paths(kind).items()},
        "definitions": {**definitions, **shared},
    }


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32].upper()


def _name(kind: Kind) -> str:
    """`io.k8s.api.core.v1.Pod`, `org.kubeflow.v1.PyTorchJob`"""
    if "." not in kind.group:
        return f"io.k8s.api.{kind.group or 'core'}.{kind.version}.{kind.kind}"
    return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _definition(kind: Kind, schema: Schema) -> Schema:
    properties = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META, **(schema.get("properties") or {})}
    return {"type": "object", **schema, "properties": properties, _GVK: [_gvk(kind)]}


def _paths(kind: Kind) -> dict[str, dict[str, Any]]:
    base = f"/{group_path(kind)}"
    if kind.namespaced:
        everywhere = f"{base}/{kind.plural}"
        collection = f"{base}/namespaces/{{namespace}}/{kind.plural}"
    else:
        everywhere = collection = f"{base}/{kind.plural}"
    listing = _operation(kind, "list")
    paths: dict[str, dict[str, Any]] = {everywhere: {"get": listing}}
    paths[collection] = {
        "get": listing,
        "post": _operation(kind, "post", _WRITE_PARAMETERS),
        "delete": _operation(kind, "deletecollection", ("dryRun",)),
    }
    paths[f"{collection}/{{name}}"] = {
        "get": _operation(kind, "get"),
        "put": _operation(kind, "put", _WRITE_PARAMETERS),
        "patch": {
            **_operation(kind, "patch", _APPLY_PARAMETERS),
            "requestBody": {"content": {media: {"schema": {"type": "object"}} for media in _PATCH_MEDIA}},
        },
        "delete": _operation(kind, "delete", ("dryRun",)),
    }
    return paths


def _operation(kind: Kind, action: str, parameters: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "operationId": f"{action}{kind.group.title().replace('.', '')}{kind.version.title()}{kind.kind}",
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in parameters],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        _GVK: _gvk(kind),
    }


def _v2_item(item: dict[str, Any]) -> dict[str, Any]:
    """Version 2 has the type of a parameter beside its name, and no request bodies."""
    return {
        method: {
            **{key: value for key, value in operation.items() if key != "requestBody"},
            "parameters": [{"name": p["name"], "in": "query", "type": "string"} for p in operation["parameters"]],
        }
        for method, operation in item.items()
    }


def _v2_schema(schema: Schema) -> Schema:
    """What version 2 can say of a schema; the rest it leaves open."""
    if "$ref" in schema:
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": "string", "format": "int-or-string"}
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        # Without a type, a field may hold anything.
        kept = ("description", "x-kubernetes-preserve-unknown-fields")
        return {key: schema[key] for key in kept if key in schema}
    found = {key: value for key, value in schema.items() if key in _V2_KEYS or key.startswith("x-kubernetes-")}
    if isinstance(schema.get("properties"), dict):
        found["properties"] = {name: _v2_schema(field) for name, field in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        found["items"] = _v2_schema(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _v2_schema(schema["additionalProperties"])
    return found
