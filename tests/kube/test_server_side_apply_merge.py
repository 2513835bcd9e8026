from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import Invalid
from muster.kube.schema import INT32, STRING, STRING_MAP, list_of, map_of, obj, root, string
from muster.kube.server_side_apply import format_field_path, merge_config, owned_fields, remove_fields

CONTAINER = obj({
    "name": STRING,
    "image": STRING,
    "command": list_of(STRING),
    "env": list_of(obj({"name": STRING, "value": STRING}), map_keys=["name"], duplicates=True),
    "ports": list_of(
        obj({"containerPort": INT32, "protocol": string(default="TCP"), "name": STRING}),
        map_keys=["containerPort", "protocol"],
    ),
})  # fmt: skip
SCHEMA = root({
    "spec": obj({
        "replicas": INT32,
        "containers": list_of(CONTAINER, map_keys=["name"]),
        "nodeSelector": map_of(STRING, atomic=True),
        "roles": map_of(obj({"size": INT32, "image": STRING})),
        "security": obj({"user": INT32, "group": INT32}),
    }),
    "data": STRING_MAP,
})  # fmt: skip


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}}, set()),
        (spec(replicas=3), {".spec.replicas"}),
        (spec(replicas=0), {".spec.replicas"}),
        (spec(replicas=None), set()),
        ({"metadata": {"labels": {"a": "1"}}}, {".metadata.labels.a"}),
        ({"metadata": {"finalizers": ["x"]}}, {'.metadata.finalizers[="x"]'}),
        ({"metadata": {"ownerReferences": [{"uid": "u", "name": "n"}]}}, {'.metadata.ownerReferences[uid="u"]'}),
        (spec(nodeSelector={"a": "1", "b": "2"}), {".spec.nodeSelector"}),
        (spec(security={}), {".spec.security"}),
        (spec(containers=[]), {".spec.containers"}),
        (spec(roles={"worker": {"size": 2}}), {".spec.roles.worker", ".spec.roles.worker.size"}),
        (
            spec(containers=[{"name": "a", "command": ["x", "y"], "ports": [{"containerPort": 80}]}]),
            {
                '.spec.containers[name="a"]',
                '.spec.containers[name="a"].name',
                '.spec.containers[name="a"].command',
                '.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]',
                '.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].containerPort',
            },
        ),
        (
            spec(containers=[{"image": "no name"}]),
            {".spec.containers[0]", ".spec.containers[0].image"},
        ),
        ({"unknown": {"deep": {"x": [1]}}}, {".unknown", ".unknown.deep", ".unknown.deep.x"}),
    ],
)
def test_which_fields_have_an_owner(value: dict[str, Any], fields: set[str]) -> None:
    assert {format_field_path(path) for path in owned_fields(value, SCHEMA)} == fields


def names(*letters: str) -> list[dict[str, str]]:
    return [{"name": letter} for letter in letters]


@pytest.mark.parametrize(
    ("current", "config", "order"),
    [
        ("ab", "b", "ab"),
        ("a", "b", "ab"),
        ("ab", "ba", "ba"),
        ("ab", "cb", "acb"),
        ("abc", "ca", "bca"),
        ("xay", "ba", "xbay"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
    ],
)
def test_items_keep_the_order_of_the_configuration(current: str, config: str, order: str) -> None:
    merged = merge_config(spec(containers=names(*current)), spec(containers=names(*config)), SCHEMA)
    assert merged["spec"]["containers"] == names(*order)


@pytest.mark.parametrize(
    ("current", "config", "merged"),
    [
        (spec(security={"user": 1}), spec(security={"group": 2}), spec(security={"user": 1, "group": 2})),
        (spec(nodeSelector={"a": "1"}), spec(nodeSelector={"b": "1"}), spec(nodeSelector={"b": "1"})),
        (spec(replicas=1), spec(replicas=None), spec(replicas=1)),
        (
            spec(containers=[{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]),
            spec(containers=[{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}]),
            spec(containers=[{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]}]),
        ),
        (
            spec(containers=[{"name": "a", "env": [{"name": "X", "value": "0"}]}]),
            spec(containers=[{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]}]),
            spec(containers=[{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]}]),
        ),
    ],
)  # fmt: skip
def test_merging_a_configuration(current: dict[str, Any], config: dict[str, Any], merged: dict[str, Any]) -> None:
    assert merge_config(current, config, SCHEMA)["spec"] == merged["spec"]


def test_what_the_server_writes_is_not_merged() -> None:
    current = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}}
    config = {"metadata": {"name": "x", "uid": "v", "resourceVersion": "3", "creationTimestamp": None}}
    assert merge_config(current, config, SCHEMA) == current


@pytest.mark.parametrize(
    ("config", "field", "complaint"),
    [
        (spec(containers=[{"image": "x"}]), "spec.containers[0]", "identified by name, which this one lacks"),
        (spec(containers=["x"]), "spec.containers[0]", "identified by name"),
        (spec(containers=names("a", "a")), "spec.containers[1]", 'there is another item [name="a"]'),
        ({"metadata": {"finalizers": ["f", "f"]}}, "metadata.finalizers[1]", 'another item [="f"]'),
    ],
)
def test_items_that_cannot_be_told_apart(config: dict[str, Any], field: str, complaint: str) -> None:
    with pytest.raises(Invalid) as caught:
        merge_config({}, config, SCHEMA)
    assert caught.value.causes[0].field == field
    assert complaint in caught.value.message


@pytest.mark.parametrize(
    ("value", "gone", "left"),
    [
        (spec(replicas=1, security={"user": 1}), {".spec.security.user"}, spec(replicas=1)),
        (spec(containers=names("a", "b")), {'.spec.containers[name="a"]'}, spec(containers=names("b"))),
        (
            spec(containers=[{"name": "a", "image": "x"}]),
            {'.spec.containers[name="a"].name', '.spec.containers[name="a"].image'},
            spec(containers=names("a")),
        ),
        (
            {"metadata": {"finalizers": ["x", "y"], "labels": {"a": "1"}}},
            {'.metadata.finalizers[="x"]', ".metadata.labels.a"},
            {"metadata": {"finalizers": ["y"]}},
        ),
        (spec(replicas=1), set(), spec(replicas=1)),
    ],
)
def test_taking_fields_out(value: dict[str, Any], gone: set[str], left: dict[str, Any]) -> None:
    paths = {path for path in owned_fields(value, SCHEMA) if format_field_path(path) in gone}
    assert len(paths) == len(gone)
    assert remove_fields(value, paths, frozenset(), SCHEMA) == left


def test_what_somebody_holds_stays_when_it_is_empty() -> None:
    value = spec(security={"user": 1}, containers=names("a"))
    held = {("f:spec", "f:security"), ("f:spec", "f:containers")}
    assert remove_fields(value, owned_fields(value, SCHEMA).keys(), held, SCHEMA) == spec(security={}, containers=[])
