from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.engine.node_tree import NodeTree
from muster.workflows.model import Node, NodeType, Phase


def node(name: str, kind: NodeType = "Pod", phase: Phase = "Running", **fields: Any) -> Node:
    made: Any = {
        "id": name,
        "name": name,
        "displayName": name,
        "type": kind,
        "phase": phase,
        "startedAt": "t0",
        **fields,
    }
    found: Node = made
    return found


def tree(*nodes: Node) -> NodeTree:
    made = NodeTree("wf", {n["id"]: n for n in nodes})
    made.now = "t9"
    return made


def test_a_change_makes_a_new_node_once_per_step() -> None:
    first = node("a")
    nodes = tree(first)
    second = nodes.change("a", message="m")
    assert second is not first
    assert nodes.change("a", message="n") is second
    assert nodes.take_changed() == {"a"}
    third = nodes.mark("a", "Succeeded")
    assert third is not second
    assert (first.get("message"), second["phase"], third["finishedAt"]) == (None, "Running", "t9")
    assert nodes.take_changed() == {"a"}


def test_what_changes_nothing_is_no_change() -> None:
    nodes = tree(node("a", message="m"))
    nodes.change("a", message="m", outputs=None)
    assert nodes.take_changed() == set()


def test_arrows_are_drawn_once() -> None:
    nodes = tree(node("a", children=["x"]), node("b"))
    before = nodes.nodes["a"]
    nodes.link("a", "x")
    nodes.link("a", "b")
    nodes.link("a", "b")
    nodes.link("nobody", "b")
    assert nodes.nodes["a"]["children"] == ["x", "b"]
    assert before["children"] == ["x"]
    assert [child["name"] for child in nodes.children("a")] == ["b"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("pod", ["pod"]),
        ("skipped", ["skipped"]),
        ("retry", ["try1"]),
        ("steps", ["pod", "try1"]),
        ("memo", ["memo"]),
        ("group", ["pod", "skipped"]),
        ("empty", ["empty"]),
        ("set", ["last"]),
        ("nobody", []),
    ],
)
def test_where_a_node_ends(start: str, expected: list[str]) -> None:
    nodes = tree(
        node("pod"),
        node("skipped", "Skipped", "Skipped"),
        node("try0"),
        node("try1"),
        node("retry", "Retry", children=["try0", "try1"]),
        node("steps", "Steps", outboundNodes=["pod", "retry"]),
        node("memo", "Steps", memoizationStatus={"hit": True}, outboundNodes=["pod"]),
        node("group", "TaskGroup", children=["pod", "skipped"]),
        node("empty", "TaskGroup"),
        node("set", "Pod", children=["first"]),
        node("first", "Container", children=["last"]),
        node("last", "Container", children=["steps"]),
    )
    assert nodes.outbound(start) == expected


def test_counts_follow_every_change() -> None:
    nodes = tree(node("a", boundaryID="wf", progress="1/2"), node("b", phase="Failed", boundaryID="wf"))
    inside = nodes.counts["wf"]
    assert (inside.active, inside.active_pods, inside.failed, inside.progress) == (1, 1, 1, "1/2")
    nodes.add(node("c", phase="Pending", boundaryID="wf", synchronizationStatus={"waiting": "lock"}))
    assert (inside.active, inside.active_pods, nodes.totals.active_pods) == (2, 1, 1)
    nodes.change("c", synchronizationStatus=None)
    assert nodes.totals.active_pods == 2
    nodes.mark("a", "Succeeded")
    nodes.mark("c", "Failed", "boom")
    assert (inside.active, inside.failed, nodes.totals.active_pods, inside.progress) == (0, 2, 0, "2/3")
    assert nodes.failures == {"b", "c"}
    nodes.mark("c", "Error")
    assert nodes.failures == {"b", "c"}


def test_what_is_inside_is_summed_up_at_the_end() -> None:
    nodes = tree(node("wf", "Steps"), node("a", boundaryID="wf", progress="1/1", resourcesDuration={"cpu": 2}))
    nodes.add(node("inner", "DAG", boundaryID="wf", progress="2/3", resourcesDuration={"cpu": 5}))
    closed = nodes.close("wf", "Succeeded")
    assert (closed["progress"], closed["resourcesDuration"], closed["finishedAt"]) == ("3/4", {"cpu": 7}, "t9")
    assert nodes.totals.progress == "1/1"
