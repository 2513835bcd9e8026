"""Cron expressions of members: what is searched for takes little of the server's time, and never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.events import EventRecorder
from muster.workflows.cron.controller import CronController
from muster.workflows.cron.schedule import Schedule, ScheduleError, parse_schedule, parse_schedule_with_seconds
from muster.workflows.kinds import CRON_WORKFLOW, workflow_kinds
from muster.workflows.lang.go_time import Civil, Zone, to_civil
from tests.embedded.waiting import run_components

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0 0 31 2,4,6,9,11 *", id="the 31st of short months"),
        pytest.param("59 23 30 2 *", id="30 February"),
        pytest.param("59 23 29 2 *", id="29 February"),
        pytest.param("59 23 31 12 *", id="the last minute of a year"),
    ],
)
def test_a_day_that_never_comes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member's schedule is due on a day that does not exist, and each day of five years is looked at"""
    asked: list[int] = []

    def counted(nanoseconds: int, zone: Zone) -> Civil:
        asked.append(nanoseconds)
        return to_civil(nanoseconds, zone)

    monkeypatch.setattr("muster.workflows.cron.schedule.to_civil", counted)
    parse_schedule(text, "America/Sao_Paulo").next_after(NOW)
    assert len(asked) < 250  # a day of hours and an hour of minutes, twice


@pytest.mark.parametrize(
    "text", ["1" * 5000 + " * * * *", "*/" + "9" * 4301 + " * * * *", "1-" + "1" * 9999 + " * * * *"]
)
def test_a_number_of_thousands_of_digits(text: str) -> None:
    """A number in a schedule has more digits than Python converts"""
    with pytest.raises(ScheduleError, match="digits is out of range"):
        parse_schedule(text)
    with pytest.raises(ScheduleError, match="digits is out of range"):
        parse_schedule_with_seconds(f"0 {text}")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(kind)
    async with asyncio.timeout(120), EmbeddedCluster(tmp_path, catalogue, durability="process") as found:
        yield found


async def test_a_hundred_schedules(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CronWorkflow has a hundred schedules, whose next times are searched for on the event loop of all members"""
    on_loop: list[str] = []
    searched: list[datetime | None] = []
    real = Schedule.next_after

    def noted(self: Schedule, when: datetime) -> datetime | None:
        if threading.current_thread() is threading.main_thread():
            on_loop.append(str(self))
        searched.append(real(self, when))
        return searched[-1]

    monkeypatch.setattr(Schedule, "next_after", noted)
    spec = {
        "schedules": [f"{minute} 12 30 2 *" for minute in range(50)],
        "workflowSpec": {"entrypoint": "main", "templates": [{"name": "main", "suspend": {}}]},
    }
    controller = CronController(cluster, EventRecorder(cluster, "cron"), clock=lambda: NOW)
    async with run_components(controller):
        await cluster.create({
            "apiVersion": CRON_WORKFLOW.api_version, "kind": "CronWorkflow",
            "metadata": {"name": "many", "namespace": "default"}, "spec": spec,
        })  # fmt: skip
        while len(searched) < 100:  # noqa: ASYNC110 (what is due, and when to look again)
            await asyncio.sleep(0.01)
    assert set(searched) == {None}
    assert on_loop == []
