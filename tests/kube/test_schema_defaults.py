from __future__ import annotations

from typing import Any

import pytest

from muster.kube.kinds import Schema
from muster.kube.schema import ANY, INT32, STRING, apply_defaults, boolean, integer, list_of, map_of, obj, prune, string

PORT = obj({"port": INT32, "protocol": string(default="TCP")})
SPEC = obj({
    "replicas": integer(default=1),
    "paused": boolean(default=False),
    "ports": list_of(PORT),
    "byName": map_of(PORT),
    "template": obj({"labels": map_of(STRING) | {"default": {"app": "x"}}}),
    "note": string(nullable=True, default="n"),
    "free": ANY,
})  # fmt: skip


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ({}, {"replicas": 1, "paused": False, "note": "n"}),
        ({"replicas": None, "note": None}, {"replicas": 1, "paused": False, "note": None}),
        (
            {"replicas": 2, "paused": True, "note": "", "ports": [{"port": 1}, {"port": 2, "protocol": "UDP"}]},
            {
                "replicas": 2,
                "paused": True,
                "note": "",
                "ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "UDP"}],
            },
        ),
        (
            {"byName": {"a": {}}, "template": {}},
            {
                "byName": {"a": {"protocol": "TCP"}},
                "template": {"labels": {"app": "x"}},
                "replicas": 1,
                "paused": False,
                "note": "n",
            },
        ),
        ("of the wrong type", "of the wrong type"),
    ],
)
def test_defaults_are_filled_in_once(value: Any, filled: Any) -> None:
    before = repr(value)
    result = apply_defaults(value, SPEC)
    assert result == filled
    assert repr(value) == before
    assert apply_defaults(result, SPEC) is result


def test_a_default_is_never_shared() -> None:
    first, second = apply_defaults({"template": {}}, SPEC), apply_defaults({"template": {}}, SPEC)
    assert first["template"]["labels"] is not second["template"]["labels"]


def test_a_schema_without_defaults_costs_nothing() -> None:
    value = {"a": [{"b": 1}]}
    assert apply_defaults(value, obj({"a": list_of(obj({"b": INT32}))})) is value


@pytest.mark.parametrize(
    ("schema", "value", "pruned"),
    [
        (SPEC, {"replicas": 1, "x": 2, "ports": [{"port": 1, "y": 1}]}, {"replicas": 1, "ports": [{"port": 1}]}),
        (SPEC, {"replicas": None, "note": None, "free": {"any": None}}, {"note": None, "free": {"any": None}}),
        (SPEC, {"byName": {"a": {"port": 1, "z": 1}}}, {"byName": {"a": {"port": 1}}}),
        (ANY, {"x": 1}, {"x": 1}),
        ({"type": "object"}, {"x": 1}, {"x": 1}),
        (obj({"a": STRING}, keep_unknown=True), {"b": 1}, {"b": 1}),
        (
            obj({"spec": ANY}) | {"x-kubernetes-embedded-resource": True},
            {"kind": "Pod", "metadata": {"name": "x"}, "other": 1},
            {"kind": "Pod", "metadata": {"name": "x"}},
        ),
    ],
)
def test_what_does_not_belong_is_dropped(schema: Schema, value: Any, pruned: Any) -> None:
    before = repr(value)
    assert prune(value, schema) == pruned
    assert repr(value) == before


def test_what_is_in_shape_stays_the_same_object() -> None:
    value = {"replicas": 1, "ports": [{"port": 1}], "byName": {"a": {"port": 1}}}
    assert prune(value, SPEC) is value
