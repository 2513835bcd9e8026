"""Nodes have the events that Argo's controller emits."""

from __future__ import annotations

import pytest

from muster.workflows.model import Node, Phase
from muster.workflows.node_events import phase_events


def node(phase: Phase, message: str = "") -> Node:
    return Node(id="w-1", name="w.a", type="Pod", phase=phase, message=message, startedAt="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        (None, node("Pending"), []),
        (None, node("Running"), ["Running"]),
        (None, node("Succeeded"), ["Running", "Succeeded"]),
        (node("Pending"), node("Pending", "waits"), []),
        (node("Pending"), node("Running"), ["Running"]),
        (node("Pending"), node("Failed"), ["Running", "Failed"]),
        (node("Running"), node("Running"), []),
        (node("Running"), node("Error"), ["Error"]),
    ],
)
def test_a_node_has_an_event_for_every_phase_it_enters(before: Node | None, after: Node, reasons: list[str]) -> None:
    found = phase_events({"w-1": after}, {} if before is None else {"w-1": before}, ["w-1"])
    assert [event.reason for event in found] == [f"WorkflowNode{reason}" for reason in reasons]


def test_what_an_event_says() -> None:
    [event] = phase_events({"w-1": node("Failed", "exit code 1")}, {"w-1": node("Running")}, ["w-1"])
    assert (event.severity, event.message) == ("Warning", "Failed node w.a: exit code 1")
    assert event.annotations == {
        "workflows.argoproj.io/node-type": "Pod",
        "workflows.argoproj.io/node-name": "w.a",
        "workflows.argoproj.io/node-id": "w-1",
        "workflows.argoproj.io/node-start-time": "1767225600000000000",
    }
