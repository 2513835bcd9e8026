"""Kinds out of CustomResourceDefinitions, and back: how users bring kinds of their own, and ours get to a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from muster.kube.crd_validation import custom_resource_definition_rule
from muster.kube.errors import Invalid
from muster.kube.kinds import Column, Kind, Scale, Schema
from muster.kube.objects import Object, name_of
from muster.kube.schema import ANY, OBJECT_META, STRING, apply_defaults, validate
from muster.kube.schemas_crd import CRD_SCHEMA
from muster.kube.validation import own_rule

_QUANTITY_PATTERN = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
_OURS = ("x-muster-", "x-kubernetes-patch-")


def kind_from_crd(crd: Object) -> list[Kind]:
    """One kind for every version that is served, the stored one first. Raises Invalid for a definition that breaks a
    rule."""
    causes = validate(crd, CRD_SCHEMA) or custom_resource_definition_rule(crd, None)
    if causes:
        listed = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
        raise Invalid(f'CustomResourceDefinition "{name_of(crd)}" is invalid: {listed}', causes=causes)
    versions = [version for version in crd["spec"]["versions"] if version["served"]]
    return [_kind(crd["spec"], version) for version in sorted(versions, key=lambda version: not version["storage"])]


def crd_from_kind(kinds: Sequence[Kind]) -> Object:
    """The definition of one kind in all its versions; the first is the one stored. Columns that are computed, and not
    read from a path, are left out."""
    first = kinds[0]
    names: Object = {
        "kind": first.kind,
        "listKind": f"{first.kind}List",
        "plural": first.plural,
        "singular": first.singular,
    }
    if first.short_names:
        names["shortNames"] = list(first.short_names)
    if first.categories:
        names["categories"] = list(first.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{first.plural}.{first.group}"},
        "spec": {
            "group": first.group,
            "names": names,
            "scope": "Namespaced" if first.namespaced else "Cluster",
            "versions": [_version(kind, stored=kind is first) for kind in kinds],
        },
    }


def _kind(spec: Object, version: Object) -> Kind:
    names, subresources = spec["names"], version.get("subresources") or {}
    schema = _with_metadata((version.get("schema") or {}).get("openAPIV3Schema") or ANY)
    words = tuple(names.get("shortNames") or ())
    singular = names.get("singular") or names["kind"].lower()
    if singular != names["kind"].lower():
        words += (singular,)
    return Kind(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=words,
        categories=tuple(names.get("categories") or ()),
        schema=schema,
        columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())),
        has_status=subresources.get("status") is not None,
        scale=_scale(subresources.get("scale")),
        default=partial(apply_defaults, schema=schema),
        validate=own_rule,
    )


def _with_metadata(schema: Schema) -> Schema:
    """Every object has these three, whatever its definition says of them."""
    common = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META}
    return {**schema, "type": "object", "properties": {**(schema.get("properties") or {}), **common}}


def _column(column: Object) -> Column:
    return Column(
        column["name"],
        column["jsonPath"],
        column["type"],
        column.get("priority") or 0,
        column.get("description") or "",
    )


def _scale(scale: Object | None) -> Scale | None:
    if scale is None:
        return None
    return Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or "")


def _version(kind: Kind, *, stored: bool) -> Object:
    schema = _portable(kind.schema or {"type": "object", **ANY})
    schema["properties"] = {**schema.get("properties", {}), "metadata": {"type": "object"}}
    version: Object = {
        "name": kind.version,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema},
    }
    columns = [_printer_column(column) for column in kind.columns if column.json_path and column.name != "Name"]
    if columns:
        version["additionalPrinterColumns"] = columns
    subresources: Object = {}
    if kind.has_status:
        subresources["status"] = {}
    if kind.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.replicas,
            "statusReplicasPath": kind.scale.status_replicas,
        } | ({"labelSelectorPath": kind.scale.selector} if kind.scale.selector else {})
    if subresources:
        version["subresources"] = subresources
    return version


def _printer_column(column: Column) -> Object:
    printed: Object = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.priority:
        printed["priority"] = column.priority
    if column.description:
        printed["description"] = column.description
    return printed


def _portable(schema: Schema) -> Schema:
    """The schema as an API server takes it: without what only we or built-in kinds use."""
    if schema.get("format") == "quantity":
        either = [{"type": "integer"}, {"type": "string"}]
        return {"anyOf": either, "pattern": _QUANTITY_PATTERN, "x-kubernetes-int-or-string": True}
    portable: Schema = {}
    for key, value in schema.items():
        if key.startswith(_OURS) or (key == "additionalProperties" and value is False):
            continue
        if key == "properties":
            portable[key] = {name: _portable(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            portable[key] = _portable(value)
        else:
            portable[key] = value
    if portable.get("x-kubernetes-list-type") == "map" and not _is_keyed(schema):
        portable["x-kubernetes-list-type"] = "atomic"
        del portable["x-kubernetes-list-map-keys"]
    return portable


def _is_keyed(schema: Schema) -> bool:
    """An API server insists that items have their keys, or defaults for them, and that no two are alike."""
    if schema.get("x-muster-duplicates"):
        return False
    item: dict[str, Any] = schema.get("items") or {}
    properties, required = item.get("properties") or {}, item.get("required") or ()
    return all(
        key in required or (properties.get(key) or {}).get("default") is not None
        for key in schema["x-kubernetes-list-map-keys"]
    )
