"""The controller on a real cluster, with a clock that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, name_of, status_of
from muster.workflows.cron.controller import CronController
from muster.workflows.kinds import CRON_WORKFLOW, WORKFLOW, workflow_kinds
from tests.embedded.waiting import run_components, wait_for

START = datetime(2026, 7, 1, 11, 59, 59, 900_000, tzinfo=UTC)
NOON = 1782907200
SPEC: dict[str, Any] = {
    "schedules": ["0 * * * *"],
    "timezone": "UTC",
    "workflowSpec": {
        "entrypoint": "main",
        "templates": [{"name": "main", "container": {"image": "busybox", "command": ["true"]}}],
    },
}


class Clock:
    """Starts at `start` on its first use: a busy machine must not miss what is due a moment later."""

    def __init__(self, start: datetime) -> None:
        self.set(start)

    def set(self, start: datetime) -> None:
        self._start = start
        self._offset: timedelta | None = None

    def __call__(self) -> datetime:
        now = datetime.now(UTC)
        if self._offset is None:
            self._offset = self._start - now
        return now + self._offset


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(replace(kind, validate=None))  # as a cluster that does not have our validation rules
    async with asyncio.timeout(60), EmbeddedCluster(tmp_path, catalogue, durability="process") as cluster:
        yield cluster


@asynccontextmanager
async def server(cluster: EmbeddedCluster, start: datetime = START) -> AsyncIterator[Clock]:
    clock = Clock(start)
    controller = CronController(cluster, EventRecorder(cluster, "cron"), clock=clock)
    async with run_components(controller):
        yield clock


async def create(cluster: EmbeddedCluster, **spec: Any) -> Object:
    metadata = {"name": "nightly", "namespace": "default"}
    obj = {"apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "metadata": metadata, "spec": {**SPEC, **spec}}
    return await cluster.create(obj)


async def told(cluster: EmbeddedCluster, so: Callable[[dict[str, Any]], bool], name: str = "nightly") -> Object:
    """Returns the CronWorkflow once its status is as expected."""
    return await wait_for(cluster, CRON_WORKFLOW, name, lambda cron: so(status_of(cron)))


async def status(cluster: EmbeddedCluster) -> dict[str, Any]:
    return status_of(await cluster.get(CRON_WORKFLOW, "nightly", "default"))


async def workflows(cluster: EmbeddedCluster) -> list[str]:
    return sorted(name_of(w) for w in (await cluster.list(WORKFLOW, "default")).items)


async def finish(cluster: EmbeddedCluster, name: str, phase: str = "Succeeded") -> None:
    change = {"status": {"phase": phase, "finishedAt": "2026-07-01T12:00:01Z"}}
    await cluster.patch(WORKFLOW, name, "default", change)


async def begun(cluster: EmbeddedCluster, count: int = 1) -> None:
    await told(cluster, lambda status: len(status.get("active") or ()) == count and "lastScheduledTime" in status)


async def test_a_workflow_is_made_when_it_is_due(cluster: EmbeddedCluster) -> None:
    async with server(cluster):
        await create(cluster)
        await begun(cluster)
        assert await workflows(cluster) == [f"nightly-{NOON}"]
        found = await status(cluster)
        assert found["lastScheduledTime"] == "2026-07-01T12:00:00Z"
        assert found["phase"] == "Active"
        assert found["active"][0]["name"] == f"nightly-{NOON}"
        await finish(cluster, f"nightly-{NOON}")
        await begun(cluster, 0)
        assert (await status(cluster))["succeeded"] == 1


async def test_a_beat_goes_on(cluster: EmbeddedCluster) -> None:
    async with server(cluster, datetime.now(UTC)):
        await create(cluster, schedules=["@every 1s"])
        await begun(cluster, 2)
        first, second = (int(name.rpartition("-")[2]) for name in await workflows(cluster))
        assert second - first == 1


async def test_what_a_dead_server_had_made_is_not_made_again(cluster: EmbeddedCluster) -> None:
    """The controller dies after it created the workflow and before it wrote the status."""
    async with server(cluster):
        await create(cluster, startingDeadlineSeconds=600)
        await begun(cluster)
    cron = await cluster.get(CRON_WORKFLOW, "nightly", "default")
    await cluster.update({**cron, "status": {"lastScheduledTime": "2026-07-01T11:00:00Z"}})
    async with server(cluster, START + timedelta(minutes=5)):
        noon = "2026-07-01T12:00:00Z"
        await told(cluster, lambda status: status["lastScheduledTime"] == noon and len(status["active"]) == 1)
        assert await workflows(cluster) == [f"nightly-{NOON}"]


@pytest.mark.parametrize(("deadline", "expected"), [(600, [f"nightly-{NOON}"]), (60, []), (None, [])])
async def test_what_was_due_while_nobody_was_there(
    cluster: EmbeddedCluster, deadline: int | None, expected: list[str]
) -> None:
    cron = await create(cluster, **({"startingDeadlineSeconds": deadline} if deadline else {}))
    note = {"cronworkflows.argoproj.io/last-used-schedule": "CRON_TZ=UTC 0 * * * *"}
    metadata = {**cron["metadata"], "annotations": note}
    await cluster.update({**cron, "metadata": metadata, "status": {"lastScheduledTime": "2026-07-01T11:00:00Z"}})
    async with server(cluster, START + timedelta(minutes=5)):
        # A second one shows that the first has been handled.
        other = {**cron, "metadata": {"name": "other", "namespace": "default"}, "spec": {**SPEC, "schedules": ["x"]}}
        await cluster.create(other)
        await told(cluster, lambda status: bool(status.get("conditions")), "other")
        if expected:
            await begun(cluster)
        assert await workflows(cluster) == expected


async def test_forbid_waits_for_the_last_one(cluster: EmbeddedCluster) -> None:
    async with server(cluster) as clock:
        await create(cluster, concurrencyPolicy="Forbid", startingDeadlineSeconds=600)
        await begun(cluster)
        clock.set(START + timedelta(hours=1, seconds=10))
        await cluster.patch(CRON_WORKFLOW, "nightly", "default", {"metadata": {"labels": {"look": "again"}}})
        await finish(cluster, f"nightly-{NOON}", "Failed")
        await wait_for(cluster, WORKFLOW, f"nightly-{NOON + 3600}", lambda workflow: True)
        await told(cluster, lambda status: status["failed"] == 1 and len(status["active"]) == 1)
        assert await workflows(cluster) == [f"nightly-{NOON}", f"nightly-{NOON + 3600}"]


async def test_replace_ends_the_last_one(cluster: EmbeddedCluster) -> None:
    async with server(cluster) as clock:
        await create(cluster, concurrencyPolicy="Replace")
        await begun(cluster)
        clock.set(START + timedelta(hours=1, seconds=10))
        await cluster.patch(CRON_WORKFLOW, "nightly", "default", {"metadata": {"labels": {"look": "again"}}})
        await begun(cluster, 2)
        old = await cluster.get(WORKFLOW, f"nightly-{NOON}", "default")
        new = await cluster.get(WORKFLOW, f"nightly-{NOON + 3600}", "default")
        assert old["spec"]["shutdown"] == "Terminate"
        assert "shutdown" not in new["spec"]


async def test_it_stops_when_it_has_run_often_enough(cluster: EmbeddedCluster) -> None:
    async with server(cluster):
        await create(cluster, stopStrategy={"expression": "cronworkflow.succeeded >= 1"}, successfulJobsHistoryLimit=0)
        await begun(cluster)
        await finish(cluster, f"nightly-{NOON}")
        cron = await told(cluster, lambda status: status.get("phase") == "Stopped")
        assert await workflows(cluster) == []
        assert cron["metadata"]["labels"]["cronworkflows.argoproj.io/completed"] == "true"


@pytest.mark.parametrize(
    ("spec", "type_", "message"),
    [
        ({"schedules": ["x"]}, "SpecError", "cron schedule is malformed: "),
        ({"stopStrategy": {"expression": "(("}}, "SpecError", "failed to check the stopping condition: "),
        ({"when": "(("}, "SubmissionError", "run policy error: "),
    ],
)
async def test_mistakes_are_conditions(
    cluster: EmbeddedCluster, spec: dict[str, Any], type_: str, message: str
) -> None:
    async with server(cluster):
        await create(cluster, **spec)
        cron = await told(cluster, lambda status: bool(status.get("conditions")))
        [condition] = cron["status"]["conditions"]
        assert condition["type"] == type_
        assert condition["message"].startswith(message)
        assert await workflows(cluster) == []
