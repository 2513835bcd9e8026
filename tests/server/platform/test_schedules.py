"""Schedules over HTTP on a complete Muster: CronWorkflows are created, paused, started and deleted by those who may,
and stand in one list with recurring runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from muster.kube.objects import parse_time
from muster.platform.database.database import sqlite_url
from muster.workflows.kinds import CRON_WORKFLOW
from tests.server.platform.served import Client
from tests.server.platform.whole import Whole, eventually, whole_muster

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: report-}
spec:
  entrypoint: main
  templates:
    - name: main
      container: {image: "python:3.11", command: [echo, hello]}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def muster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    home: Path = tmp_path_factory.mktemp("schedules")
    async with whole_muster(home / "home", sqlite_url(home / "platform.db")) as running:
        await running.admin.post("teams", {"name": "ml"})
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(muster: Whole) -> Client:
    return await muster.member("ann", "ml")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(muster: Whole) -> Client:
    return await muster.member("bob")


def body(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "schedules": ["0 9 * * 1-5"], "timezone": "Asia/Shanghai", "manifest": WORKFLOW, **more}


async def names(client: Client, query: str = "") -> list[str]:
    return [each["name"] for each in (await client.get(f"schedules?{query}"))["items"]]


async def test_a_schedule_is_created_paused_resumed_and_run(muster: Whole, ann: Client, bob: Client) -> None:
    made = await ann.post("schedules", body("report", concurrency="Forbid"))
    assert (made["kind"], made["namespace"], made["state"], made["owner_name"]) == ("cron", "user-ann", "active", "ann")
    assert (made["schedules"], made["timezone"], made["may"]) == (
        ["0 9 * * 1-5"],
        "Asia/Shanghai",
        ["run", "pause", "delete"],
    )
    times = [parse_time(each) for each in made["next"]]
    assert len(times) == 5 and times == sorted(times)
    assert all((time.hour, time.minute, time.weekday() < 5) == (1, 0, True) for time in times)
    cron = await muster.cluster.get(CRON_WORKFLOW, "report", "user-ann")
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    paused = await ann.post("schedules/user-ann/report/pause", {})
    assert (paused["state"], paused["next"], paused["may"]) == ("paused", [], ["run", "resume", "delete"])
    assert (await ann.post("schedules/user-ann/report/resume", {}))["state"] == "active"
    assert "kind: CronWorkflow" in await ann.get("schedules/user-ann/report/yaml")
    for method, path in (("GET", ""), ("GET", "/yaml"), ("POST", "/pause"), ("POST", "/run"), ("DELETE", "")):
        (await bob(method, f"schedules/user-ann/report{path}")).refused(404)
    assert "report" in await names(ann) and "report" in await names(muster.admin)
    assert await names(bob) == []
    started = await ann.post("schedules/user-ann/report/run", {})
    assert (started["schedule"], started["creator"]) == ("report", "muster-ann")

    async def has_succeeded() -> bool:
        found = await ann.get(f"argo-workflows/user-ann/{started['name']}")
        return bool(found["state"] == "succeeded")

    await eventually(has_succeeded)
    history = (await ann.get("runs/all?schedule=report&namespace=user-ann"))["items"]
    assert [(each["origin"], each["source"], each["scheduled"]) for each in history] == [("cron", "report", True)]
    again = await ann.post(f"argo-workflows/user-ann/{started['name']}/resubmit", {})
    assert again["schedule"] == "report"
    entries = (await muster.admin.get("audit?kind=schedule"))["items"]
    actions = [each["action"] for each in entries if each["subject_name"] == "report"]
    assert actions == ["run", "resume", "pause", "create"]


async def test_a_team_shares_its_schedules(muster: Whole, ann: Client, bob: Client) -> None:
    carl = await muster.member("carl", "ml")
    made = await ann.post("schedules", body("shared", team="ml", suspended=True))
    assert (made["namespace"], made["team_name"], made["state"]) == ("team-ml", "ml", "paused")
    assert await names(carl) == ["shared"]
    (await bob("POST", "schedules", body("foreign", team="ml"))).refused(403)
    (await carl("DELETE", "schedules/team-ml/shared")).ok()
    assert await names(carl) == []


REFUSED = {
    "no name": (body(""), "name", "schedule.name"),
    "a name that is none": (body("No Name"), "name", "schedule.text"),
    "a wrong time": (body("x", schedules=["61 * * * *"]), "schedules", "schedule.text"),
    "no time": (body("x", schedules=[]), "schedules", "schedule.text"),
    "an unknown time zone": (body("x", timezone="Mars/Olympus"), "schedules", "schedule.text"),
    "another kind": (body("x", manifest="apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"), "manifest", None),
    "a text that is not YAML": (body("x", manifest="a: [1"), "manifest", "job.text"),
    "a template that does not exist": (
        body("x", manifest=WORKFLOW.replace("entrypoint: main", "entrypoint: other")),
        "spec.entrypoint",
        "job.cluster",
    ),
    "a label of the platform": (
        body("x", manifest=WORKFLOW.replace("generateName: report-", "labels: {muster.dev/run: abc}")),
        "metadata.labels[muster.dev/run]",
        "job.cluster",
    ),
    "a taken name": (body("taken"), "name", "schedule.text"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_refused(ann: Client, what: str) -> None:
    given, field, code = REFUSED[what]
    if what == "a taken name":
        await ann.post("schedules", given)
    before = await names(ann)
    reply = await ann("POST", "schedules", given)
    (error,) = reply.refused(422)["errors"]
    assert error["field"] == field and code in (None, error["code"])
    assert await names(ann) == before


async def test_a_cron_workflow_as_it_is(ann: Client) -> None:
    spec = "\n".join(f"  {line}" for line in WORKFLOW.splitlines()[3:])
    manifest = (
        "apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\nmetadata: {name: nightly}\n"
        f'spec:\n  schedules: ["@daily", "@every 12h"]\n{spec.replace("  spec:", "  workflowSpec:", 1)}\n'
    )
    made = await ann.post("schedules", {"manifest": manifest})
    assert (made["name"], made["schedules"]) == ("nightly", ["@daily", "@every 12h"])
    (await ann("DELETE", "schedules/user-ann/nightly")).ok()


async def test_times_of_an_expression(ann: Client) -> None:
    found = await ann.get("schedules/times?schedule=0 9 * * *&schedule=0 9 1 * *&timezone=UTC")
    times = [parse_time(each) for each in found["times"]]
    assert len(times) == 5 and all((later - first).days == 1 for first, later in pairwise(times))
    assert (await ann.get("schedules/times?schedule=0 9 31 4 *"))["times"] == []
    assert (await ann("GET", "schedules/times?schedule=often")).refused(422)["errors"][0]["field"] == "schedules"
