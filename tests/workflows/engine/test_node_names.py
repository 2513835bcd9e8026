from __future__ import annotations

import pytest

from muster.workflows.engine import node_tree


@pytest.mark.parametrize(
    ("node_name", "expected"),
    [
        ("wf", "wf"),
        ("a", "wf-3826002220"),  # the published test vector of FNV-1a, 32 bits
        ("foobar", "wf-3214735720"),
        ("wf[0].schön", f"wf-{node_tree.node_id('x', 'wf[0].schön').removeprefix('x-')}"),
    ],
)
def test_a_node_is_known_by_the_hash_of_its_name(node_name: str, expected: str) -> None:
    assert node_tree.node_id("wf", node_name) == expected


@pytest.mark.parametrize(
    ("workflow", "node_name", "template", "expected"),
    [
        ("wf", "wf", "main", "wf"),
        ("wf", "a", "say", "wf-say-3826002220"),
        ("wf", "a", "", "wf-3826002220"),
        ("w" * 200, "a", "t" * 100, "w" * 200 + "-" + "t" * 41 + "-3826002220"),
    ],
)
def test_pods_have_names_of_version_2(workflow: str, node_name: str, template: str, expected: str) -> None:
    assert node_tree.pod_name(workflow, node_name, template) == expected
    assert len(node_tree.pod_name(workflow, node_name, template)) <= 253


@pytest.mark.parametrize(
    ("node_name", "boundary", "expected"),
    [
        ("wf", "", "wf"),
        ("wf[0]", "wf", "[0]"),
        ("wf[12].a", "wf", "a"),
        ("wf.A", "wf", "A"),
        ("wf[0].a(0:x.y)(1)", "wf", "a(0:x.y)(1)"),
        ("wf[0].a.onExit", "wf", "a.onExit"),
        ("wf.onExit", "", "wf.onExit"),
    ],
)
def test_a_node_is_shown_without_what_is_around_it(node_name: str, boundary: str, expected: str) -> None:
    assert node_tree.display_name(node_name, boundary) == expected


@pytest.mark.parametrize(
    ("node_name", "expected"),
    [
        ("wf[0].a", "a"),
        ("wf.fan(0:x)", "fan"),
        ("wf[0].fan(0:x.y)(1)", "fan"),
        ("wf(0)[1].b", "b"),
        ("wf.a.onExit", "onExit"),
        ("wf", "wf"),
    ],
)
def test_the_step_a_node_stems_from(node_name: str, expected: str) -> None:
    assert node_tree.step_of(node_name) == expected
