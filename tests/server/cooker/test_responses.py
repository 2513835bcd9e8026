"""AIHC's documents about our jobs, Pods, events and queues."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from muster.dispatch.model import Job, State
from muster.platform.errors import InvalidProblem, NotFoundProblem, UnauthenticatedProblem
from muster.platform.resources.queues import QueueStatus
from muster.server.cooker import responses

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB = Job("id", "task", {"task": {"jobType": "PyTorchJob", "queue": "q"}}, "cluster", "running", MOMENT, name="my-job")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("waiting", "Created"),
        ("starting", "Created"),
        ("preparing", "Starting"),
        ("running", "Running"),
        ("submitting", "Running"),
        ("stopping", "Stopping"),
        ("cancelling", "Stopping"),
        ("restarting", "Restarting"),
        ("succeeded", "Succeeded"),
        ("failed", "Failed"),
        ("cancelled", "Stopped"),
    ],
)
def test_every_state_is_a_status_of_aihc_and_can_be_filtered_by(state: State, status: str) -> None:
    assert responses.status_of_job(replace(JOB, state=state)) == status
    assert state in responses.states_with_status(status)


def test_no_state_is_forgotten() -> None:
    for state in get_args(State):
        assert responses.status_of_job(replace(JOB, state=state))
    assert responses.states_with_status("ManualTermination") == ["cancelled"]
    assert responses.states_with_status("nonsense") == []


def test_aihcs_own_word_is_more_exact_while_it_holds_the_job() -> None:
    held = replace(JOB, on="aihc", cluster_status="Abnormal")
    assert responses.status_of_job(held) == "Abnormal"
    assert responses.status_of_job(replace(held, state="failed")) == "Failed"


def test_a_job_has_the_fields_of_describe_job() -> None:
    described = responses.describe_job(replace(JOB, started=MOMENT, priority=-10), "ann")
    assert described | {"jobSpec": {}} == described
    assert (described["jobId"], described["name"], described["queue"], described["owner"]) == (
        "id",
        "my-job",
        "q",
        "ann",
    )
    assert (described["createdAt"], described["finishedAt"]) == ("2026-01-02T03:04:05Z", "")
    assert described["priority"] == "low"


@pytest.mark.parametrize(
    ("status", "node", "shown"),
    [
        ({"phase": "Pending"}, "", "Pending"),
        ({"phase": "Pending"}, "machine", "Starting"),
        ({"phase": "Running"}, "machine", "Running"),
        ({"phase": "Succeeded"}, "machine", "Succeed"),
        ({"phase": "Failed"}, "machine", "Failed"),
        ({"phase": "Unknown"}, "machine", "Unknown"),
    ],
)
def test_a_pod_has_a_status_of_aihc(status: dict[str, Any], node: str, shown: str) -> None:
    ended = {"state": {"terminated": {"reason": "Error"}}, "restartCount": 2}
    pod = {
        "metadata": {"name": "p", "labels": {"training.kubeflow.org/replica-type": "worker"}},
        "spec": {"nodeName": node},
        "status": {**status, "containerStatuses": [ended]},
    }
    found = responses.describe_pod(pod)
    assert (found["status"], found["replicaType"], found["restartCount"], found["reason"]) == (
        shown, "worker", 2, "Error",
    )  # fmt: skip


def test_queues_have_their_amounts_in_units_of_aihc() -> None:
    amounts = {"cpu": "2500m", "memory": "3Gi", "nvidia.com/gpu": "4"}
    queue = QueueStatus(
        "a", None, None, "Open", "", 1, 0, True, amounts, {}, {"running": 1, "pending": 2, "inqueue": 3}
    )
    child = replace(queue, name="b", parent="a", state="Closed")
    first, second = responses.describe_queues([queue, child])
    assert first["capability"] == {
        "acceleratorCardList": [{"acceleratorType": "nvidia.com/gpu", "acceleratorCount": 4}],
        "milliCPUcores": 2500,
        "memoryGi": 3,
    }
    assert (first["children"], first["opened"], first["runningJobs"], first["pendingJobs"]) == (["b"], True, 1, 5)
    assert (second["parentQueue"], second["opened"]) == ("a", False)


def test_events_are_in_order() -> None:
    made = [
        {"time": time, "type": "Normal", "reason": "R", "message": "m", "count": 1}
        for time in ("2026-01-02T00:00:00Z", None, "2026-01-01T00:00:00Z")
    ]
    found = responses.describe_events(made)
    assert [event["lastTimestamp"] for event in found["events"]] == ["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    assert found["total"] == 3


def test_a_failure_has_a_code_and_all_errors() -> None:
    assert responses.failure_of(UnauthenticatedProblem.of("cooker.token"))["details"]["code"] == "AUTH_FAILED"
    assert responses.failure_of(NotFoundProblem.named("job", "x"))["details"]["code"] == "missing"
    failure = responses.failure_of(InvalidProblem.field("taskParams.name", "field.missing"))
    assert failure["success"] is False
    assert failure["details"]["errors"] == [
        {"field": "taskParams.name", "message": "this field is required", "code": "field.missing"}
    ]


def test_priorities_are_words() -> None:
    assert [responses.priority_word(responses.priority_number(word)) for word in ("high", "normal", "low")] == [
        "high", "normal", "low",
    ]  # fmt: skip
