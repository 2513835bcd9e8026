from __future__ import annotations

import pytest

from muster.workflows.lint.steps_and_dag import ancestors_among, find_cycle, topological_order


@pytest.mark.parametrize(
    ("graph", "order", "circle"),
    [
        ({}, [], []),
        ({"a": []}, ["a"], []),
        ({"b": ["a"], "a": []}, ["a", "b"], []),
        ({"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}, ["a", "b", "c", "d"], []),
        ({"a": ["a"]}, [], ["a", "a"]),
        ({"a": ["b"], "b": ["a"]}, [], ["a", "b", "a"]),
        ({"free": [], "behind": ["a", "free"], "a": ["b"], "b": ["a"]}, ["free"], ["a", "b", "a"]),
    ],
)
def test_order_and_circles(graph: dict[str, list[str]], order: list[str], circle: list[str]) -> None:
    assert topological_order(graph) == order
    assert find_cycle(graph) == circle


def test_only_those_asked_about_are_followed() -> None:
    graph = {"a": [], "b": ["a"], "c": ["b"], "x": []}
    wanted = {"c": {"a", "b", "x"}, "b": {"c"}, "a": set[str]()}
    assert ancestors_among(["a", "x", "b", "c"], graph, wanted) == {"c": {"a", "b"}, "b": set()}


def test_a_long_chain_whose_every_link_asks_about_the_first_half() -> None:
    names = [f"t{number}" for number in range(10_000)]
    graph = {name: names[max(0, index - 1) : index] for index, name in enumerate(names)}
    wanted = {name: {names[index // 2]} for index, name in enumerate(names) if index}
    found = ancestors_among(names, graph, wanted)
    assert found == wanted
