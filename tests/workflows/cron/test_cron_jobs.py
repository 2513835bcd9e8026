"""CronJobs of batch/v1: what is due, what is kept, and the controller on a real store with the test's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.budgets import Budgets
from muster.kube.builtin import EVENT, JOB, new_catalogue
from muster.kube.errors import Invalid
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, annotations_of, name_of, status_of
from muster.workflows.cron.cron_jobs import (
    CRON_JOB,
    SCHEDULED_ANNOTATION,
    CronJobController,
    default_cron_job,
    member_problem,
    plan_cron_job,
    validate_cron_job,
)
from muster.workflows.cron.schedule import parse_schedule
from tests.embedded.waiting import run_components, wait_for, wait_for_all

NOON = datetime(2026, 7, 1, 12, 0, 0, 500_000, tzinfo=UTC)
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}


def cron_job(**spec: Any) -> Object:
    status = spec.pop("status", {})
    return default_cron_job(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {
                "name": "tick",
                "namespace": "default",
                "uid": "u",
                "creationTimestamp": "2026-07-01T11:00:30Z",
            },
            "spec": {
                "schedule": "0 * * * *",
                "timeZone": "UTC",
                "jobTemplate": {"spec": {"template": TEMPLATE}},
                **spec,
            },
            "status": status,
        }
    )


def job(name: str, outcome: str = "", started: str = "2026-07-01T11:00:00Z") -> Object:
    conditions = [{"type": outcome, "status": "True"}] if outcome else []
    status = {"conditions": conditions, "startTime": started}
    if outcome == "Complete":
        status["completionTime"] = started
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "status": status}


def plan(cron: Object, *jobs: Object, now: datetime = NOON) -> Any:
    return plan_cron_job(cron, jobs, parse_schedule(cron["spec"]["schedule"], "UTC"), now)


@pytest.mark.parametrize(
    ("spec", "minutes_late", "is_due"),
    [
        ({}, 0, True),
        ({}, -1, False),
        ({}, 45, True),
        ({"suspend": True}, 0, False),
        ({"startingDeadlineSeconds": 60}, 0, True),
        ({"startingDeadlineSeconds": 60}, 5, False),
        ({"status": {"lastScheduleTime": "2026-07-01T12:00:00Z"}}, 10, False),
        ({"schedule": "30 * * * *"}, 0, True),
        ({"schedule": "0 0 * * *"}, 0, False),
        ({"schedule": "@every 30m"}, 0, True),
    ],
)
def test_what_is_due(spec: Object, minutes_late: int, is_due: bool) -> None:
    found = plan(cron_job(**spec), now=NOON + timedelta(minutes=minutes_late))
    assert (found.create is not None) is is_due
    assert (found.next_time is None) is bool(spec.get("suspend"))


def test_a_job_says_what_it_is_for() -> None:
    made = plan(cron_job()).create
    assert name_of(made) == f"tick-{int(NOON.timestamp()) // 60}"
    assert annotations_of(made) == {SCHEDULED_ANNOTATION: "2026-07-01T12:00:00Z"}
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"


@pytest.mark.parametrize(
    ("policy", "creates", "deletes", "reason"),
    [("Allow", True, [], ""), ("Forbid", False, [], "JobAlreadyActive"), ("Replace", True, ["running"], "")],
)
def test_what_becomes_of_a_job_that_still_runs(policy: str, creates: bool, deletes: list[str], reason: str) -> None:
    found = plan(cron_job(concurrencyPolicy=policy), job("running"))
    assert (found.create is not None) is creates
    assert [name_of(each) for each in found.delete] == deletes
    assert [event[1] for event in found.events] == ([reason] if reason else [])


def test_the_oldest_jobs_beyond_the_history_are_deleted() -> None:
    done = [job(f"done-{n}", "Complete", f"2026-07-01T0{n}:00:00Z") for n in range(5)]
    failed = [job(f"failed-{n}", "Failed", f"2026-07-01T0{n}:00:00Z") for n in range(3)]
    found = plan(cron_job(suspend=True), *reversed(done), *failed)
    assert [name_of(each) for each in found.delete] == ["done-0", "done-1", "failed-0", "failed-1"]
    assert found.status == {"lastSuccessfulTime": "2026-07-01T04:00:00Z"}
    assert len(plan(cron_job(suspend=True, successfulJobsHistoryLimit=0), *done).delete) == 5


def test_a_job_that_ended_is_no_longer_active_and_said_once() -> None:
    before = cron_job(suspend=True, status={"active": [{"uid": "a"}, {"uid": "b"}]})
    found = plan(before, job("a", "Failed"), job("b"))
    assert [ref["name"] for ref in found.status["active"]] == ["b"]
    assert found.events == (("Normal", "SawCompletedJob", "Saw completed job: a, condition: Failed"),)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, ""),
        ({"schedule": "every day"}, "spec.schedule"),
        ({"schedule": "TZ=UTC 0 0 * * *"}, "spec.schedule"),
        ({"timeZone": "Mars/Olympus"}, "spec.schedule"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds"),
        ({"jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}, "spec.jobTemplate.spec.template"),
        ({"jobTemplate": {}}, "spec.jobTemplate.spec.template"),
    ],
)
def test_rules(spec: Object, field: str) -> None:
    found = [cause.field for cause in validate_cron_job(cron_job(**spec), None)]
    assert (found[:1] or [""])[0].startswith(field)
    assert bool(found) is bool(field)


@pytest.mark.parametrize(
    ("schedule", "older", "problem"),
    [("* * * * *", 0, ""), ("@every 1s", 0, "memberCronSeconds"), ("* * * * *", 100, "memberCronWorkflows")],
)
def test_budgets_of_members(schedule: str, older: int, problem: str) -> None:
    found = member_problem(cron_job(schedule=schedule), parse_schedule(schedule), older, Budgets())
    assert problem in found
    assert bool(found) is bool(problem)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    catalogue.register(CRON_JOB)
    async with EmbeddedCluster(tmp_path, catalogue, durability="process") as cluster:
        yield cluster


async def test_the_controller_runs_each_time_once_whatever_happens_in_between(cluster: EmbeddedCluster) -> None:
    await cluster.create(cron_job(schedule="* * * * *"))
    created = datetime.now(UTC)

    def controller(minutes: int) -> CronJobController:
        return CronJobController(
            cluster, EventRecorder(cluster, "cron"), clock=lambda: created + timedelta(minutes=minutes)
        )

    async with run_components(controller(1)):
        (first,) = await wait_for_all(cluster, JOB, lambda jobs: len(jobs) == 1)
    seen = await wait_for(cluster, CRON_JOB, "tick", lambda cron: bool(status_of(cron).get("active")))
    assert [ref["name"] for ref in status_of(seen)["active"]] == [name_of(first)]
    async with run_components(controller(1)):  # as after a kill -9: the status may be lost, the Job is not
        await cluster.update({**seen, "status": {}}, subresource="status")
        await wait_for(cluster, CRON_JOB, "tick", lambda cron: bool(status_of(cron).get("lastScheduleTime")))
    assert len((await cluster.list(JOB)).items) == 1
    async with run_components(controller(2)):
        await wait_for_all(cluster, JOB, lambda jobs: len(jobs) == 2)


async def test_a_schedule_that_cannot_be_read_is_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(Invalid, match=r"spec\.schedule: Invalid value"):
        await cluster.create(cron_job(schedule="* * *"))


async def test_a_refused_job_is_an_event(cluster: EmbeddedCluster) -> None:
    hard = {"count/jobs.batch": "0"}
    metadata = {"name": "q", "namespace": "default"}
    await cluster.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    await cluster.create(cron_job(schedule="* * * * *"))
    recorder = EventRecorder(cluster, "cron")
    clock = datetime.now(UTC) + timedelta(minutes=1)
    async with run_components(recorder, CronJobController(cluster, recorder, clock=lambda: clock)):
        (event,) = await wait_for_all(cluster, EVENT, lambda events: len(events) == 1)
    assert "exceeded quota: q" in event["message"]
