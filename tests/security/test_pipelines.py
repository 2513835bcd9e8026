"""The API of Kubeflow Pipelines against members: what belongs to others, weak tokens, uploads, and false Workflows."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select

from muster.kube.budgets import Budgets
from muster.kube.errors import TooManyRequests
from muster.kube.objects import Object, name_of
from muster.pipelines.controller import compile_run
from muster.pipelines.recurring_runs import RecurringController
from muster.pipelines.runs import RunSource
from muster.platform.database.database import Database, sqlite_url
from muster.platform.database.pipeline_tables import pipeline_runs
from muster.platform.users.namespace_names import namespace_of
from muster.platform.users.tokens import issue_run_token
from muster.server.platform.route_rules import PIPELINES_RULES
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from muster.workflows.model import PIPELINE_RUN_LABEL
from tests.pipelines.test_packages import SPEC, YAML
from tests.server.pipelines.test_app import Api, user_of
from tests.server.platform.served import Client, Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANARY = "canary-51c8"
GUARDED = [key for key, rule in PIPELINES_RULES.items() if not rule.is_public]


@dataclass(frozen=True)
class Here:
    served: Served
    ann: Api
    bob: Api
    browser: Client
    """Of Ann."""
    reader: Api
    """Ann, with a token that may only read."""
    ids: dict[str, str]
    """Of what belongs to Ann, by the names in paths."""

    def path(self, key: str) -> str:
        found = key.split(" ")[1]
        for name, identifier in self.ids.items():
            found = found.replace(f"{{{name}}}", identifier)
        return found.replace("{name}", CANARY).replace("{node_id}", "say")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Here]:
    """Ann has one of everything. Nothing runs her runs."""
    folder = tmp_path_factory.mktemp("pipelines")
    database = await Database.open(sqlite_url(folder / "platform.db"), survives_power_cut=False)
    async with serving(database, folder / "home", kinds=workflow_kinds()) as served:
        browser, bob = await served.user("ann"), await user_of(served, "bob")
        ann = Api(served.url, (await browser.post("tokens", {"name": "script"}))["secret"])
        reader = Api(served.url, (await browser.post("tokens", {"name": "reader", "scopes": ["read"]}))["secret"])
        experiment = await ann.post("experiments", {"display_name": CANARY})
        pipeline = (await ann.upload("pipelines/upload", YAML, name=CANARY)).ok()
        (version,) = (await ann.get(f"pipelines/{pipeline['pipeline_id']}/versions"))["pipeline_versions"]
        body = {"display_name": CANARY, "pipeline_spec": SPEC, "experiment_id": experiment["experiment_id"]}
        run = await ann.post("runs", body)
        trigger = {"periodic_schedule": {"interval_second": 3600}}
        recurring = await ann.post("recurringruns", {**body, "trigger": trigger})
        ids = {
            "experiment_id": experiment["experiment_id"],
            "pipeline_id": pipeline["pipeline_id"],
            "version_id": version["pipeline_version_id"],
            "run_id": run["run_id"],
            "recurring_run_id": recurring["recurring_run_id"],
        }
        yield Here(served, ann, bob, browser, reader, ids)
    await asyncio.to_thread(database.close)


@pytest.mark.parametrize("key", [key for key in GUARDED if "{" in key])
async def test_what_belongs_to_another_member(here: Here, key: str) -> None:
    """A member uses a route of Kubeflow Pipelines with the id of another member's experiment, pipeline or run."""
    method = key.split(" ")[0]
    body = {"display_name": "x", "pipeline_spec": SPEC} if "versions" in key and method == "POST" else {}
    reply = await here.bob(method, here.path(key), body if method in ("POST", "PATCH") else None)
    assert reply.status == 404, reply.body
    assert "Forbidden" not in str(reply.body)
    there = await here.ann("GET", f"runs/{here.ids['run_id']}")
    assert there.status == 200


@pytest.mark.parametrize("listed", ["experiments", "pipelines", "runs", "recurringruns"])
@pytest.mark.parametrize("namespace", ["", "-", "user-ann"])
async def test_lists_show_only_what_is_ones_own(here: Here, listed: str, namespace: str) -> None:
    """A member lists all namespaces, or names that of another member."""
    reply = await here.bob("GET", listed, namespace=namespace)
    assert reply.status == (404 if namespace == "user-ann" else 200)
    assert CANARY not in json.dumps(reply.body)


@pytest.mark.parametrize(
    "change",
    [
        {"experiment_id": "experiment_id"},
        {"pipeline_version_reference": {"pipeline_id": "pipeline_id"}},
        {"pipeline_version_reference": {"pipeline_version_id": "version_id"}},
        {"pipeline_version_reference": {"pipeline_id": "pipeline_id", "pipeline_version_id": "version_id"}},
    ],
)
@pytest.mark.parametrize("kind", ["runs", "recurringruns"])
async def test_a_run_of_what_belongs_to_another(here: Here, change: dict[str, Any], kind: str) -> None:
    """A member runs another member's pipeline, or runs something in their experiment."""
    body: dict[str, Any] = {"display_name": "x", "trigger": {"cron_schedule": {"cron": "@daily"}}}
    if kind == "runs":
        del body["trigger"]
    if "experiment_id" in change:
        body |= {"pipeline_spec": SPEC, "experiment_id": here.ids["experiment_id"]}
    else:
        reference = change["pipeline_version_reference"]
        body["pipeline_version_reference"] = {name: here.ids[wanted] for name, wanted in reference.items()}
    reply = await here.bob("POST", kind, body)
    assert (reply.status, CANARY in str(reply.body)) == (404, False)


async def test_lineage_of_another_run(here: Here) -> None:
    """A member asks for the artifacts of another member's run."""
    assert (await here.bob("GET", "artifacts", run_id=here.ids["run_id"])).status == 404
    assert await here.bob.get("artifacts", uri="minio://mlpipeline") == {}


@pytest.mark.parametrize("key", [key for key in GUARDED if not key.startswith("GET ")])
async def test_a_token_that_may_only_read(here: Here, key: str) -> None:
    """A token without the scope `write` is used to change something."""
    reply = await here.reader(key.split(" ")[0], here.path(key), {})
    assert (reply.status, reply.body["code"]) == (403, 7)


async def test_the_token_of_a_run_of_the_platform(here: Here) -> None:
    """The token that a run of the platform gets is used for Kubeflow Pipelines."""
    ann = (await here.browser.get("session"))["user"]["id"]
    token = await here.served.platform.database.write(lambda connection: issue_run_token(connection, ann, "a-run"))
    for path in ("experiments", "runs", f"runs/{here.ids['run_id']}"):
        assert (await Api(here.served.url, token)("GET", path)).status == 403


async def test_a_session_without_the_csrf_token(here: Here) -> None:
    """A page of another site sends a request with the cookie of a user."""
    browser = here.browser
    path = f"/apis/v2beta1/runs/{here.ids['run_id']}:terminate"
    assert (await browser("POST", path, csrf=False)).status == 403
    assert (await browser("POST", path, headers={"Origin": "https://evil.example"})).status == 403
    assert (await browser("GET", f"/apis/v2beta1/runs/{here.ids['run_id']}")).status == 200


def _nested(depth: int) -> bytes:
    return b'{"pipelineInfo": ' + b'{"a": ' * depth + b"1" + b"}" * depth + b"}"


def _bomb() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pipeline.yaml", b" " * (64 << 20))
    return target.getvalue()


LAUGHS = b"a0: &a0 [x]\n" + b"".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n".encode() for n in range(1, 30))


@pytest.mark.parametrize(
    ("data", "statuses"),
    [
        pytest.param(_bomb(), {413}, id="a zip bomb"),
        pytest.param(_nested(100_000), {400}, id="deeply nested JSON"),
        pytest.param(LAUGHS, {400}, id="aliases that multiply"),
        pytest.param(b"!!python/object/apply:os.system [id]", {400}, id="a YAML tag that runs a program"),
        pytest.param(b"\0" * 100, {400, 422}, id="NUL characters"),
    ],
)
async def test_hostile_uploads(here: Here, data: bytes, statuses: set[int]) -> None:
    """A member uploads a pipeline that is made to exhaust or to trick the server."""
    reply = await here.bob.upload("pipelines/upload", data, name="hostile")
    assert reply.status in statuses, reply.body
    assert len(reply.body["message"]) < 5000
    assert (await here.bob("GET", "pipelines/names/hostile")).status == 404


@pytest.mark.parametrize("field", ["filter", "sort_by", "page_token"])
async def test_lists_take_text_as_text(here: Here, field: str) -> None:
    """A member writes SQL into a filter, an order or a page token."""
    hostile = "x'; DROP TABLE pipeline_runs; --"
    assert (await here.bob("GET", "runs", **{field: hostile})).status == 400
    predicate = {"operation": "IS_SUBSTRING", "key": "name", "string_value": hostile}
    assert "runs" not in await here.bob.get("runs", filter=json.dumps({"predicates": [predicate]}))
    assert (await here.ann("GET", f"runs/{here.ids['run_id']}")).status == 200


async def test_a_false_workflow_of_a_run(here: Here) -> None:
    """A member creates a Workflow that says it belongs to another member's run, and has ended."""
    services = here.served.platform
    await services.namespaces.sync()
    query = select(pipeline_runs.c.workflow).where(pipeline_runs.c.id == here.ids["run_id"])
    name = await services.database.read(lambda connection: connection.execute(query).scalar_one())
    for namespace, chosen in (("user-bob", name), ("user-ann", "another")):
        made = await services.cluster.create(
            {
                "apiVersion": WORKFLOW.api_version,
                "kind": "Workflow",
                "metadata": {
                    "name": chosen,
                    "namespace": namespace,
                    "labels": {PIPELINE_RUN_LABEL: here.ids["run_id"]},
                },
                "spec": {"entrypoint": "x", "templates": [{"name": "x", "suspend": {}}]},
                "status": {"phase": "Failed", "message": CANARY},
            }
        )
        assert name_of(made) == chosen
        await services.pipeline_runs._look(here.ids["run_id"])
    run = await here.ann.get(f"runs/{here.ids['run_id']}")
    assert (run["state"], "error" in run) == ("PENDING", False)


async def test_a_recurring_run_of_someone_who_left_the_team(here: Here) -> None:
    """A member leaves a team, and their recurring run goes on in the team's namespace."""
    services, admin = here.served.platform, here.served.admin
    team = (await admin.post("teams", {"name": "crew"}))["id"]
    await admin("PUT", f"teams/{team}/members/bob", {"role": "member"})
    experiment = await here.bob.post("experiments", {"display_name": "shared", "namespace": "team-crew"})
    body = {
        "display_name": "x",
        "pipeline_spec": SPEC,
        "experiment_id": experiment["experiment_id"],
        "trigger": {"periodic_schedule": {"interval_second": 60}},
    }
    identifier = (await here.bob.post("recurringruns", body))["recurring_run_id"]
    await services.namespaces.sync()
    await services.recurring_runs.play(datetime.now(UTC) + timedelta(seconds=61))
    first = await admin.get("/apis/v2beta1/runs?namespace=team-crew")
    assert len(first["runs"]) == 1
    (await admin("DELETE", f"teams/{team}/members/bob")).ok()
    await admin("DELETE", f"/apis/v2beta1/runs/{first['runs'][0]['run_id']}")
    await services.recurring_runs.play(datetime.now(UTC) + timedelta(seconds=130))
    assert (await admin.get("/apis/v2beta1/runs?namespace=team-crew")).get("runs") is None
    stopped = await admin.get(f"/apis/v2beta1/recurringruns/{identifier}")
    assert (stopped["status"], "error" in stopped) == ("DISABLED", True)


async def test_a_workflow_with_nodes_that_a_member_wrote(here: Here) -> None:
    """A member writes two nodes with one id into the Workflow of a run, to stop the states of all runs."""
    services = here.served.platform
    body = {"display_name": "x", "pipeline_spec": SPEC}
    ids = [(await who.post("runs", body))["run_id"] for who in (here.bob, here.ann)]
    rows = await services.database.read(lambda connection: connection.execute(select(pipeline_runs)).all())
    names = {row.id: (row.workflow, row.namespace) for row in rows}
    node = {"id": "x", "name": "x", "displayName": "x", "type": "Pod", "phase": "Failed"}
    ended = {"phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
    for run_id, nodes in zip(ids, ({"x": node, "y": node}, {}), strict=True):
        workflow = await services.cluster.get(WORKFLOW, *names[run_id])
        await services.cluster.update({**workflow, "status": {**ended, "nodes": nodes}})
    await services.pipeline_runs._find_lost()
    assert (await here.ann.get(f"runs/{ids[1]}"))["state"] == "SUCCEEDED"


async def test_a_run_that_was_retried_elsewhere_and_ended_again(here: Here) -> None:
    """A member retries a Workflow with another client, and it ends before the server looks at it again."""
    services = here.served.platform
    run_id = (await here.ann.post("runs", {"display_name": "x", "pipeline_spec": SPEC}))["run_id"]
    query = select(pipeline_runs.c.workflow).where(pipeline_runs.c.id == run_id)
    name = await services.database.read(lambda connection: connection.execute(query).scalar_one())
    for phase, second in (("Failed", 1), ("Succeeded", 2)):
        workflow = await services.cluster.get(WORKFLOW, name, "user-ann")
        status = {"phase": phase, "finishedAt": f"2026-01-01T00:00:0{second}Z", "nodes": {}}
        await services.cluster.update({**workflow, "status": status})
        await services.pipeline_runs._look(run_id)
        assert (await here.ann.get(f"runs/{run_id}"))["state"] == phase.upper()


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_a_schedule_at_the_end_of_the_calendar(here: Here, start: str) -> None:
    """A member creates a recurring run whose next time cannot be computed, to stop everybody's recurring runs."""
    trigger = {"cron_schedule": {"cron": "0 0 0 29 2 *", "start_time": start}}
    body = {"display_name": "x", "pipeline_spec": SPEC, "trigger": trigger}
    reply = await here.bob("POST", "recurringruns", body)
    assert (reply.status, "start_time: use a year from 1970" in reply.body["message"]) == (400, True)


async def test_recurring_runs_of_a_member_who_keeps_the_server_busy(here: Here) -> None:
    """A member has so many requests in progress that their recurring run must wait, to stop those of others."""
    services = here.served.platform
    body = {"display_name": "busy", "pipeline_spec": SPEC, "trigger": {"periodic_schedule": {"interval_second": 60}}}
    made = [(await who.post("recurringruns", body))["recurring_run_id"] for who in (here.bob, here.ann)]
    bob = (await here.served.admin.get("users/bob"))["id"]

    async def compile(user: str, source: RunSource) -> Object:
        if user == bob:
            raise TooManyRequests("8 of your requests are being checked", retry_after=1)
        return compile_run(source)

    later = datetime.now(UTC) + timedelta(seconds=61)
    await RecurringController(services.database, services.pipeline_runs, compile).play(later)
    runs = (await here.ann.get("runs", page_size=200))["runs"]
    assert [each["recurring_run_id"] for each in runs if each["display_name"] == "busy-1"] == [made[1]]
    assert (await here.bob.get(f"recurringruns/{made[0]}"))["status"] == "ENABLED"


async def test_recurring_runs_of_a_member_whose_pipelines_take_long(here: Here) -> None:
    """A member has recurring runs whose pipelines take as long to compile as they may, to stop those of others."""
    services = here.served.platform
    body = {"display_name": "slow", "pipeline_spec": SPEC, "trigger": {"periodic_schedule": {"interval_second": 60}}}
    for who in (here.bob, here.bob, here.ann):
        await who.post("recurringruns", body)
    bob = (await here.served.admin.get("users/bob"))["id"]
    is_done, began = asyncio.Event(), asyncio.Event()

    async def compile(user: str, source: RunSource) -> Object:
        if user == bob:
            began.set()
            await is_done.wait()
        return compile_run(source)

    controller = RecurringController(services.database, services.pipeline_runs, compile)
    playing = asyncio.create_task(controller.play(datetime.now(UTC) + timedelta(seconds=61)))
    await began.wait()
    async with asyncio.timeout(30):
        while "slow-1" not in str(await here.ann.get("runs", page_size=200)):
            pass
    assert "slow-1" not in str(await here.bob.get("runs", page_size=200))
    is_done.set()
    await asyncio.gather(playing, *controller._playing.values())


async def test_someone_who_left_the_team_changes_what_it_runs(here: Here) -> None:
    """A member leaves a team, and adds a version to a pipeline that others run there, or retries a run there."""
    services, admin = here.served.platform, here.served.admin
    team = (await admin.post("teams", {"name": "former"}))["id"]
    await admin("PUT", f"teams/{team}/members/bob", {"role": "member"})
    pipeline = (await here.bob.upload("pipelines/upload", YAML, name="shared", namespace="team-former")).ok()
    experiment = await here.bob.post("experiments", {"display_name": "shared", "namespace": "team-former"})
    body = {"display_name": "x", "pipeline_spec": SPEC, "experiment_id": experiment["experiment_id"]}
    run = (await here.bob.post("runs", body))["run_id"]
    await services.pipeline_runs._end(run, "it failed")
    (await admin("DELETE", f"teams/{team}/members/bob")).ok()
    upload = await here.bob.upload("pipelines/upload_version", YAML, name="new", pipelineid=pipeline["pipeline_id"])
    version = {"display_name": "new", "pipeline_spec": SPEC}
    made = await here.bob("POST", f"pipelines/{pipeline['pipeline_id']}/versions", version)
    retried = await here.bob("POST", f"runs/{run}:retry")
    assert (upload.status, made.status, retried.status) == (403, 403, 403)


async def test_a_new_team_with_the_name_of_a_deleted_one(here: Here) -> None:
    """A team is deleted, and a new one of the same name finds what the members of the old one have there."""
    admin = here.served.admin
    for who, api in (("ann", here.ann), ("bob", here.bob)):
        team = (await admin.post("teams", {"name": "again"}))["id"]
        await admin("PUT", f"teams/{team}/members/{who}", {"role": "member"})
        place = await here.served.platform.database.read(partial(namespace_of, team=team))
        await api.post("experiments", {"display_name": "same", "namespace": place})
        found = (await api.get("experiments", namespace=place))["experiments"]
        assert sorted(each["display_name"] for each in found) == ["Default", "same"]
        (await admin("DELETE", f"teams/{team}")).ok()


@pytest.mark.parametrize(
    "trigger",
    [
        {"periodic_schedule": {"interval_second": 1}},
        {"cron_schedule": {"cron": "* * * * * *"}},
        {"cron_schedule": {"cron": "7,8 0 9 * * *"}},
        {"cron_schedule": {"cron": "@every 1s"}},
    ],
)
async def test_a_schedule_that_is_due_every_second(here: Here, trigger: dict[str, Any]) -> None:
    """A member creates a recurring run that is due as often as the clock ticks."""
    reply = await here.bob("POST", "recurringruns", {"display_name": "x", "pipeline_spec": SPEC, "trigger": trigger})
    assert (reply.status, "use at least 2 seconds" in reply.body["message"]) == (400, True), reply.body


async def test_more_recurring_runs_than_a_member_may_start(here: Here) -> None:
    """A member has many recurring runs, which together start more runs than the budget allows."""
    services, carol = here.served.platform, await user_of(here.served, "carol")
    body = {"display_name": "c", "pipeline_spec": SPEC, "trigger": {"periodic_schedule": {"interval_second": 2}}}
    for _ in range(3):
        await carol.post("recurringruns", {**body, "max_concurrency": 2})

    async def compile(user: str, source: RunSource) -> Object:
        return compile_run(source)

    budgets = Budgets(member_recurring_runs_per_minute=4)
    controller = RecurringController(services.database, services.pipeline_runs, compile, budgets)
    later = datetime.now(UTC) + timedelta(seconds=30)
    for _ in range(2):
        await controller.play(later)
        assert (await carol.get("runs", page_size=200))["total_size"] == 4
    await controller.play(later + timedelta(seconds=60))
    assert (await carol.get("runs", page_size=200))["total_size"] == 6
