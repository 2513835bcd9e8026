from __future__ import annotations

from typing import Any

import pytest

from muster.cli.run_display import (
    ProgressBoard,
    ProgressRow,
    fit_rows,
    format_counts,
    format_elapsed,
    format_run_time,
    progress_line,
    progress_row,
)
from muster.kube.kinds import Kind
from tests.cli.workflow_objects import node, workflow

POD = Kind("", "v1", "Pod", "pods")
JOB = Kind("batch", "v1", "Job", "jobs")
PYTORCH = Kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
WORKFLOW = Kind("argoproj.io", "v1alpha1", "Workflow", "workflows")
APPROVE = node("approve", "Suspend", "Running", templateName="approve")
RESUME = "continue with `muster resume wf`"


def pod(name: str, phase: str, uid: str = "", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": uid or name},
        "spec": {"restartPolicy": "Never", "nodeName": "here"},
        "status": {"phase": phase, **status},
    }


def job(uid: str = "j", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "uid": uid},
        "spec": {"completions": 4},
        "status": status,
    }


def ended(code: int, reason: str) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code, "reason": reason}}}]}


def beside_executor() -> dict[str, Any]:
    """The program has ended, and Argo's executor still runs."""
    executor = {"name": "wait", "ready": True, "state": {"running": {}}}
    return {"containerStatuses": [*ended(0, "Completed")["containerStatuses"], executor]}


@pytest.mark.parametrize(
    ("kind", "obj", "state", "stage", "note"),
    [
        (POD, pod("x", "Pending"), "Pending", "Pending", ""),
        (POD, pod("x", "Running"), "Running", "Running", ""),
        (POD, pod("x", "Running", **ended(0, "Completed")), "Running", "Running", ""),
        (POD, pod("x", "Running", **ended(1, "Error")), "Running", "Running", ""),
        (POD, pod("x", "Pending", **ended(0, "Completed")), "Running", "Running", ""),
        (POD, pod("x", "Running", **beside_executor()), "Running", "Running", ""),
        (POD, pod("x", "Succeeded", **ended(0, "Completed")), "Succeeded", "Succeeded", ""),
        (POD, pod("x", "Failed", **ended(1, "Error")), "Failed", "Failed", 'container "main" exited with code 1'),
        (
            POD,
            pod("x", "Failed", **ended(137, "OOMKilled")),
            "OOMKilled",
            "Failed",
            'container "main" exited with code 137 (OOMKilled): it used more memory than its limit allows',
        ),
        (
            POD,
            pod(
                "x",
                "Pending",
                containerStatuses=[
                    {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
                ],
            ),
            "ErrImagePull",
            "Pending",
            "no such image",
        ),
        (JOB, job(), "Pending", "Pending", "0/4 done"),
        (JOB, job(active=2, succeeded=1, failed=1), "Running", "Running", "1/4 done, 1 failed"),
        (
            JOB,
            job(active=2, succeeded=1, uncountedTerminatedPods={"succeeded": ["a", "b"]}),
            "Running",
            "Running",
            "3/4 done",
        ),
        (
            JOB,
            job(conditions=[{"type": "Complete", "status": "True"}], succeeded=4),
            "Succeeded",
            "Succeeded",
            "4/4 done",
        ),
        (
            JOB,
            job(conditions=[{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]),
            "Failed",
            "Failed",
            "BackoffLimitExceeded",
        ),
        (WORKFLOW, workflow(APPROVE, progress="1/2"), "Suspended", "Running", f"waits at approve; {RESUME}"),
        (WORKFLOW, workflow(spec={"suspend": True}), "Suspended", "Pending", f"suspended; {RESUME}"),
        (
            PYTORCH,
            {"kind": "PyTorchJob", "metadata": {"name": "a"}, "spec": {"runPolicy": {"suspend": True}}},
            "Suspended",
            "Pending",
            "spec.runPolicy.suspend is true; to resume: kubectl patch pytorchjob a --type merge"
            """ -p '{"spec": {"runPolicy": {"suspend": false}}}'""",
        ),
        (
            WORKFLOW,
            workflow(
                APPROVE, spec={"templates": [{"name": "approve", "suspend": {"duration": "20s"}}]}, progress="1/2"
            ),
            "Running",
            "Running",
            "1/2",
        ),
    ],
)
def test_the_status_of_a_row(kind: Kind, obj: dict[str, Any], state: str, stage: str, note: str) -> None:
    row = progress_row(kind, obj, None, now=1.0)
    assert (row.state, row.stage, row.note) == (state, stage, note)


def test_durations_are_from_start_to_end() -> None:
    row = progress_row(POD, pod("x", "Pending"), None, now=1.0)
    assert format_elapsed(row, 3.0) == "2.0s"
    row = progress_row(POD, pod("x", "Running"), row, now=4.0)
    assert format_elapsed(row, 5.5) == "1.5s"
    row = progress_row(POD, pod("x", "Succeeded"), row, now=6.0)
    assert format_elapsed(row, 100.0) == "2.0s"


def test_only_changes_are_printed() -> None:
    pending = progress_row(POD, pod("x", "Pending"), None, now=1.0)
    running = progress_row(POD, pod("x", "Running"), pending, now=2.0)
    failed = progress_row(POD, pod("x", "Failed", **ended(3, "Error")), running, now=4.5)
    assert progress_line(pending, None) is None
    assert progress_line(running, None) == "pod/x Running"
    assert progress_line(running, running) is None
    assert progress_line(failed, running) == 'pod/x Failed after 2.5s: container "main" exited with code 3'


def test_a_pending_pod_gives_its_reason() -> None:
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    waiting = pod("x", "Pending", conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ])  # fmt: skip
    del waiting["spec"]["nodeName"]
    row = progress_row(POD, waiting, None, now=1.0)
    assert progress_line(row, None) == f"pod/x Pending: Unschedulable: {message}"


def test_without_a_reason_in_the_status_events_give_it() -> None:
    missing = {"type": "Warning", "reason": "FailedMount", "message": 'configmap "nope" not found'}
    board = ProgressBoard()
    before = board.put(POD, pod("x", "Pending"), 1.0)
    waiting = board.put(POD, pod("x", "Pending"), 2.0, events=[missing])
    assert progress_line(waiting, before) == 'pod/x Pending: FailedMount: configmap "nope" not found'
    assert board.put(POD, pod("x", "Running"), 3.0, events=[missing]).note == ""


def test_instructions_are_printed_in_full_and_once() -> None:
    message = "no command. Either write one:\n  command: [python]\nor map the image"
    state = {"waiting": {"reason": "ImageNeedsCommand", "message": message}}
    waiting: dict[str, Any] = {"containerStatuses": [{"name": "main", "state": state}]}
    first = progress_row(POD, pod("x", "Pending", **waiting), None, now=1.0)
    second = progress_row(POD, pod("y", "Pending", **waiting), None, now=1.0)
    assert progress_line(first, None) == (
        "pod/x ImageNeedsCommand: no command. Either write one:\n    command: [python]\n  or map the image"
    )
    told = {first.note: first.title}
    assert progress_line(second, None, told) == "pod/y ImageNeedsCommand: same reason as pod/x"


def test_pods_are_below_their_owner_and_deleted_ones_stay() -> None:
    board = ProgressBoard()
    board.put(POD, pod("worker", "Running", uid="p"), 1.0, owner="j")
    board.put(JOB, job("j", active=1), 1.0)
    board.put(POD, pod("alone", "Running", uid="a"), 1.0)
    board.remove("a", 2.0)
    assert [(depth, row.title, row.state) for depth, row in board.in_order()] == [
        (0, "job.batch/train", "Running"),
        (1, "pod/worker", "Running"),
        (0, "pod/alone", "Deleted"),
    ]
    assert format_counts(board.rows.values()) == "1 running, 1 failed"


def test_a_small_screen_shows_the_most_important_rows() -> None:
    stages = ["Succeeded", "Pending", "Running", "Failed", "Succeeded"]
    rows = [(0, ProgressRow(f"pod/{n}", stage=stage, state=stage)) for n, stage in enumerate(stages)]
    shown, rest = fit_rows(rows, 3)
    assert [row.title for _, row in shown] == ["pod/2", "pod/3"]
    assert rest == "... and 3 more: 1 pending, 2 succeeded"
    assert fit_rows(rows, 5) == (rows, "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0s"), (0.44, "0.4s"), (9.96, "10s"), (59.6, "1m00s"), (185, "3m05s"), (7620, "2h07m")],
)
def test_precision_of_durations(seconds: float, text: str) -> None:
    assert format_run_time(seconds) == text
