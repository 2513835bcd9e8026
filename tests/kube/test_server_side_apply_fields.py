from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.server_side_apply import FieldPath, format_field_path, from_fields_v1, to_fields_v1


@pytest.mark.parametrize(
    ("paths", "wire"),
    [
        (set(), {}),
        ({("f:spec", "f:replicas")}, {"f:spec": {"f:replicas": {}}}),
        (
            {("f:l",), ("f:l", "f:a"), ("f:l", "f:a", "f:b"), ("f:m",)},
            {"f:l": {".": {}, "f:a": {".": {}, "f:b": {}}}, "f:m": {}},
        ),
        (
            {("f:c", 'k:{"name":"x"}'), ("f:c", 'k:{"name":"x"}', "f:image")},
            {"f:c": {'k:{"name":"x"}': {".": {}, "f:image": {}}}},
        ),
    ],
)
def test_on_the_wire(paths: set[FieldPath], wire: dict[str, Any]) -> None:
    assert to_fields_v1(paths) == wire
    assert from_fields_v1(wire) == paths


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:spec", "f:containers", 'k:{"name":"web"}', "f:image"), '.spec.containers[name="web"].image'),
        (("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}'), '.ports[containerPort=80,protocol="TCP"]'),
        (("f:metadata", "f:finalizers", 'v:"a/b"'), '.metadata.finalizers[="a/b"]'),
        (("f:list", "i:0"), ".list[0]"),
        (("f:list", "k:nonsense"), ".list[nonsense]"),
        (("f:list", "k:5"), ".list[5]"),
    ],
)
def test_a_path_is_spelled_as_kubernetes_does(path: FieldPath, text: str) -> None:
    assert format_field_path(path) == text


steps = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"n":1}', 'v:"x"'])


@given(st.sets(st.lists(steps, min_size=1, max_size=4).map(tuple), max_size=12))
def test_there_and_back(paths: set[FieldPath]) -> None:
    assert from_fields_v1(to_fields_v1(paths)) == paths
