"""Which Pod is which replica, how it ended, and how often it restarted."""

from __future__ import annotations

from typing import Any

import pytest

from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.model import Replica, TrainingJob
from muster.training.replicas import (
    RESTARTS_ANNOTATION,
    describe_failure,
    find_end_time,
    find_exit_code,
    read_restarts,
    replica_of,
)


def status(name: str, code: int | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {} if code is None else {"terminated": {"exitCode": code, **more}}}


@pytest.mark.parametrize(
    ("init", "containers", "code", "why"),
    [
        ([], [status("main", 3, reason="Error")], 3, "Pod p, container main: exit code 3 (Error)"),
        ([], [status("main", 1, message="no data\n")], 1, "Pod p, container main: exit code 1: no data"),
        ([], [status("log", 2), status("main", 1)], 1, "Pod p, container main: exit code 1"),
        ([], [status("main", 0), status("log", 2)], 2, "Pod p, container log: exit code 2"),
        ([status("fetch", 4)], [status("main", None)], 4, "Pod p, container fetch: exit code 4"),
        ([], [status("main", None)], None, "Pod p: Evicted: out of disk"),
    ],
)
def test_the_container_that_made_a_pod_fail(init: list[Any], containers: list[Any], code: int | None, why: str) -> None:
    pod = {
        "metadata": {"name": "p"},
        "status": {
            "reason": "Evicted",
            "message": "out of disk",
            "initContainerStatuses": init,
            "containerStatuses": containers,
        },
    }
    assert find_exit_code(pod, "main") == code
    assert describe_failure(pod, "main") == why


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        (
            [status("main", 1, finishedAt="2026-01-01T00:00:09Z"), status("log", 0, finishedAt="2026-01-01T00:00:10Z")],
            10,
        ),
        ([status("main", None)], 5),
    ],
)
def test_when_a_pod_ended(containers: list[Any], expected: int) -> None:
    pod = {"metadata": {"creationTimestamp": "2026-01-01T00:00:05Z"}, "status": {"containerStatuses": containers}}
    moment = find_end_time(pod)
    assert moment is not None
    assert moment.second == expected


def test_pods_that_paddle_operator_made_are_known_by_their_names() -> None:
    """They have labels of their own. Treated as strays they would be deleted when Muster takes over."""
    template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    roles = {role: {"replicas": 2, "template": template} for role in ("ps", "worker")}
    metadata = {"name": "wide-and-deep", "namespace": "default", "uid": "u"}
    job = PaddleCloud().read(
        {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": metadata, "spec": roles}
    )
    names = ["wide-and-deep-ps-0", "wide-and-deep-worker-1", "wide-and-deep-worker-12", "wide-and-deep-heter-0", "else"]
    pods = [{"metadata": {"name": name, "labels": {"paddle-res-name": name}}} for name in names]
    assert [replica_of(job, pod) for pod in pods] == [
        Replica("ps", 0), Replica("worker", 1), Replica("worker", 12), None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["{", "[]", "7", "[" * 100_000, '{"gang": "x"}', '{"gang": -1}', '{"gang": 1e99}', '{"gang": true}']
)
def test_a_restart_count_that_is_not_ours_counts_as_none(text: str) -> None:
    job = TrainingJob({"metadata": {"annotations": {RESTARTS_ANNOTATION: text}}}, ())
    assert read_restarts(job) == {}
