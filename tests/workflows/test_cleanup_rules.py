from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.workflows.cleanup import beyond_retention, claims_to_delete, expires_at, pod_policy, pods_to_delete
from muster.workflows.model import Node

FINISHED = "2026-01-01T01:00:00Z"


def workflow(spec: dict[str, Any], phase: str = "Succeeded", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "flow", "namespace": "team", "uid": "u-1"},
        "spec": spec,
        "status": {"phase": phase, **({"finishedAt": FINISHED} if phase != "Running" else {}), **status},
    }


@pytest.mark.parametrize(
    ("ttl", "phase", "expected"),
    [
        ({}, "Succeeded", None),
        ({"secondsAfterCompletion": 60}, "Succeeded", "01:01"),
        ({"secondsAfterCompletion": 60}, "Failed", "01:01"),
        ({"secondsAfterCompletion": 60}, "Running", None),
        ({"secondsAfterCompletion": 60, "secondsAfterSuccess": 120}, "Succeeded", "01:02"),
        ({"secondsAfterCompletion": 60, "secondsAfterSuccess": 120}, "Failed", "01:01"),
        ({"secondsAfterFailure": 180}, "Error", "01:03"),
        ({"secondsAfterFailure": 180}, "Succeeded", None),
        ({"secondsAfterSuccess": 0}, "Succeeded", "01:00"),
    ],
)
def test_how_long_a_workflow_stays(ttl: dict[str, int], phase: str, expected: str | None) -> None:
    at = expires_at(workflow({"ttlStrategy": ttl}, phase))
    assert (f"{at:%H:%M}" if at else None) == expected


def test_a_template_that_the_workflow_runs_may_say_so() -> None:
    stored: dict[str, Any] = {"storedWorkflowTemplateSpec": {"ttlStrategy": {"secondsAfterCompletion": 60}}}
    assert expires_at(workflow({"workflowTemplateRef": {"name": "x"}}, **stored)) is not None


@pytest.mark.parametrize(
    ("kept", "deleted"),
    [
        ({}, []),
        ({"Succeeded": 2}, []),
        ({"Succeeded": 1}, ["s1"]),
        ({"Succeeded": 0, "Failed": 1}, ["s1", "s2", "f1", "f2"]),
        ({"Error": 0}, []),
    ],
)
def test_how_many_workflows_stay(kept: dict[str, int], deleted: list[str]) -> None:
    names = {"s2": "Succeeded", "f3": "Failed", "s1": "Succeeded", "f1": "Failed", "r1": "Running", "f2": "Failed"}
    workflows = [
        {"metadata": {"name": name, "creationTimestamp": f"2026-01-0{name[1]}T00:00:00Z"}, "status": {"phase": phase}}
        for name, phase in names.items()
    ]
    workflows.append({**workflows[0], "metadata": {**workflows[0]["metadata"], "deletionTimestamp": FINISHED}})
    assert [each["metadata"]["name"] for each in beyond_retention(workflows, kept)] == deleted


def pod(name: str, phase: str, **labels: str) -> dict[str, Any]:
    annotations = {"workflows.argoproj.io/node-id": name}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "status": {"phase": phase}}


PODS = [
    pod("good", "Succeeded"),
    pod("bad", "Failed", keep="yes"),
    pod("going", "Running"),
    pod("collecting", "Succeeded"),
    pod("daemon", "Running"),
]
NODES = {
    "good": Node(phase="Succeeded", finishedAt="2026-01-01T00:30:00Z"),
    "bad": Node(phase="Failed", finishedAt="2026-01-01T00:40:00Z"),
    "going": Node(phase="Running"),
    "collecting": Node(phase="Running"),
    "daemon": Node(phase="Succeeded", daemoned=True, finishedAt="2026-01-01T00:40:00Z"),
}


@pytest.mark.parametrize(
    ("gc", "phase", "expected"),
    [
        ({}, "Succeeded", {}),
        ({"strategy": "OnPodCompletion"}, "Running", {"good": "00:30:05", "bad": "00:40:05"}),
        ({"strategy": "OnPodSuccess"}, "Running", {"good": "00:30:05"}),
        ({"strategy": "OnWorkflowCompletion"}, "Running", {}),
        ({"strategy": "OnWorkflowCompletion"}, "Failed", {"good": "01:00:05", "bad": "01:00:05"}),
        ({"strategy": "OnWorkflowSuccess"}, "Failed", {}),
        ({"strategy": "OnWorkflowSuccess"}, "Succeeded", {"good": "01:00:05", "bad": "01:00:05"}),
        ({"strategy": "OnPodSuccess", "deleteDelayDuration": "90s"}, "Running", {"good": "00:31:30"}),
        ({"strategy": "OnPodSuccess", "deleteDelayDuration": "0"}, "Running", {"good": "00:30:00"}),
        (
            {"strategy": "OnPodCompletion", "labelSelector": {"matchLabels": {"keep": "yes"}}},
            "Running",
            {"bad": "00:40:05"},
        ),
        ({"strategy": "OnPodCompletion", "deleteDelayDuration": "soon"}, "Running", {}),
    ],
)  # fmt: skip
def test_which_pods_go_and_when(gc: dict[str, Any], phase: str, expected: dict[str, str]) -> None:
    going = pods_to_delete(workflow({"podGC": gc}, phase), NODES, PODS)
    assert {pod["metadata"]["name"]: f"{at:%H:%M:%S}" for pod, at in going} == expected


def test_pods_are_kept_by_default() -> None:
    assert pod_policy(workflow({})) is None


@pytest.mark.parametrize(
    ("gc", "phase", "count"),
    [
        ({}, "Succeeded", 1),
        ({}, "Failed", 0),
        ({"strategy": "OnWorkflowSuccess"}, "Error", 0),
        ({"strategy": "OnWorkflowCompletion"}, "Failed", 1),
        ({"strategy": "OnWorkflowCompletion"}, "Running", 0),
    ],
)
def test_when_volumes_go(gc: dict[str, str], phase: str, count: int) -> None:
    claims = [{"metadata": {"name": "work"}, "spec": {}}]
    found = claims_to_delete(workflow({"volumeClaimTemplates": claims, "volumeClaimGC": gc}, phase))
    assert [claim["metadata"]["name"] for claim in found] == ["flow-work"] * count


def test_times_are_aware() -> None:
    at = expires_at(workflow({"ttlStrategy": {"secondsAfterCompletion": 0}}))
    assert at == datetime(2026, 1, 1, 1, tzinfo=UTC)
