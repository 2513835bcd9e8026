from __future__ import annotations

from typing import Any

from muster.cli.run import FailureReport, format_failure
from muster.cli.run_objects import Outcome


def pod(name: str, phase: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": "here"}, "status": {"phase": phase, **status}}


def crashed(name: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    return pod(name, "Failed", containerStatuses=[{"name": "main", "state": state}])


def test_a_failed_pod_gives_its_exit_code_and_last_lines() -> None:
    trouble = FailureReport(
        "pod/x", Outcome(False, "Failed"), [crashed("x")], {}, {"x": {"main": ["Traceback", "ValueError: no data"]}}
    )
    assert format_failure(trouble) == [
        "pod/x failed",
        '  container "main" exited with code 1',
        '  last lines of container "main":',
        "    Traceback",
        "    ValueError: no data",
    ]


def test_a_failed_job_names_the_failed_pods() -> None:
    outcome = Outcome(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    pods = [pod("good", "Succeeded"), *(crashed(f"bad{n}") for n in range(5))]
    lines = format_failure(FailureReport("job.batch/train", outcome, pods, {}, {}))
    assert lines[:3] == [
        "job.batch/train failed: BackoffLimitExceeded: Job has reached the specified backoff limit",
        "  pod/bad0, pod/bad1, pod/bad2:",
        '    container "main" exited with code 1',
    ]
    assert lines[-1] == "  ... and 2 more Pods; `muster describe` shows them"
    assert not any("good" in line for line in lines)


def test_unfinished_work_says_what_it_waits_for() -> None:
    waiting = pod("x", "Pending")
    del waiting["spec"]["nodeName"]
    events = {"x": [{"type": "Warning", "reason": "FailedScheduling", "message": "0/1 nodes are available"}]}
    assert format_failure(FailureReport("pod/x", None, [waiting], events, {})) == [
        "pod/x had not finished at the timeout",
        "  FailedScheduling: 0/1 nodes are available",
    ]


def test_pods_with_the_same_reason_are_grouped() -> None:
    pods = [crashed("a"), crashed("b")]
    assert format_failure(FailureReport("job.batch/train", Outcome(False), pods, {}, {})) == [
        "job.batch/train failed",
        "  pod/a, pod/b:",
        '    container "main" exited with code 1',
    ]


def test_a_running_pod_says_so_on_timeout() -> None:
    assert format_failure(FailureReport("job.batch/train", None, [pod("a", "Running")], {}, {})) == [
        "job.batch/train had not finished at the timeout",
        "  pod/a:",
        "    still running",
    ]


def test_a_pod_s_reason_is_not_repeated() -> None:
    evicted = pod("x", "Failed", reason="Evicted", message="too much memory")
    assert format_failure(FailureReport("pod/x", Outcome(False, "Evicted", "too much memory"), [evicted], {}, {})) == [
        "pod/x failed: Evicted: too much memory"
    ]
