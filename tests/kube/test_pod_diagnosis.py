from __future__ import annotations

from typing import Any

import pytest

from muster.kube.pod_diagnosis import diagnose_pod, find_failed_containers, find_pending_cause


def pod(phase: str, *containers: dict[str, Any], node: str = "here", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"containers": [{"name": c["name"]} for c in containers], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


def container(name: str = "main", last: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state, **({"lastState": {"terminated": last}} if last else {})}


def unschedulable(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}


NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
FAILED_SCHEDULING = {"type": "Warning", "reason": "FailedScheduling", "message": NO_GPU}
UNHEALTHY = {"type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: connection refused"}


@pytest.mark.parametrize(
    ("obj", "events", "reasons"),
    [
        (pod("Succeeded", container(terminated={"exitCode": 0})), [], []),
        (pod("Running", container(running={})), [], []),
        (pod("Pending", node="", **unschedulable(NO_GPU)), [], [f"Unschedulable: {NO_GPU}"]),
        (pod("Pending", node=""), [FAILED_SCHEDULING], [f"FailedScheduling: {NO_GPU}"]),
        (pod("Pending", node=""), [], ["no node has been chosen yet"]),
        (pod("Pending", container(waiting={"reason": "ContainerCreating"})), [], []),
        (
            pod("Pending", container(waiting={"reason": "ImageNeedsCommand", "message": "x has no command"})),
            [],
            ['container "main": ImageNeedsCommand: x has no command'],
        ),
        (
            pod("Failed", container(terminated={"exitCode": 1, "reason": "Error"})),
            [],
            ['container "main" exited with code 1'],
        ),
        (
            pod("Failed", container(terminated={"exitCode": 137, "reason": "OOMKilled"})),
            [],
            ['container "main" exited with code 137 (OOMKilled): it used more memory than its limit allows'],
        ),
        (
            pod("Failed", container(terminated={"exitCode": 127, "reason": "Error", "message": "no such file\n"})),
            [],
            ['container "main" exited with code 127: command not found', 'container "main" said: no such file'],
        ),
        (
            pod(
                "Failed", container(terminated={"exitCode": 128, "reason": "StartError", "message": "no such program"})
            ),
            [],
            ['container "main" could not be started: no such program'],
        ),
        (
            pod("Pending", container(waiting={"reason": "CreateContainerConfigError", "message": "no configmap"})),
            [{"type": "Warning", "reason": "Failed", "message": "Error: no configmap"}],
            ['container "main": CreateContainerConfigError: no configmap'],
        ),
        (
            pod("Failed", reason="DeadlineExceeded", message="Pod was active longer than 5 s"),
            [],
            ["DeadlineExceeded: Pod was active longer than 5 s"],
        ),
        (
            pod(
                "Running",
                container(
                    waiting={"reason": "CrashLoopBackOff", "message": "back-off 10s"},
                    last={"exitCode": 3, "reason": "Error"},
                ),
            ),
            [],
            [
                'container "main": CrashLoopBackOff: back-off 10s',
                'container "main" exited with code 3 (the run before this one)',
            ],
        ),
        (pod("Running", container(running={})), [UNHEALTHY], [f"Unhealthy: {UNHEALTHY['message']}"]),
    ],
)
def test_the_cause_is_named(obj: dict[str, Any], events: list[dict[str, Any]], reasons: list[str]) -> None:
    assert diagnose_pod(obj, events) == reasons


def test_present_ends_come_before_past_ones() -> None:
    past = container("a", last={"exitCode": 1}, running={})
    present = container("b", terminated={"exitCode": 2})
    assert [(end.container, end.running_again) for end in find_failed_containers(pod("Running", past, present))] == [
        ("b", False),
        ("a", True),
    ]


def test_an_init_container_is_called_one() -> None:
    failed = pod("Failed")
    failed["status"]["initContainerStatuses"] = [container("setup", terminated={"exitCode": 4})]
    assert diagnose_pod(failed) == ['init container "setup" exited with code 4']


def event(second: int, kind: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": kind, "reason": reason, "message": message, "lastTimestamp": f"2026-01-01T00:00:{second:02}Z"}


SCHEDULED = event(1, "Normal", "Scheduled")
NO_MOUNT = event(1, "Warning", "FailedMount", 'configmap "nope" not found')
PULLING = event(2, "Normal", "Pulling", 'Pulling image "big"')


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], ""),
        ([SCHEDULED], ""),
        ([SCHEDULED, NO_MOUNT], 'FailedMount: configmap "nope" not found'),
        (
            [NO_MOUNT, SCHEDULED],
            'FailedMount: configmap "nope" not found',
        ),  # in one second, in any order
        ([SCHEDULED, NO_MOUNT, PULLING], 'Pulling: Pulling image "big"'),
        ([NO_MOUNT, PULLING, event(3, "Normal", "Pulled")], ""),
        (
            [
                SCHEDULED,
                event(2, "Warning", "FieldIgnored", "These fields have no effect on this machine: spec.dnsPolicy"),
            ],
            "",
        ),
    ],
)
def test_what_is_waited_for_is_the_last_trouble_unless_something_came_after_it(
    events: list[dict[str, Any]], said: str
) -> None:
    assert find_pending_cause(events) == said
