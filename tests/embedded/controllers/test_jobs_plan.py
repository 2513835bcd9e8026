"""Tables of plans: a Job and its Pods in, a plan out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.embedded.controllers.jobs import (
    INDEX_ANNOTATION,
    TRACKING_FINALIZER,
    format_indexes,
    is_finished,
    parse_indexes,
    plan_job,
    seconds_until_expiry,
)
from muster.kube.objects import Object, timestamp

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def job(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default", "uid": "job-uid"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template, **(spec or {})},
        "status": status or {},
    }


def pod(
    name: str,
    phase: str,
    *,
    index: int | None = None,
    tracked: bool = True,
    code: int = 1,
    seconds_ago: float = 100,
    deleting: bool = False,
    node: str = "n",
    conditions: list[Object] | None = None,
) -> Object:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {}}
    meta["creationTimestamp"] = timestamp(NOW - timedelta(seconds=seconds_ago))
    if tracked:
        meta["finalizers"] = [TRACKING_FINALIZER]
    if index is not None:
        meta["annotations"][INDEX_ANNOTATION] = str(index)
    if deleting:
        meta["deletionTimestamp"] = timestamp(NOW)
    status: dict[str, Any] = {"phase": phase, "conditions": conditions or []}
    if phase == "Failed":
        ended = {"exitCode": code, "finishedAt": timestamp(NOW - timedelta(seconds=seconds_ago))}
        status["containerStatuses"] = [{"name": "c", "state": {"terminated": ended}}]
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


def settle(a_job: Object, pods: list[Object]) -> Object:
    """Returns the status after all steps: Pods are recorded, deleted, released and counted."""
    for _ in range(4):
        decided = plan_job(a_job, pods, NOW)
        a_job = {**a_job, "status": decided.status}
        gone = {p["metadata"]["name"] for p in decided.delete}
        freed = [{**p, "metadata": {**p["metadata"], "finalizers": []}} for p in decided.release]
        kept = [p for p in pods if p not in decided.release]
        pods = [p for p in (*kept, *freed) if p["metadata"]["name"] not in gone]
    return dict(a_job["status"])


@pytest.mark.parametrize(
    ("spec", "pods", "creates"),
    [
        ({}, [], 1),
        ({"parallelism": 3, "completions": 5}, [], 3),
        ({"parallelism": 3, "completions": 5}, [pod("a", "Running")], 2),
        ({"parallelism": 3, "completions": 2}, [], 2),
        ({"parallelism": 3, "completions": None}, [], 3),
        ({"parallelism": 3, "completions": None}, [pod("a", "Succeeded"), pod("b", "Running")], 0),
        ({"parallelism": 0}, [], 0),
        ({"suspend": True}, [], 0),
    ],
)  # fmt: skip
def test_runs_as_many_pods_as_parallelism_and_the_work_left_allow(
    spec: dict[str, Any], pods: list[Object], creates: int
) -> None:
    assert len(plan_job(job(spec), pods, NOW).create) == creates


def test_a_new_pod_carries_what_ties_it_to_its_job() -> None:
    (made,) = plan_job(job(), [], NOW).create
    assert made["metadata"]["generateName"] == "j-"
    assert made["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert made["metadata"]["finalizers"] == [TRACKING_FINALIZER]


def test_an_ended_pod_is_first_noted_then_released_then_counted() -> None:
    ended = pod("a", "Succeeded")
    noted = plan_job(job(), [ended], NOW)
    assert noted.status["uncountedTerminatedPods"] == {"succeeded": ["uid-a"]}
    assert "succeeded" not in noted.status
    assert noted.release == [ended]

    requeue_after = plan_job({**job(), "status": noted.status}, [ended], NOW)
    assert requeue_after.status["uncountedTerminatedPods"] == {"succeeded": ["uid-a"]}, "still held: not counted yet"
    assert requeue_after.release == [ended]

    counted = plan_job({**job(), "status": noted.status}, [], NOW)
    assert counted.status["succeeded"] == 1
    assert counted.status["uncountedTerminatedPods"] == {}


@pytest.mark.parametrize(
    ("spec", "pods", "condition", "reason"),
    [
        ({}, [pod("a", "Succeeded")], "Complete", "CompletionsReached"),
        ({"completions": 2}, [pod("a", "Succeeded")], None, None),
        ({"completions": None}, [pod("a", "Succeeded")], "Complete", "CompletionsReached"),
        ({"completions": None}, [pod("a", "Succeeded"), pod("b", "Running")], None, None),
        ({"backoffLimit": 0}, [pod("a", "Failed")], "Failed", "BackoffLimitExceeded"),
        ({"backoffLimit": 1}, [pod("a", "Failed")], None, None),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}},
            [pod("a", "Failed", code=42)],
            "Failed",
            "PodFailurePolicy",
        ),
        (
            {
                "backoffLimit": 0,
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
                },
            },
            [pod("a", "Failed", conditions=[{"type": "DisruptionTarget", "status": "True"}])],
            None,
            None,
        ),
        (
            {
                "completionMode": "Indexed",
                "completions": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "1"}]},
            },
            [pod("a", "Succeeded", index=1)],
            "Complete",
            "SuccessPolicy",
        ),
        (
            {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 0},
            [pod("a", "Succeeded", index=0), pod("b", "Failed", index=1)],
            "Failed",
            "FailedIndexes",
        ),
    ],
)  # fmt: skip
def test_ends_when_there_is_nothing_left_to_do(
    spec: dict[str, Any], pods: list[Object], condition: str | None, reason: str | None
) -> None:
    conditions = [c for c in settle(job(spec), pods).get("conditions", ()) if c["type"] in ("Complete", "Failed")]
    assert [(c["type"], c["reason"]) for c in conditions] == ([(condition, reason)] if condition else [])


def test_is_over_only_when_every_pod_has_ended_and_is_counted() -> None:
    spec = {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}}
    pods = [pod("a", "Succeeded", index=1), pod("b", "Running", index=0)]
    heading = plan_job(job(spec), pods, NOW)
    assert [c["type"] for c in heading.status["conditions"]] == ["SuccessCriteriaMet"]
    assert heading.delete == [pods[1]]
    done = settle(job(spec), pods)
    assert [c["type"] for c in done["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert done["succeeded"] == 1


def test_a_deadline_ends_the_job_and_its_pods_and_is_waited_for() -> None:
    began = {"startTime": timestamp(NOW - timedelta(seconds=50))}
    running = pod("a", "Running")
    before = plan_job(job({"activeDeadlineSeconds": 60}, began), [running], NOW)
    assert before.requeue_after == pytest.approx(10)
    assert before.delete == []
    after = plan_job(job({"activeDeadlineSeconds": 50}, began), [running], NOW)
    assert after.delete == [running]
    assert after.status["conditions"][0]["reason"] == "DeadlineExceeded"


def test_waits_longer_after_each_failure() -> None:
    once = plan_job(job({"backoffLimit": 9}), [pod("a", "Failed", seconds_ago=1)], NOW)
    assert once.create == []
    assert once.requeue_after == pytest.approx(9)
    twice = plan_job(job({"backoffLimit": 9}), [pod("a", "Failed"), pod("b", "Failed", seconds_ago=1)], NOW)
    assert twice.requeue_after == pytest.approx(19)
    assert len(plan_job(job({"backoffLimit": 9}), [pod("a", "Failed", seconds_ago=11)], NOW).create) == 1


def test_indexed_pods_know_their_index_and_no_index_runs_twice() -> None:
    spec = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
    made = plan_job(job(spec), [pod("a", "Succeeded", index=0), pod("b", "Running", index=2)], NOW).create
    assert [p["metadata"]["annotations"][INDEX_ANNOTATION] for p in made] == ["1", "3"]
    assert made[0]["spec"]["hostname"] == "j-1"
    assert {"name": "JOB_COMPLETION_INDEX", "value": "1"} in made[0]["spec"]["containers"][0]["env"]
    assert settle(job(spec), [pod("a", "Succeeded", index=0)])["completedIndexes"] == "0"


def test_suspending_deletes_pods_and_resuming_starts_the_clock_again() -> None:
    running = pod("a", "Running")
    suspended = plan_job(job({"suspend": True}, {"startTime": timestamp(NOW)}), [running], NOW)
    assert suspended.delete == [running]
    assert "startTime" not in suspended.status
    resumed = plan_job(job({}, suspended.status), [], NOW)
    assert resumed.status["startTime"] == timestamp(NOW)
    assert [e[1] for e in resumed.events] == ["Resumed"]


def test_surplus_pods_go_pending_ones_first() -> None:
    pods = [pod("a", "Running"), pod("b", "Pending"), pod("c", "Running")]
    assert [p["metadata"]["name"] for p in plan_job(job({"parallelism": 2, "completions": 9}), pods, NOW).delete] == [
        "b"
    ]


def test_a_pod_deleted_before_it_ran_is_released_and_counts_as_failed() -> None:
    doomed = pod("a", "Pending", deleting=True, node="")
    decided = plan_job(job(), [doomed], NOW)
    assert decided.release == [doomed]
    assert decided.status["uncountedTerminatedPods"] == {"failed": ["uid-a"]}


def test_a_finished_job_stays_finished_and_its_stragglers_are_deleted() -> None:
    done = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": timestamp(NOW)}]}
    running = pod("b", "Running")
    decided = plan_job(job({}, done), [running], NOW)
    assert is_finished(job({}, done))
    assert decided.create == []
    assert decided.delete == [running]


def test_a_job_that_is_being_deleted_leaves_its_pods_to_the_garbage_collector() -> None:
    leaving = {**job(), "metadata": {**job()["metadata"], "deletionTimestamp": timestamp(NOW)}}
    decided = plan_job(leaving, [pod("b", "Running")], NOW)
    assert (decided.create, decided.delete) == ([], [])


def test_the_status_counts_pods_that_terminate_even_if_there_are_none() -> None:
    assert plan_job(job(), [pod("a", "Running")], NOW).status["terminating"] == 0
    assert plan_job(job(), [pod("a", "Running", deleting=True)], NOW).status["terminating"] == 1


@pytest.mark.parametrize(("ttl", "left"), [(None, None), (0, 0.0), (90, 30.0), (30, 0.0)])
def test_ttl_counts_from_the_end(ttl: int | None, left: float | None) -> None:
    ended = timestamp(NOW - timedelta(seconds=60))
    done = {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": ended}]}
    assert seconds_until_expiry(job({"ttlSecondsAfterFinished": ttl}, done), NOW) == left
    assert seconds_until_expiry(job({"ttlSecondsAfterFinished": ttl}), NOW) is None


@pytest.mark.parametrize(("indexes", "text"), [(set(), ""), ({3}, "3"), ({0, 1, 2, 5}, "0-2,5"), ({1, 3, 4}, "1,3-4")])
def test_index_ranges_are_written_as_kubernetes_does(indexes: set[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text) == indexes
