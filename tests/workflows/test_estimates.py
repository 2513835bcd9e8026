from __future__ import annotations

from typing import Any

from muster.kube.objects import Object
from muster.workflows.estimates import Estimates, estimate, newest_of, origins_of, succeeded_origins_of

TEMPLATE = "workflows.argoproj.io/workflow-template"
PHASE = "workflows.argoproj.io/phase"


def workflow(name: str, created: str = "", started: str = "", finished: str = "", **labels: str) -> Object:
    metadata = {"name": name, "namespace": "ns", "creationTimestamp": created, "labels": labels}
    return {"metadata": metadata, "status": {"startedAt": started, "finishedAt": finished}}


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def node(name: str, started: str, finished: str = "") -> Any:
    return {"id": name, "name": name, "startedAt": started, "finishedAt": finished}


def test_workflows_of_the_same_template_are_comparable() -> None:
    one = workflow("one", **{TEMPLATE: "train", PHASE: "Succeeded"})
    assert origins_of(one) == succeeded_origins_of(one) == [("ns", TEMPLATE, "train")]
    assert succeeded_origins_of(workflow("two", **{TEMPLATE: "train", PHASE: "Failed"})) == []
    assert origins_of(workflow("three")) == []


def test_the_newest_counts() -> None:
    assert newest_of([]) is None
    found = newest_of([workflow("a", at(1)), workflow("b", at(3)), workflow("c", at(2))])
    assert found is not None and found["metadata"]["name"] == "b"


def test_nodes_take_as_long_as_they_took() -> None:
    earlier = workflow("wf-1", started=at(0), finished=at(30))
    nodes = {
        "wf-1": node("wf-1", at(0), at(30)),
        "a": node("wf-1.a", at(0), at(20)),
        "b": node("wf-1.b(0:x)", at(20), at(20)),
        "c": node("wf-1.c", at(20)),
    }
    assert estimate(earlier, nodes) == Estimates(30, {"": 30, ".a": 20, ".b(0:x)": 1})
    assert estimate(workflow("x"), {}) == Estimates()
