from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.workflows.executors.pod_outputs import parse_progress
from muster.workflows.executors.pod_status import durations_of, pod_outcome

START, END = "2026-11-16T00:00:00Z", "2026-11-16T00:00:10Z"
TEMPLATE: dict[str, Any] = {"container": {}}
SET: dict[str, Any] = {"containerSet": {"containers": [{"name": "a"}, {"name": "b"}]}}


def ended(name: str, code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    reason = reason or ("Error" if code else "Completed")
    state = {"exitCode": code, "reason": reason, "startedAt": START, "finishedAt": END, **more}
    return {"name": name, "state": {"terminated": state}}


def running(name: str, ready: bool = True) -> dict[str, Any]:
    return {"name": name, "ready": ready, "state": {"running": {"startedAt": START}}}


def waiting(name: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, **({"message": message} if message else {})}}}


def pod(phase: str, *containers: dict[str, Any], inits: list[dict[str, Any]] | None = None, **status: Any) -> Object:
    return {
        "metadata": {"name": "p", "namespace": "ns", "annotations": status.pop("annotations", {})},
        "spec": {"nodeName": "node", "containers": [{"name": c["name"]} for c in containers]},
        "status": {
            "phase": phase, "containerStatuses": list(containers), "initContainerStatuses": inits or [], **status
        },
    }  # fmt: skip


UNSCHEDULABLE = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/1 nodes are available"}


@pytest.mark.parametrize(
    ("found", "template", "phase", "message"),
    [
        (pod("Pending"), TEMPLATE, "Pending", ""),
        (pod("Pending", waiting("main", "ErrImagePull", "no")), TEMPLATE, "Pending", "ErrImagePull: no"),
        (pod("Pending", conditions=[UNSCHEDULABLE]), TEMPLATE, "Pending", "Unschedulable: 0/1 nodes are available"),
        (pod("Pending", waiting("main", "ImageNeedsCommand", "write it")), TEMPLATE, "Error", "write it"),
        (pod("Running", running("main")), TEMPLATE, "Running", ""),
        (pod("Succeeded", ended("main", 0)), TEMPLATE, "Succeeded", ""),
        (pod("Succeeded", ended("main", 0)), {**TEMPLATE, "daemon": True}, "Failed", ""),
        (pod("Failed", ended("main", 1)), TEMPLATE, "Failed", "main: Error (exit code 1)"),
        (pod("Failed", ended("main", 1, message="oh")), TEMPLATE, "Failed", "main: Error (exit code 1): oh"),
        (pod("Failed", ended("main", 137, "OOMKilled")), TEMPLATE, "Failed", "main: OOMKilled (exit code 137)"),
        (pod("Failed", ended("main", 143)), TEMPLATE, "Failed", "main: Error (exit code 143)"),
        (
            pod("Failed", ended("main", 0), reason="DeadlineExceeded", message="Pod was active too long"),
            TEMPLATE, "Failed", "Pod was active too long",
        ),
        (pod("Failed", reason="Evicted", message="low on memory"), TEMPLATE, "Failed", "low on memory"),
        (pod("Failed", ended("s", 2), ended("main", 3)), TEMPLATE, "Failed", "main: Error (exit code 3)"),
        (pod("Failed", ended("s", 2), ended("main", 0)), TEMPLATE, "Failed", "s: Error (exit code 2)"),
        (pod("Failed", ended("s", 137), ended("main", 0)), TEMPLATE, "Succeeded", ""),
        (pod("Failed", waiting("main", "PodInitializing"), inits=[ended("init", 1, message="cp: no")]),
            TEMPLATE, "Error", "init: Error (exit code 1): cp: no"),
        (pod("Failed", waiting("main", "PodInitializing"), inits=[ended("mine", 1)]),
            TEMPLATE, "Failed", "mine: Error (exit code 1)"),
        (pod("Failed", waiting("main", "Oops", "why")),
            TEMPLATE, "Error", "Pod failed before main container starts due to Oops: why"),
        (pod("Failed"), TEMPLATE, "Failed", "can't find failed message for pod p namespace ns"),
        (pod("Failed", ended("a", 3), waiting("b", "x")), SET, "Failed", "a: Error (exit code 3)"),
    ],
)  # fmt: skip
def test_what_a_pod_means(found: Object, template: dict[str, Any], phase: str, message: str) -> None:
    outcome = pod_outcome(found, template)
    assert (outcome.phase, outcome.message) == (phase, message)


def test_a_running_pod_has_an_address_and_is_ready_or_not() -> None:
    outcome = pod_outcome(pod("Running", running("main"), podIP="127.0.0.9"), TEMPLATE)
    assert (outcome.address, outcome.ready, outcome.host, outcome.started) == ("127.0.0.9", True, "node", START)
    assert not pod_outcome(pod("Running", running("main"), running("s", ready=False)), TEMPLATE).ready


def test_an_end_has_times_and_the_exit_code_of_main() -> None:
    outcome = pod_outcome(pod("Failed", ended("s", 1), ended("main", 4)), TEMPLATE)
    assert (outcome.exit_code, outcome.outputs, outcome.finished) == (4, {"exitCode": "4"}, END)
    assert pod_outcome(pod("Failed", ended("a", 1)), SET).exit_code is None


def test_each_container_of_a_set_is_told_of() -> None:
    found = pod("Failed", ended("a", 3, message="oh"), running("b"))
    told = pod_outcome(found, SET).containers
    assert (told["a"].phase, told["a"].message) == ("Failed", "a: Error (exit code 3): oh")
    assert (told["b"].phase, told["b"].message) == ("Failed", "Pod Failed whilst container running")
    told = pod_outcome(pod("Running", ended("a", 0), waiting("b", "ContainerCreating")), SET).containers
    assert [told[name].phase for name in "ab"] == ["Succeeded", "Pending"]


def test_what_waited_for_a_container_that_failed_says_so() -> None:
    containers = [{"name": "c", "dependencies": ["b"]}, {"name": "b", "dependencies": ["a"]}, {"name": "a"}]
    found = pod("Failed", waiting("c", "ContainerCreating"), waiting("b", "ContainerCreating"), ended("a", 3))
    told = pod_outcome(found, {"containerSet": {"containers": containers}}).containers
    assert (told["b"].phase, told["b"].message) == ("Error", 'dependency "a" exited with non-zero code: 3')
    assert (told["c"].phase, told["c"].message) == ("Error", 'dependency "b" did not run')


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, {"cpu": 1, "memory": 10}),
        ({"requests": {"cpu": "2"}}, {"cpu": 20, "memory": 10}),
        ({"limits": {"memory": "1Gi"}}, {"cpu": 1, "memory": 102}),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "4", "nvidia.com/gpu": 1}},
            {"cpu": 10, "memory": 10, "nvidia.com/gpu": 10}),
    ],
)  # fmt: skip
def test_how_long_a_pod_held_what_it_asked_for(resources: dict[str, Any], expected: dict[str, int]) -> None:
    found = pod("Succeeded", ended("main", 0))
    found["spec"]["containers"][0]["resources"] = resources
    assert durations_of(found) == expected


@pytest.mark.parametrize(
    ("text", "progress"), [("3/10", "3/10"), (" 1/1\n", "1/1"), ("4/3", ""), ("0/0", ""), ("-1/2", ""), ("half", "")]
)
def test_progress_is_a_share(text: str, progress: str) -> None:
    assert parse_progress(text) == progress
