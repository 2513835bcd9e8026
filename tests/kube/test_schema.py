from __future__ import annotations

import pytest

from muster.kube.kinds import Schema
from muster.kube.schema import (
    BOOLEAN,
    OBJECT_META,
    STRING,
    boolean,
    integer,
    list_of,
    map_of,
    number,
    obj,
    of,
    root,
    string,
    validate,
)


@pytest.mark.parametrize(
    ("built", "written"),
    [
        (obj({"a": STRING}), {"type": "object", "properties": {"a": {"type": "string"}}}),
        (
            obj({**of(STRING, "a b"), "c": BOOLEAN}, ["a"], atomic=True, keep_unknown=True, nullable=True),
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "boolean"}},
                "required": ["a"],
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-preserve-unknown-fields": True,
                "nullable": True,
            },
        ),
        (list_of(STRING), {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}),
        (
            list_of(STRING, is_set=True, patch_strategy="merge", minItems=1),
            {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
                "minItems": 1,
            },
        ),
        (
            list_of(obj({}), map_keys=["name"], patch_merge_key="name"),
            {
                "type": "array",
                "items": {"type": "object", "properties": {}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-merge-key": "name",
                "x-kubernetes-patch-strategy": "merge",
            },
        ),
        (
            map_of(STRING, atomic=True),
            {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        ),
        (string(["a", "b"], default="a"), {"type": "string", "enum": ["a", "b"], "default": "a"}),
        (string(pattern="^x"), {"type": "string", "pattern": "^x"}),
        (integer(0, 9), {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9}),
        (integer(format="int64"), {"type": "integer", "format": "int64"}),
        (number(minimum=0), {"type": "number", "format": "double", "minimum": 0}),
        (boolean(default=True), {"type": "boolean", "default": True}),
    ],
)
def test_builders_write_openapi(built: Schema, written: Schema) -> None:
    assert built == written


def test_every_kind_has_metadata() -> None:
    kind = root({"data": map_of(STRING)})
    assert kind["properties"]["metadata"] is OBJECT_META
    metadata = {
        "name": "x",
        "labels": {"a": "b"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
        "managedFields": [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}],
        "creationTimestamp": "2025-01-31T09:30:00Z",
        "finalizers": ["example.com/x"],
    }
    assert validate({"apiVersion": "v1", "kind": "X", "metadata": metadata, "data": {}}, kind) == []
    wrong = {"metadata": {"labels": ["a"], "ownerReferences": [{"kind": "Pod"}]}}
    assert [cause.field for cause in validate(wrong, kind)] == [
        "metadata.labels",
        "metadata.ownerReferences[0].apiVersion",
        "metadata.ownerReferences[0].name",
        "metadata.ownerReferences[0].uid",
    ]
