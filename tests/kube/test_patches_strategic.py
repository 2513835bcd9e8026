from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from muster.kube.errors import BadRequest
from muster.kube.patches import strategic_merge

PORTS = {
    "type": "array",
    "x-kubernetes-patch-strategy": "merge",
    "x-kubernetes-patch-merge-key": "containerPort",
    "items": {"type": "object", "properties": {"containerPort": {"type": "integer"}}},
}
CONTAINERS = {
    "type": "array",
    "x-kubernetes-patch-strategy": "merge",
    "x-kubernetes-patch-merge-key": "name",
    "items": {"type": "object", "properties": {"ports": PORTS, "args": {"type": "array"}}},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "metadata": {
            "properties": {
                "labels": {"additionalProperties": {"type": "string"}},
                "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge"},
            }
        },
        "spec": {
            "properties": {
                "containers": CONTAINERS,
                "tolerations": {"type": "array"},
                "volumes": {**CONTAINERS, "x-kubernetes-patch-strategy": "merge,retainKeys"},
                "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
            }
        },
    },
}
A, B, C = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}, {"name": "c", "image": "1"}


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param(
            {"metadata": {"labels": {"x": "1", "y": "2"}}},
            {"metadata": {"labels": {"y": None, "z": "3", "w": None}}},
            {"metadata": {"labels": {"x": "1", "z": "3"}}},
            id="maps merge and null removes",
        ),
        pytest.param({}, spec(a={"b": None, "c": 1}), spec(a={"c": 1}), id="null leaves no trace"),
        pytest.param(
            spec(containers=[A, B]),
            spec(containers=[{"name": "b", "image": "2"}]),
            spec(containers=[A, {"name": "b", "image": "2"}]),
            id="an item is merged in its place",
        ),
        pytest.param(
            spec(containers=[A]), spec(containers=[B]), spec(containers=[B, A]), id="a new item comes before the others"
        ),
        pytest.param(
            spec(containers=[A, B, C]),
            spec(containers=[{"name": "c", "x": 1}, {"name": "a", "x": 2}]),
            spec(containers=[B, {**C, "x": 1}, {**A, "x": 2}]),
            id="the patch decides the order of its own items",
        ),
        pytest.param(
            spec(containers=[{**A, "ports": [{"containerPort": 80, "name": "web"}]}]),
            spec(containers=[{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}]),
            spec(containers=[{**A, "ports": [{"containerPort": 80, "name": "web", "hostPort": 8080}]}]),
            id="lists in lists merge too",
        ),
        pytest.param(
            spec(containers=[A, B, {**A, "image": "again"}, C]),
            spec(containers=[{"name": "c", "image": "2"}, {"name": "b", "image": "2"}]),
            spec(containers=[A, {**A, "image": "again"}, {**C, "image": "2"}, {**B, "image": "2"}]),
            id="items that share a key are all kept",
        ),
        pytest.param(
            spec(containers=[{**A, "args": ["x", "y"]}]),
            spec(containers=[{"name": "a", "args": ["z"]}]),
            spec(containers=[{**A, "args": ["z"]}]),
            id="a list without a strategy is replaced",
        ),
        pytest.param(
            spec(tolerations=[{"key": "k"}]), spec(tolerations=[]), spec(tolerations=[]), id="even by an empty one"
        ),
        pytest.param(
            spec(containers=[A, B]),
            spec(containers=[{"name": "a", "$patch": "delete"}]),
            spec(containers=[B]),
            id="$patch: delete removes an item",
        ),
        pytest.param(
            spec(containers=[A]),
            spec(containers=[{"name": "z", "$patch": "delete"}]),
            spec(containers=[A]),
            id="deleting what is not there changes nothing",
        ),
        pytest.param(
            spec(),
            spec(containers=[{"name": "z", "$patch": "delete"}, A]),
            spec(containers=[A]),
            id="deleting from a list that is not there",
        ),
        pytest.param(
            spec(containers=[A, B]),
            spec(containers=[{"$patch": "replace"}, C]),
            spec(containers=[C]),
            id="$patch: replace replaces a list",
        ),
        pytest.param(
            spec(containers=[A]),
            spec(containers=[{"$patch": "merge", "name": "a", "x": 1}]),
            spec(containers=[{**A, "x": 1}]),
            id="$patch: merge is what happens anyway",
        ),
        pytest.param(
            spec(security={"a": 1, "b": 2}),
            spec(security={"$patch": "replace", "c": 3}),
            spec(security={"c": 3}),
            id="$patch: replace replaces a map",
        ),
        pytest.param(
            spec(security={"a": 1}),
            spec(security={"$patch": "delete"}),
            spec(security={}),
            id="$patch: delete empties a map",
        ),
        pytest.param(spec(), spec(security={"$patch": "delete"}), spec(), id="but does not make one"),
        pytest.param(spec(whole={"a": 1}), spec(whole={"b": 2}), spec(whole={"b": 2}), id="a map that is replaced"),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c", "a"]}},
            {"metadata": {"finalizers": ["c", "a", "b"]}},
            id="plain values are united",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "z"]}},
            {"metadata": {"finalizers": ["a", "c"]}},
            id="$deleteFromPrimitiveList",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {
                "metadata": {
                    "$deleteFromPrimitiveList/finalizers": ["a"],
                    "$setElementOrder/finalizers": ["c", "b"],
                    "finalizers": ["c"],
                }
            },
            {"metadata": {"finalizers": ["c", "b"]}},
            id="deleted, added and ordered at once",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": []}},
            {"metadata": {}},
            id="directives for a list that is not there",
        ),
        pytest.param(
            spec(containers=[A, B, C]),
            spec(**{"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}),
            spec(containers=[B, C, A]),
            id="$setElementOrder alone",
        ),
        pytest.param(
            spec(containers=[A, B]),
            spec(**{"$setElementOrder/containers": [{"name": "a"}, {"name": "c"}, {"name": "b"}], "containers": [C]}),
            spec(containers=[A, C, B]),
            id="$setElementOrder places a new item",
        ),
        pytest.param(
            spec(volumes=[{"name": "v", "emptyDir": {}}]),
            spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]),
            spec(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
            id="$retainKeys drops the rest",
        ),
        pytest.param(
            spec(containers=[A]),
            spec(containers=None),
            spec(),
            id="null removes a list",
        ),
        pytest.param({"data": {"a": [1]}}, {"data": {"a": [2]}}, {"data": {"a": [2]}}, id="an unknown list"),
        pytest.param(spec(a=[1]), spec(a={"b": 1}), spec(a={"b": 1}), id="another type replaces"),
    ],
)  # fmt: skip
def test_strategic_merge(target: Any, patch: Any, result: Any) -> None:
    before = deepcopy((target, patch))
    assert strategic_merge(target, patch, SCHEMA) == result
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("patch", "field", "complaint"),
    [
        ([], "", "must be an object"),
        (spec(containers=[{"image": "x"}]), "spec.containers[0].name", "identified by their name"),
        (spec(containers=["x"]), "spec.containers[0]", "the items of this list are objects"),
        (spec(containers=[{"name": "a", "$patch": "drop"}]), "spec.containers[0]", '"$patch: drop" is unknown'),
        (spec(containers=[{"name": "a", "$patch": "replace"}]), "spec.containers[0]", "as an item of its own"),
        (spec(x={"$patch": 1}), "spec.x", "it may be replace, delete or merge"),
        (spec(**{"$setElementOrder/containers": "a"}), "spec.$setElementOrder/containers", "must be a list"),
        (
            spec(**{"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}),
            "spec.containers",
            "$setElementOrder does not name a",
        ),
        (
            spec(**{"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [A, B]}),
            "spec.containers",
            "another order",
        ),
        (spec(**{"$setElementOrder/tolerations": [], "tolerations": []}), "spec.tolerations", "replaced as a whole"),
        (
            spec(**{"$deleteFromPrimitiveList/containers": ["a"]}),
            "spec.containers",
            "deleted with $patch: delete and their name",
        ),
        (spec(**{"$retainKeys": ["a"], "b": 1}), "spec.b", "its $retainKeys does not name it"),
        (spec(**{"$retainKeys": "a"}), "spec.$retainKeys", "must be a list of field names"),
        (spec(**{"$setElementOrder/containers": [], "containers": {}}), "spec.containers", "must be a list"),
    ],
)
def test_a_bad_patch_names_the_field(patch: Any, field: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        strategic_merge(spec(containers=[A], tolerations=[]), patch, SCHEMA)
    assert caught.value.causes[0].field == field
    assert complaint in caught.value.message


def test_what_the_patch_leaves_alone_is_shared() -> None:
    target = spec(containers=[A, B])
    merged = strategic_merge(target, {"metadata": {"labels": {"x": "1"}}}, SCHEMA)
    assert merged["spec"] is target["spec"]
