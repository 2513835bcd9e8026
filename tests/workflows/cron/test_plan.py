from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.workflows.cron import plan

NOW = datetime(2026, 7, 1, 12, 0, 30, tzinfo=UTC)


def cron(*, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {
            "name": "nightly",
            "namespace": "team",
            "uid": "c-1",
            "labels": {"workflows.argoproj.io/creator": "me", "own": "x"},
        },
        "spec": {"schedules": ["0 * * * *"], "timezone": "UTC", "workflowSpec": {"entrypoint": "main"}, **spec},
        "status": status or {},
    }
    made["metadata"]["annotations"] = {plan.SCHEDULE_ANNOTATION: plan.schedule_text(made)}
    return made


def workflow(name: str, phase: str = "Running", finished: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"u-{name}", "labels": {plan.CRON_LABEL: "nightly"}},
        "status": {"phase": phase, "finishedAt": finished},
    }


def ref(name: str) -> dict[str, Any]:
    return plan.reference(workflow(name))


def test_old_and_new_spelling() -> None:
    old = {"spec": {"schedule": "0 1 * * *", "timezone": "Asia/Tokyo"}}
    assert [timed.text for timed in plan.schedules_of(old)] == ["0 1 * * *"]
    assert plan.schedule_text(old) == "CRON_TZ=Asia/Tokyo 0 1 * * *"
    assert plan.schedule_text({"spec": {"schedules": ["@daily", "@hourly"]}}) == "@daily,@hourly"


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"startingDeadlineSeconds": 60}, {"lastScheduledTime": "2026-07-01T10:00:00Z"}, "2026-07-01T12:00:00Z"),
        ({"startingDeadlineSeconds": 20}, {"lastScheduledTime": "2026-07-01T10:00:00Z"}, None),
        ({}, {"lastScheduledTime": "2026-07-01T10:00:00Z"}, None),
        ({"startingDeadlineSeconds": 60}, {"lastScheduledTime": "2026-07-01T12:00:00Z"}, None),
        ({"startingDeadlineSeconds": 60}, {}, None),
        (
            {"startingDeadlineSeconds": 10**8, "schedules": ["0 0 1 1 *"]},
            {"lastScheduledTime": "2024-07-01T10:00:00Z"},
            "2026-01-01T00:00:00Z",
        ),
        (
            {"startingDeadlineSeconds": 3600, "schedules": ["@every 10m"]},
            {"lastScheduledTime": "2026-07-01T10:03:00Z"},
            "2026-07-01T11:53:00Z",
        ),
    ],
)
def test_what_was_missed_runs_within_its_deadline(
    spec: dict[str, Any], status: dict[str, Any], expected: str | None
) -> None:
    found = cron(status=status, **spec)
    late = plan.missed_time(found, plan.schedules_of(found), NOW)
    assert (late[0].strftime("%Y-%m-%dT%H:%M:%SZ") if late else None) == expected


def test_a_new_schedule_has_missed_nothing() -> None:
    found = cron(status={"lastScheduledTime": "2026-07-01T10:00:00Z"}, startingDeadlineSeconds=60)
    found["metadata"]["annotations"] = {plan.SCHEDULE_ANNOTATION: "another"}
    assert plan.missed_time(found, plan.schedules_of(found), NOW) is None


def test_the_books_follow_the_workflows() -> None:
    status = {"active": [ref("a"), ref("b"), ref("c"), ref("gone")], "succeeded": 4, "failed": 1}
    workflows = [workflow("a", "Succeeded"), workflow("b", "Error"), workflow("c"), workflow("new", "")]
    found = plan.update_status(cron(status=status), workflows)
    assert [r["name"] for r in found["active"]] == ["c", "new"]
    assert (found["succeeded"], found["failed"]) == (5, 2)
    assert plan.update_status(cron(), [workflow("a", "Succeeded")])["succeeded"] == 0


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, {}, True),
        ({"suspend": True}, {}, False),
        ({}, {"phase": "Stopped"}, False),
        ({"concurrencyPolicy": "Allow"}, {"active": [ref("a")]}, True),
        ({"concurrencyPolicy": "Replace"}, {"active": [ref("a")]}, True),
        ({"concurrencyPolicy": "Forbid"}, {"active": [ref("a")]}, False),
        ({"concurrencyPolicy": "Forbid"}, {}, True),
        ({"when": "{{cronworkflow.failed}} < 2"}, {"failed": 1}, True),
        ({"when": "{{cronworkflow.failed}} < 2"}, {"failed": 2}, False),
        ({"when": "{{= cronworkflow.succeeded + cronworkflow.failed < 3 }}"}, {"failed": 2, "succeeded": 1}, False),
        ({"when": "{{= cronworkflow.lastScheduledTime == nil }}"}, {}, True),
        (
            {"when": "{{= (now() - cronworkflow.lastScheduledTime).Hours() > 1 }}"},
            {"lastScheduledTime": "2020-01-01T00:00:00Z"},
            True,
        ),
        ({"when": "'{{cronworkflow.labels.own}}' == 'x' && '{{cronworkflow.name}}' == 'nightly'"}, {}, True),
    ],
)  # fmt: skip
def test_whether_it_may_run(spec: dict[str, Any], status: dict[str, Any], expected: bool) -> None:
    found = cron(status=status, **spec)
    assert plan.may_run(found, {"active": [], **status}) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("", False), ("cronworkflow.failed >= 2", True), ("cronworkflow.succeeded > 0", False)],
)
def test_when_it_has_run_often_enough(expression: str, expected: bool) -> None:
    found = cron(stopStrategy={"expression": expression})
    assert plan.has_stopped(found, {"failed": 2, "succeeded": 0}) is expected


def test_the_workflow_it_makes() -> None:
    more = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/x"]}
    found = cron(workflowMetadata=more, timezone="Asia/Tokyo")
    [timed] = plan.schedules_of(found)
    made = plan.workflow_for(found, datetime(2026, 7, 1, 12, tzinfo=UTC), timed.schedule)
    assert made["kind"] == "Workflow"
    assert made["spec"] == {"entrypoint": "main"}
    metadata = made["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("nightly-1782907200", "team")
    assert "generateName" not in metadata
    assert metadata["labels"] == {plan.CRON_LABEL: "nightly", "workflows.argoproj.io/creator": "me", "a": "b"}
    assert metadata["annotations"] == {"workflows.argoproj.io/scheduled-time": "2026-07-01T21:00:00+09:00", "c": "d"}
    assert metadata["finalizers"] == ["example.com/x"]
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["c-1"]


def test_a_start_is_noted_and_clears_an_error() -> None:
    status = {"active": [], "conditions": [{"type": "SubmissionError", "status": "True"}]}
    after = plan.status_after_start(status, workflow("a"), datetime(2026, 7, 1, 12, tzinfo=UTC))
    assert after == {
        "active": [ref("a")],
        "phase": "Active",
        "lastScheduledTime": "2026-07-01T12:00:00Z",
        "conditions": [],
    }


def test_errors_are_conditions() -> None:
    after = plan.status_after_failure({"active": [], "failed": 1}, "SubmissionError", "no")
    assert after["failed"] == 2
    assert after["conditions"] == [{"type": "SubmissionError", "status": "True", "message": "no"}]
    assert "failed" not in plan.status_after_failure({"active": []}, "SpecError", "no")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["s1", "f1"]),
        ({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}, ["s3", "s2", "s1", "f2", "f1"]),
        ({"successfulJobsHistoryLimit": 9, "failedJobsHistoryLimit": 9}, []),
    ],
)
def test_how_much_history_is_kept(spec: dict[str, Any], expected: list[str]) -> None:
    ended = [workflow(f"s{n}", "Succeeded", f"2026-07-01T0{n}:00:00Z") for n in (2, 1, 4, 3)]
    ended += [workflow(f"f{n}", "Failed", f"2026-07-01T0{n}:00:00Z") for n in (1, 2)]
    other = workflow("other", "Succeeded", "2026-01-01T00:00:00Z")
    other["metadata"]["labels"] = {}
    assert [
        w["metadata"]["name"] for w in plan.workflows_to_delete(cron(**spec), [*ended, workflow("r"), other])
    ] == expected
