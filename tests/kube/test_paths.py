from __future__ import annotations

import pytest

from muster.kube.paths import Step, join_path, spell_path, split_path, value_at

PATHS: list[tuple[str, list[Step]]] = [
    ("spec", ["spec"]),
    ("spec.containers[0].image", ["spec", "containers", 0, "image"]),
    ("metadata.labels[app.kubernetes.io/name]", ["metadata", "labels", "app.kubernetes.io/name"]),
    ("", []),
]


@pytest.mark.parametrize(("path", "steps"), PATHS)
def test_a_path_is_split_and_spelt(path: str, steps: list[Step]) -> None:
    assert split_path(path) == steps
    assert spell_path(steps) == path


@pytest.mark.parametrize(
    ("path", "field", "joined"),
    [("", "spec", "spec"), ("spec", "", "spec"), ("spec", "x", "spec.x"), ("spec.items", "[2]", "spec.items[2]")],
)
def test_an_index_needs_no_dot(path: str, field: str, joined: str) -> None:
    assert join_path(path, field) == joined


@pytest.mark.parametrize(
    ("path", "value"),
    [("spec.list[1].x", 5), ("spec.list[9].x", None), ("spec.list.x", None), ("spec.map[a.b/c]", "y"), ("", ...)],
)
def test_a_value_is_found_by_its_path(path: str, value: object) -> None:
    tree = {"spec": {"list": [{}, {"x": 5}], "map": {"a.b/c": "y"}}}
    assert value_at(tree, path) == (tree if value is ... else value)
