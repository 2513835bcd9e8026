"""The nodes of a Workflow as they are drawn: leaves, with edges through groups."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Any

from muster.kube.objects import Object
from muster.platform.argo.nodes import drawn_nodes, node_detail
from muster.platform.argo.schedules import next_times, parse_schedules
from muster.platform.database.queries import PageRequest, merge_pages
from muster.platform.records.common import Page


def workflow(**nodes: tuple[str, list[str]]) -> Object:
    """Nodes by id: the type and the children."""
    told: dict[str, Any] = {
        key: {"id": key, "name": f"w.{key}", "displayName": key, "type": kind, "phase": "Succeeded", "children": after}
        for key, (kind, after) in nodes.items()
    }
    return {"metadata": {"name": "w", "namespace": "n"}, "spec": {"templates": []}, "status": {"nodes": told}}


def edges(found: Object) -> dict[str, list[str]]:
    return {node.id: node.children for node in drawn_nodes(found)}


def test_groups_are_replaced_by_edges() -> None:
    steps = workflow(
        root=("Steps", ["g0"]), g0=("StepGroup", ["a", "b"]), a=("Pod", ["g1"]), b=("Pod", ["g1"]),
        g1=("StepGroup", ["c"]), c=("Pod", []),
    )  # fmt: skip
    assert edges(steps) == {"a": ["c"], "b": ["c"], "c": []}


def test_a_group_between_many_nodes_stays() -> None:
    many = [f"a{n}" for n in range(10)]
    loops = workflow(
        root=("DAG", many), **{name: ("Pod", ["join"]) for name in many}, join=("TaskGroup", ["b0", "b1"]),
        b0=("Pod", []), b1=("Pod", []),
    )  # fmt: skip
    found = edges(loops)
    assert found["a0"] == ["join"] and found["join"] == ["b0", "b1"] and "root" not in found


def test_attempts_are_one_node() -> None:
    retried = workflow(root=("DAG", ["fit"]), fit=("Retry", ["one", "two"]), one=("Pod", []), two=("Pod", ["after"]),
                       after=("Pod", []))  # fmt: skip
    for number, key in enumerate(("one", "two")):
        retried["status"]["nodes"][key]["name"] = f"w.fit({number})"
    assert edges(retried) == {"fit": ["after"], "after": []}
    detail = node_detail(retried, "fit")
    assert detail is not None and [attempt.number for attempt in detail.attempts] == [1, 2]
    assert node_detail(retried, "other") is None


def test_the_times_of_several_schedules_are_in_order_and_each_once() -> None:
    found = next_times(parse_schedules(["0 9 * * *", "0 9,10 * * *"], "UTC"), datetime(2026, 1, 1, tzinfo=UTC))
    assert [(time.day, time.hour) for time in islice(found, 4)] == [(1, 9), (1, 10), (2, 9), (2, 10)]


def test_pages_of_several_lists_are_one() -> None:
    pages = [Page([9, 5], None, 2), Page([8, 7], "more", 5)]
    merged = merge_pages(pages, PageRequest(2), key=str, value_of=lambda item: item, usual="-value")
    assert (merged.items, merged.total, merged.next is not None) == ([9, 8], 7, True)
    last = merge_pages([Page([1], None, 1)], PageRequest(4), key=str, value_of=lambda item: item, usual="-value")
    assert (last.items, last.next) == ([1], None)
