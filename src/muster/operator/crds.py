"""The CustomResourceDefinitions of the training kinds, as `muster operator install` brings them to a cluster.

They take over from training-operator's and paddle-operator's in place, so they accept whatever those accept and drop
nothing that those keep. What a value may be is therefore not said here but by the webhook: with a narrower definition,
a job stored under the wider one could no longer be changed, not even its status.
"""

from __future__ import annotations

from dataclasses import replace

from muster.kube.crd import crd_from_kind
from muster.kube.kinds import Kind, Schema
from muster.kube.objects import Object
from muster.kube.schema import OBJECT_META
from muster.training.registry import training_kinds

_NARROWING = frozenset({"enum", "minimum", "maximum", "minLength", "maxLength", "pattern"})
_TEMPLATE_META = ("annotations", "finalizers", "labels", "name", "namespace")
"""What a template's metadata may say. The rest is an API server's to write; clients in Go send a `creationTimestamp` of
null there, which has to be dropped and not refused."""


def crds() -> list[Object]:
    """One for every kind, with all its versions; the first one is stored. There is nothing to convert: versions of a
    kind have the same fields."""
    by_resource: dict[str, list[Kind]] = {}
    for kind in training_kinds():
        by_resource.setdefault(kind.resource, []).append(replace(kind, schema=_root(kind.schema)))
    return [crd_from_kind(kinds) for kinds in by_resource.values()]


def _root(schema: Schema) -> Schema:
    fields = {name: field if name == "metadata" else _wide(field) for name, field in schema["properties"].items()}
    return {**schema, "properties": fields}


def _wide(schema: Schema) -> Schema:
    """Structure without judgement."""
    if schema is OBJECT_META:
        return {
            "type": "object",
            "properties": {name: _wide(OBJECT_META["properties"][name]) for name in _TEMPLATE_META},
        }
    wide = {key: value for key, value in schema.items() if key not in _NARROWING}
    if "properties" in wide:
        wide["properties"] = {name: _wide(field) for name, field in wide["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(wide.get(key), dict):
            wide[key] = _wide(wide[key])
    if wide.get("x-kubernetes-list-type") == "set":
        wide["x-kubernetes-list-type"] = "atomic"  # a set may not have an entry twice
    return wide
