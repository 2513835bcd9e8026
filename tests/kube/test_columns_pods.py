from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.kube.builtin import POD
from muster.kube.columns import pod_status, summarize_pod
from muster.kube.objects import Object
from muster.kube.tables import build_table

NOW = datetime(2025, 1, 31, 12, 0, 0, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2025-01-31T11:00:00Z"}}


def waiting(reason: str) -> Object:
    return {"waiting": {"reason": reason}}


def ended(code: int = 0, **more: Any) -> Object:
    return {"terminated": {"exitCode": code, **more}}


def status(state: Object, name: str = "a", *, ready: bool = False, restarts: int = 0, **more: Any) -> Object:
    return {"name": name, "state": state, "ready": ready, "restartCount": restarts, **more}


def pod(
    *containers: Object, phase: str = "Running", init: list[Object] | None = None, sidecars: tuple[str, ...] = (),
    deleted: bool = False, **more: Any,
) -> Object:  # fmt: skip
    metadata: Object = {"name": "p", "creationTimestamp": "2025-01-31T11:55:00Z"}
    if deleted:
        metadata["deletionTimestamp"] = "2025-01-31T12:00:00Z"
    inits = [{"name": s["name"]} | ({"restartPolicy": "Always"} if s["name"] in sidecars else {}) for s in init or []]
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": c["name"]} for c in containers] or [{"name": "a"}], "initContainers": inits},
        "status": {"phase": phase, "containerStatuses": list(containers), "initContainerStatuses": init or [], **more},
    }


READY = [{"type": "Ready", "status": "True"}]
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
SIDECAR = status(RUNNING, "s", ready=True, started=True)
INITIALIZED = [{"type": "Initialized", "status": "True"}]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (pod(phase="Pending"), "Pending"),
        ({"metadata": {"name": "p"}, "spec": {"containers": [{}]}}, ""),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(phase="Pending", conditions=GATED), "SchedulingGated"),
        (pod(status(waiting("ContainerCreating")), phase="Pending"), "ContainerCreating"),
        (pod(status(RUNNING, ready=True)), "Running"),
        (pod(status(waiting("CrashLoopBackOff"), restarts=3)), "CrashLoopBackOff"),
        (pod(status(waiting("ImagePullBackOff")), phase="Pending"), "ImagePullBackOff"),
        (pod(status(ended(0, reason="Completed")), phase="Succeeded"), "Completed"),
        (pod(status(ended(1, reason="Error")), phase="Failed"), "Error"),
        (pod(status(ended(137, reason="OOMKilled")), phase="Failed"), "OOMKilled"),
        (pod(status(ended(3)), phase="Failed"), "ExitCode:3"),
        (pod(status(ended(137, signal=9)), phase="Failed"), "Signal:9"),
        (pod(status(ended(0, reason="Completed")), status(RUNNING, "b", ready=True), conditions=READY), "Running"),
        (pod(status(ended(0, reason="Completed")), status(RUNNING, "b", ready=True)), "NotReady"),
        (pod(status(ended(0, reason="Completed")), status(ended(2, reason="Error"), "b"), phase="Failed"), "Error"),
        (pod(status(RUNNING, ready=True), deleted=True), "Terminating"),
        (pod(status(ended(0, reason="Completed")), phase="Succeeded", deleted=True), "Completed"),
        (pod(status(RUNNING), reason="NodeLost", deleted=True), "Unknown"),
        (pod(phase="Pending", init=[status(RUNNING, "i")]), "Init:0/1"),
        (pod(phase="Pending", init=[status(ended(0), "i"), status(waiting("PodInitializing"), "j")]), "Init:1/2"),
        (pod(phase="Pending", init=[status(waiting("CrashLoopBackOff"), "i")]), "Init:CrashLoopBackOff"),
        (pod(phase="Failed", init=[status(ended(1, reason="Error"), "i")]), "Init:Error"),
        (pod(phase="Failed", init=[status(ended(4), "i")]), "Init:ExitCode:4"),
        (pod(phase="Failed", init=[status(ended(139, signal=11), "i")]), "Init:Signal:11"),
        (pod(status(RUNNING, ready=True), init=[status(ended(0), "i")]), "Running"),
        (pod(status(RUNNING, ready=True), init=[status(RUNNING, "s", started=True)], sidecars=("s",)), "Running"),
        (pod(phase="Pending", init=[status(RUNNING, "s", started=False)], sidecars=("s",)), "Init:0/1"),
        (
            pod(
                status(RUNNING, ready=True),
                init=[status(waiting("CrashLoopBackOff"), "s")], sidecars=("s",), conditions=INITIALIZED,
            ),
            "Init:CrashLoopBackOff",
        ),
    ],
)  # fmt: skip
def test_one_word_for_a_pod(given: Object, word: str) -> None:
    assert pod_status(given) == word


@pytest.mark.parametrize(
    ("given", "ready"),
    [
        (pod(status(RUNNING, ready=True), status(RUNNING, "b")), (1, 2)),
        (pod(status(RUNNING, ready=True), init=[status(ended(0), "i")]), (1, 1)),
        (pod(status(RUNNING, ready=True), init=[SIDECAR], sidecars=("s",)), (2, 2)),
        (pod(phase="Pending", init=[status(RUNNING, "i")]), (0, 1)),
    ],
)  # fmt: skip
def test_ready_counts_sidecars_too(given: Object, ready: tuple[int, int]) -> None:
    summary = summarize_pod(given)
    assert (summary.ready, summary.containers) == ready


def test_the_row_of_a_pod() -> None:
    given = pod(
        status(RUNNING, ready=True, restarts=2, lastState=ended(1, finishedAt="2025-01-31T11:55:00Z")),
        podIPs=[{"ip": "127.0.0.2"}],
        conditions=[{"type": "example.com/gate", "status": "True"}],
    )
    given["spec"] |= {
        "nodeName": "n1",
        "readinessGates": [{"conditionType": "example.com/gate"}, {"conditionType": "x"}],
    }
    answer = build_table(POD, [given, pod(phase="Pending")], NOW, wide=True)
    assert [column.name.upper() for column in answer.columns] == [
        "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES",
    ]  # fmt: skip
    assert [row.cells for row in answer.rows] == [
        ("p", "1/1", "Running", "2 (5m ago)", "5m", "127.0.0.2", "n1", "<none>", "1/2"),
        ("p", "0/1", "Pending", "0", "5m", "<none>", "<none>", "<none>", "<none>"),
    ]


def test_restarts_of_init_containers_count_only_while_they_run() -> None:
    init = [status(ended(0), "i", restarts=4, lastState=ended(1, finishedAt="2025-01-31T11:50:00Z"))]
    assert summarize_pod(pod(status(RUNNING, ready=True), init=init)).restarts == 0
    crashing = [status(waiting("CrashLoopBackOff"), "i", restarts=4)]
    assert summarize_pod(pod(phase="Pending", init=crashing)).restarts == 4
