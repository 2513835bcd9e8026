from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from muster.cli.describe import describe_training_job
from muster.cli.output import render_sections

NOW = datetime(2026, 1, 1, 12, 10, tzinfo=UTC)
NO_ROOM = "6/6 tasks in gang unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def job(state: str, message: str = "", **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Created", "status": "True"}, {"type": state, "status": "True", "message": message}]
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist", "namespace": "default", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {},
        "status": {"conditions": conditions, "startTime": "2026-01-01T12:00:00Z", **status},
    }


def pod(name: str, phase: str, **terminated: Any) -> dict[str, Any]:
    state = {"terminated": terminated} if terminated else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": "here", "containers": [{"name": "tensorflow"}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "tensorflow", "ready": False, "restartCount": 1, "state": state}],
        },
    }


def text(job: Any, pods: Any, group: Any, events: Any = (), lines: Any = None) -> str:
    return "\n".join(render_sections(describe_training_job(job, pods, group, events, {}, lines or {}, NOW)))


def test_a_failed_job_names_pod_container_exit_code_and_last_lines() -> None:
    failed = job("Failed", "TFJob mnist is failed because 1 Worker replica(s) failed.")
    pods = [pod("mnist-ps-0", "Running"), pod("mnist-worker-0", "Failed", exitCode=3, reason="Error")]
    shown = text(failed, pods, None, [], {"mnist-worker-0": {"tensorflow": ["loading", "ValueError: no data"]}})
    assert "TFJob mnist is failed because 1 Worker replica(s) failed." in shown
    assert 'pod/mnist-worker-0: container "tensorflow" exited with code 3' in shown
    assert 'Last lines of pod/mnist-worker-0, container "tensorflow"' in shown
    assert "ValueError: no data" in shown
    assert len(shown.splitlines()) < 40, "fits on one screen"


def test_a_waiting_gang_says_what_it_waits_for() -> None:
    group = {
        "spec": {"minMember": 6},
        "status": {"phase": "Pending", "conditions": [{"type": "Unschedulable", "status": "True", "message": NO_ROOM}]},
    }
    shown = text(job("Created"), [], group)
    assert "Pending, needs room for 6 Pods at once" in shown
    assert f"the gang waits for room: {NO_ROOM}" in shown


def test_a_warning_explains_a_job_that_is_stuck() -> None:
    event = {"type": "Warning", "reason": "FailedCreatePod", "message": "pod mnist-worker-0 already exists"}
    assert "FailedCreatePod: pod mnist-worker-0 already exists" in text(job("Created"), [], None, [event])


def test_a_healthy_job_has_no_reasons() -> None:
    shown = text(job("Succeeded", completionTime="2026-01-01T12:02:00Z"), [], None)
    assert "Why" not in shown
    assert "2m" in shown


def test_pods_that_wait_for_the_same_thing_are_grouped_and_aligned() -> None:
    pods = [pod("mnist-ps-0", "Pending"), pod("mnist-ps-1", "Pending")]
    for one in pods:
        waiting = {"reason": "ImageNeedsCommand", "message": "write one:\n  command: [python]"}
        one["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}
    shown = text(job("Created"), pods, None)
    assert (
        'Why:         pod/mnist-ps-0, pod/mnist-ps-1: container "tensorflow": ImageNeedsCommand: write one:\n'
        "               command: [python]\n"
    ) in shown
