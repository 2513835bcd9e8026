from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster.kube.kinds import Schema
from muster.kube.schema import (
    BOOLEAN,
    EMPTY,
    OBJECT_META,
    OPENAPI,
    SCALAR,
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
    upstream_schema,
)
from muster.kube.schema_validation import validate


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


@pytest.mark.parametrize("value", ["text", 5, 2.5, True])
def test_a_scalar_is_anything_that_can_be_written_in_a_line(value: Any) -> None:
    assert validate(value, SCALAR) == []


def test_a_scalar_that_is_not_says_how_to_write_it() -> None:
    (cause,) = validate({"a": [1]}, SCALAR)
    assert cause.message == (
        "expected a string, a number or a boolean, got an object with a; write it as JSON in quotes: '{\"a\":[1]}'"
    )


def test_an_empty_object_stays_empty() -> None:
    assert validate({}, EMPTY) == []
    assert [cause.field for cause in validate({"a": 1}, EMPTY)] == ["a"]


def test_a_list_may_allow_empty_items() -> None:
    assert validate([1, None], list_of({"nullable": True})) == []


def test_upstream_schemas_are_complete_and_shared() -> None:
    pod, template = upstream_schema("core.v1.Pod"), upstream_schema("core.v1.PodTemplateSpec")
    assert pod["properties"]["spec"] is template["properties"]["spec"] is upstream_schema("core.v1.PodSpec")
    assert pod["properties"]["metadata"] is OBJECT_META
    containers = pod["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"]["properties"]["image"] is STRING


def test_every_upstream_definition_resolves() -> None:
    for name in orjson.loads(OPENAPI.read_bytes()):
        assert upstream_schema(name)["type"] == "object", name
