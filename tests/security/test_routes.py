"""Attacks on every route of the platform's API. The tables are made from the routes, so that a new route is covered."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import orjson
import pytest
import pytest_asyncio
from fastapi import APIRouter, FastAPI
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from sqlalchemy import Connection, update
from yarl import URL

from muster.kube.encryption import KEY_FILE, KeyRing
from muster.kube.objects import uid_of
from muster.platform import permissions
from muster.platform.database.database import Database, sqlite_url
from muster.platform.database.tables import module_versions, modules
from muster.platform.permissions import RULES, Relation, Rule
from muster.platform.records.common import Kind
from muster.platform.runs.controller import RunController
from muster.platform.users.tokens import issue_run_token
from muster.server.platform.app import OPEN_ROUTERS, ROUTERS, include
from muster.server.platform.route_rules import (
    ROUTE_RULES,
    check_complete,
    key_of,
    own,
    public,
    routes_document,
)
from muster.server.platform.security import may_be_own_name
from muster.server.proxy.directory import PORT_ANNOTATION
from muster.training.registry import training_kinds
from muster.workflows.kinds import workflow_kinds
from muster.workspaces.kinds import workspace_kinds
from tests.embedded.waiting import run_components
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client, Reply, Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUTES = {
    key_of(route): route
    for router in (*ROUTERS, *OPEN_ROUTERS)
    for route in router.routes
    if isinstance(route, APIRoute)
}
GUARDED = [key for key, rule in ROUTE_RULES.items() if not rule.is_public]
UNSAFE = [key for key in GUARDED if not key.startswith("GET ")]
WITH_BODY = [key for key, route in ROUTES.items() if route.body_field is not None]
STREAMS = {key for key, route in ROUTES.items() if (route.operation_id or "").startswith(("watch_", "follow_"))}
T = TypeVar("T")
CANARY = "canary-7f3a"
"""Is in everything of Ann's that other members must not see."""


def describe(attack: str) -> Any:
    """Names a case after its route: `A member ...: GET /runs/{run}`."""
    return lambda key: f"{attack}: {key}"


@dataclass(slots=True)
class Scene:
    served: Served
    ann: Client
    mallory: Client
    reader: Client
    """A token of Mallory's that may only read."""
    run_token: Client
    """The token of a run of Mallory's."""
    ids: Mapping[str, str]

    def path(self, key: str) -> str:
        """The path of a route, about things of Ann's."""
        path = key.split(" ")[1]
        ids = {**self.ids, "version": self.ids["version id"]} if path.startswith("/versions") else self.ids
        if path.startswith("/nodes"):
            ids = {**ids, "node": "machine"}
        return re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], path)


@pytest.fixture(scope="module")
def no_workflows() -> Iterator[None]:
    """Runs are stored, and nothing is created for them."""

    async def begin(controller: RunController, run_id: str) -> None:
        """Later."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunController, "begin", begin)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(
    tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path, no_workflows: None
) -> AsyncIterator[Scene]:
    home = tmp_path_factory.mktemp("routes")
    shutil.copy(migrated_sqlite, home / "platform.db")
    keys = KeyRing.load(home / KEY_FILE)
    database = await Database.open(sqlite_url(home / "platform.db"), keys=keys, survives_power_cut=False)
    try:
        kinds = (*training_kinds(), *workflow_kinds(), *workspace_kinds())
        async with (
            serving(database, home, kinds=kinds) as served,
            run_components(served.platform.jobs, served.platform.argo_workflows),
        ):
            yield await _prepare(served)
    finally:
        database.close()


async def _prepare(served: Served) -> Scene:
    """Ann has one of everything, shared with her team; Mallory is in another team."""
    admin = served.admin
    ann, mallory = await served.user("ann"), await served.user("mallory")
    (await ann("PATCH", "users/ann", {"email": f"{CANARY}@example.com"})).ok()
    ids = {"user_id": "ann", "machine": "machine", "node": "train", "output": "out", "version": "1"}
    for team, member, role in (("ml", "ann", "leader"), ("others", "mallory", "leader")):
        made = await admin.post("teams", {"name": team})
        (await admin("PUT", f"teams/{team}/members/{member}", {"role": role})).ok()
        ids |= {"team_id": made["id"]} if team == "ml" else {}
    ids["category"] = (await admin.post("categories", {"name": "general"}))["id"]
    ids["cluster"] = (await admin.post("clusters", {"name": "gpus", "sku": {"cpu": "1"}}))["id"]
    ids["root"] = (await admin.post("storage", {"name": "data", "path": "/data"}))["id"]
    secret = {"name": "API_TOKEN", "value": CANARY, "secret": True}
    document = graph(node("train", env=[secret]), parameters=[{"name": "text", "default": "x"}])
    made = await ann.post("workflows", {"name": "flow", "team": "ml", "version": {"document": document}})
    ids |= {"workflow": made["workflow_id"], "version id": made["version"]["id"]}
    run = await ann.post("runs", {"workflow": "flow", "parameters": {"text": CANARY}})
    ids["run"] = run["id"]
    job = _job("job")
    (made,) = await ann.post("jobs", {"manifest": orjson.dumps(job).decode(), "team": "ml"})
    ids |= {"namespace": made["namespace"], "kind": made["word"], "name": made["name"], "pod": "job-worker-0"}
    await ann.post("volumes", {"name": "job", "team": "ml"})  # it has the name of the job, because paths have one
    await ann.post("notebooks", {"name": "job", "team": "ml", "env": {"A": CANARY}})
    await ann.post("tensorboards", {"name": "job", "team": "ml", "logs": [{"name": CANARY, "path": "pvc://job/logs"}]})
    workflow = await served.platform.cluster.create(_workflow("job", made["namespace"]))
    spec = {"schedules": ["@daily"], "workflowSpec": workflow["spec"]}
    cron = {"kind": "CronWorkflow", "metadata": {"name": "job", "namespace": made["namespace"]}, "spec": spec}
    await served.platform.cluster.create({"apiVersion": workflow["apiVersion"], **cron})
    lab = {"name": "lab", "namespace": made["namespace"], "annotations": {PORT_ANNOTATION: "1"}}
    spec = {"containers": [{"name": "main", "image": "python:3.12"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": lab, "spec": spec}
    ids["uid"] = uid_of(await served.platform.cluster.create(pod))
    container = {"name": CANARY, "image": "python:3.12", "command": ["true"], "env": {"A": CANARY}, "team": "ml"}
    ids["job"] = (await ann.post("dispatch/jobs", container))["id"]
    source = {"git_url": "https://git.example/x.git", "git_ref": "main", "env": [secret]}
    module = {"name": "mine", "category": "general", "description": CANARY, "team": "ml", **source}
    ids["module"] = (await ann.post("modules", module))["id"]

    def built(connection: Connection) -> None:
        connection.execute(update(module_versions).values(state="private"))
        connection.execute(update(modules).values(state="private"))

    await served.platform.database.write(built)
    ids["review"] = (await ann.post("modules/mine/versions/1/review", {"message": CANARY}))["id"]
    hook = {"name": CANARY, "url": f"https://hooks.example/{CANARY}", "secret": f"{CANARY}-{CANARY}", "team": "ml"}
    ids["webhook"] = (await ann.post("webhooks", hook))["id"]
    ids["delivery"] = (await ann.post(f"webhooks/{ids['webhook']}/test"))["id"]
    ids["token_id"] = (await ann.post("tokens", {"name": CANARY}))["token"]["id"]
    ids["session_id"] = (await ann.get("sessions"))["items"][0]["id"]
    reader = await mallory.post("tokens", {"name": "reader", "scopes": ["read"]})
    await mallory.post("workflows", {"name": "plain", "version": {"document": graph(node("a"))}})
    theirs = await mallory.post("runs", {"workflow": "plain"})
    user = (await mallory.get("session"))["user"]["id"]
    token = await served.platform.database.write(lambda connection: issue_run_token(connection, user, theirs["id"]))
    return Scene(served, ann, mallory, served.client(reader["secret"]), served.client(token), ids)


def _job(name: str) -> dict[str, Any]:
    container = {
        "name": "pytorch",
        "image": "python:3.12",
        "command": ["true"],
        "env": [{"name": "A", "value": CANARY}],
    }
    replicas = {"Worker": {"replicas": 1, "template": {"spec": {"containers": [container]}}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": replicas},
    }


def _workflow(name: str, namespace: str) -> dict[str, Any]:
    container = {"image": "python:3.12", "command": ["echo", CANARY]}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"note": CANARY}},
        "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": container}]},
    }


async def ask(client: Client, key: str, path: str, body: Any = None, **more: Any) -> Reply:
    """Of a stream, only its beginning."""
    method = key.split(" ")[0]
    if key in STREAMS:
        async with (
            aiohttp.ClientSession(cookie_jar=client.jar, headers=client._headers) as session,
            session.get(f"{client.url}/api/v1{path}", **more) as response,
        ):
            if response.status == 200:
                return Reply(200, (await response.content.readany()).decode(), response.headers)
            return Reply(response.status, orjson.loads(await response.read()), response.headers)
    if body is None and ROUTES[key].body_field is not None:
        body = {}
    return await client(method, f"/api/v1{path}", body, **more)


def rules_of(key: str) -> list[Rule]:
    found = ROUTE_RULES[key]
    return [RULES[found.kind, action] for action in found.actions] if found.kind is not None else []


async def test_strangers(scene: Scene) -> None:
    """A stranger without a token uses every route"""
    for key in GUARDED:
        await _strangers(scene, key)


async def _strangers(scene: Scene, key: str) -> None:
    reply = await ask(scene.served.client(), key, scene.path(key))
    assert reply.refused(401)["code"] == "login.needed"
    assert CANARY not in str(reply.body)


ABOUT_ONE = [key for key in GUARDED if "{" in key and rules_of(key)]
FOREIGN = [key for key in ABOUT_ONE if not any(rule.who & Relation.ANYBODY for rule in rules_of(key))]
OPEN = [key for key in GUARDED if key.startswith("GET ") and key not in FOREIGN]


_OWN_ID = r"/(mine|[a-z0-9]{26}|[a-z0-9]{16}|job|[0-9a-f]{8}-[0-9a-f-]{27})(?=/|$)"
"""The part of a path that names something of Ann's."""


@pytest.mark.parametrize("key", FOREIGN, ids=describe("A member uses the id of another member"))
async def test_other_members_ids(scene: Scene, key: str) -> None:
    """Whether it exists cannot be told from the answer, unless all users may see that it does."""
    path = scene.path(key)
    reply = await ask(scene.mallory, key, path, _body(key))
    assert reply.status in (403, 404), reply.body
    assert CANARY not in str(reply.body)
    kind = ROUTE_RULES[key].kind
    if kind in HIDDEN_KINDS:
        missing = re.sub(_OWN_ID, "/missing", path, count=1)
        assert missing != path
        unknown = await ask(scene.mallory, key, missing, _body(key))
        assert (unknown.status, unknown.body.get("code")) == (reply.status, reply.body.get("code"))


async def test_nothing_private_in_what_all_may_read(scene: Scene) -> None:
    """A member finds what is private in answers that all may read, of every route"""
    for key in OPEN:
        await _nothing_private_in_what_all_may_read(scene, key)


async def _nothing_private_in_what_all_may_read(scene: Scene, key: str) -> None:
    queries = {"GET /metrics": f"?of=run:{scene.ids['run']}", "GET /schedules/times": "?schedule=@daily"}
    query = "?to=1" if key.endswith("/diff") else queries.get(key, "")
    reply = await ask(scene.mallory, key, scene.path(key) + query)
    assert reply.status in (200, 404), reply.body
    assert CANARY not in str(reply.body)
    assert base64.b64encode(CANARY.encode()).decode() not in str(reply.body)


async def test_sessions_of_others(scene: Scene) -> None:
    """A member ends the session of another member"""
    path = f"sessions/{scene.ids['session_id']}"
    found = (await scene.mallory("DELETE", path)).refused(404)
    unknown = (await scene.mallory("DELETE", "sessions/missing")).refused(404)
    assert found["code"] == unknown["code"]
    await scene.ann.get("session")


FOREIGN_TEAM: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a new workflow": ("POST", "workflows", {"name": "w2", "team": "ml", "version": {"document": graph(node("a"))}}),
    "a run": ("POST", "runs", {"workflow": "plain", "team": "ml"}),
    "a module": (
        "POST",
        "modules",
        {"name": "m2", "category": "general", "git_url": "https://git.example/x.git", "git_ref": "main", "team": "ml"},
    ),
    "a job": ("POST", "jobs", {"manifest": "JOB", "team": "ml"}),
    "a schedule": ("POST", "schedules", {"manifest": "WORKFLOW", "name": "x", "schedules": ["@daily"], "team": "ml"}),
    "a copy of a version": (
        "POST",
        "workflows/plain/versions/1/copy",
        {"workflow": {"name": "w3", "team": "ml"}},
    ),
}


@pytest.mark.parametrize("what", FOREIGN_TEAM, ids=lambda what: f"A member puts {what} into the team of others")
async def test_foreign_teams(scene: Scene, what: str) -> None:
    method, path, body = FOREIGN_TEAM[what]
    if path == "jobs":
        body = {**body, "manifest": orjson.dumps(_job("foreign")).decode()}
    if path == "schedules":
        body = {**body, "manifest": orjson.dumps(_workflow("foreign", "")).decode()}
    reply = await scene.mallory(method, path, body)
    assert reply.refused(403)["code"] == "team.foreign"


async def test_version_into_the_workflow_of_another(scene: Scene) -> None:
    """A member copies a version into the workflow of another member"""
    source = await scene.mallory.post("workflows", {"name": "own", "version": {"document": graph(node("a"))}})
    reply = await scene.mallory("POST", f"workflows/{source['workflow_id']}/versions/1/copy", {"into": "flow"})
    reply.refused(403)


async def test_private_module_in_a_graph(scene: Scene) -> None:
    """A member uses the private module of another member in a graph"""
    use = {"name": "a", "kind": "module", "module": {"name": "mine", "version": "1"}}
    reply = await scene.mallory("POST", "workflows", {"name": "thief", "version": {"document": graph(use)}})
    assert reply.status == 422, reply.body
    assert CANARY not in str(reply.body)


async def test_copied_secrets(scene: Scene) -> None:
    """A member copies the version of another member and reads its secrets in the copy"""
    copied = await scene.mallory("POST", "workflows/flow/versions/1/copy", {"workflow": {"name": "copied"}})
    if copied.status == 201:
        shown = await scene.mallory.get("workflows/copied/versions/latest")
        assert CANARY not in str(shown)
        assert CANARY not in str(await scene.mallory.get("workflows/copied/versions/latest/manifest"))
    else:
        assert copied.refused(422)


async def test_parameters_through_a_copied_run(scene: Scene) -> None:
    """A member copies the run of another member to read its parameters"""
    (await scene.mallory("POST", f"runs/{scene.ids['run']}/copy", {})).refused(403)
    shown = await scene.mallory.get(f"runs/{scene.ids['run']}")
    assert shown["parameters"] is None


async def test_stale_precondition(scene: Scene) -> None:
    """A client overwrites a change that it has not seen, with an ETag that was made up"""
    for etag, status in (('"x-999999"', 412), ('"nonsense"', 400), ('"-1"', 412), ('W/"a-b-c"', 400)):
        reply = await scene.ann("PATCH", "workflows/flow", {"description": "x"}, headers={"If-Match": etag})
        assert reply.status == status, (etag, reply.body)


WRITES = [key for key in GUARDED if any(rule.scope != "read" for rule in rules_of(key))]


async def test_read_only_tokens(scene: Scene) -> None:
    """A token that may only read makes a change, on every route"""
    for key in WRITES:
        await _read_only_tokens(scene, key)


async def _read_only_tokens(scene: Scene, key: str) -> None:
    reply = await ask(scene.reader, key, scene.path(key), _body(key))
    assert reply.refused(403)["code"] in ("permission.scope", "permission.only")


NOT_FOR_RUNS = [
    key
    for key in GUARDED
    if (kind := ROUTE_RULES[key].kind) is not None
    and not any((kind, action) in permissions.RUN_TOKEN for action in ROUTE_RULES[key].actions)
]


async def test_run_tokens(scene: Scene) -> None:
    """The token of a run does what a run need not do, on every route"""
    for key in NOT_FOR_RUNS:
        await _run_tokens(scene, key)


async def _run_tokens(scene: Scene, key: str) -> None:
    assert (await ask(scene.run_token, key, scene.path(key), _body(key))).refused(403)


async def test_other_sites(scene: Scene) -> None:
    """Another site makes the browser of a member send a change, on every route"""
    for key in UNSAFE:
        await _other_sites(scene, key)


async def _other_sites(scene: Scene, key: str) -> None:
    path = scene.path(key)
    no_token = await ask(scene.ann, key, path, _body(key), csrf=False)
    assert no_token.refused(403)["code"] == "login.csrf"
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = await ask(scene.ann, key, path, _body(key), headers=headers)
        assert refused.refused(403)["code"] == "request.site"


READ_ONLY_FIELDS = ("id", "owner", "owner_id", "admin", "state", "created", "revision", "user_id", "password_hash")


async def test_mass_assignment(scene: Scene) -> None:
    """A client sets fields that are not its to set (owner, admin, state, ...), on every route"""
    for key in WITH_BODY:
        await _mass_assignment(scene, key)


async def _mass_assignment(scene: Scene, key: str) -> None:
    allowed = ROUTES[key].body_field
    assert allowed is not None
    known = getattr(allowed.field_info.annotation, "model_fields", ())
    fields = [name for name in READ_ONLY_FIELDS if name not in known]
    assert fields
    client = scene.served.admin
    reply = await ask(client, key, scene.path(key), {**_body(key), **dict.fromkeys(fields, "x")})
    if reply.status == 401:  # a token cannot do this
        return
    assert {error["field"] for error in reply.refused(422)["errors"]} >= set(fields)


async def test_unknown_parameters(scene: Scene) -> None:
    """A client sends query parameters that do not exist, on every route"""
    for key in GUARDED:
        await _unknown_parameters(scene, key)


async def _unknown_parameters(scene: Scene, key: str) -> None:
    reply = await ask(scene.served.admin, key, f"{scene.path(key)}?owner_id%5B%5D=x", _body(key))
    assert reply.status in (422, 401), reply.body


def routes_with(parameter: str) -> list[str]:
    return [key for key, route in ROUTES.items() if parameter in {p.name for p in get_flat_params(route.dependant)}]


def some_of(key: str, cases: list[T]) -> list[T]:
    """A few cases for each route, and every case for some."""
    begin = list(ROUTES).index(key)
    return [cases[(begin * 3 + number) % len(cases)] for number in range(3)]


LISTS = routes_with("cursor")
CURSORS = {
    "not base64": "!!!",
    "not JSON": base64.urlsafe_b64encode(b"{").decode(),
    "another list's order": base64.urlsafe_b64encode(orjson.dumps(["password", "a", "b"])).decode(),
    "a condition": base64.urlsafe_b64encode(orjson.dumps(["name", "' OR 1=1 --", "x"])).decode(),
    "an object": base64.urlsafe_b64encode(orjson.dumps(["name", {"at": 10**18}, {"$ne": ""}])).decode(),
    "a list": base64.urlsafe_b64encode(orjson.dumps(["name", ["a"], ["b"]])).decode(),
    "NUL": base64.urlsafe_b64encode(orjson.dumps(["name", "\0", "\0"])).decode(),
    "another type": base64.urlsafe_b64encode(orjson.dumps(["-created", "x", "y"])).decode(),
    "a large number": base64.urlsafe_b64encode(orjson.dumps(["name", 2**64 - 1, "y"])).decode(),
    "long": "A" * 6_000,
}


async def test_cursors(scene: Scene) -> None:
    """A member forges the cursor of every list"""
    for key in LISTS:
        await _cursors(scene, key)


async def _cursors(scene: Scene, key: str) -> None:
    for what, cursor in some_of(key, list(CURSORS.items())):
        reply = await ask(scene.mallory, key, f"{scene.path(key)}?cursor={cursor}")
        assert reply.status in (200, 403, 404, 414, 422, 431, 400), (what, reply.body)
        assert CANARY not in str(reply.body), what


async def test_sort_and_limit(scene: Scene) -> None:
    """A member sorts every list by what is not shown, or asks for too much"""
    for key in LISTS:
        await _sort_and_limit(scene, key)


async def _sort_and_limit(scene: Scene, key: str) -> None:
    queries = ["sort=password", "sort=hash", "sort=-created;drop", "limit=0", "limit=501", "limit=-1", "limit=1e9"]
    for query in some_of(key, queries):
        reply = await ask(scene.served.admin, key, f"{scene.path(key)}?{query}")
        assert reply.status == 422, (query, reply.body)


SEARCHES = routes_with("q")


async def test_searches(scene: Scene) -> None:
    """A member searches every list with wildcards, quotes and long texts"""
    for key in SEARCHES:
        await _searches(scene, key)


async def _searches(scene: Scene, key: str) -> None:
    for word in some_of(key, ["%25", "_", "%25%25%25", "'", "%22", "%5C", "%00"]):
        reply = await ask(scene.mallory, key, f"{scene.path(key)}?q=zzz{word}zzz")
        assert reply.status in (200, 400, 422), reply.body
        if reply.status == 200:
            assert reply.body["items"] == []
    long = await ask(scene.mallory, key, f"{scene.path(key)}?q={'a+' * 5000}")
    assert long.refused(422)["errors"][0]["code"] == "field.long"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PROPFIND"], ids=describe("An unusual method"))
async def test_methods(scene: Scene, method: str) -> None:
    for key in GUARDED:
        reply = await scene.mallory(method, f"/api/v1{scene.path(key)}")
        assert reply.status in (405, 403, 404), (key, reply.status)
        assert CANARY not in str(reply.body)


@pytest.mark.parametrize(
    "header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"], ids=describe("A GET that says it is a")
)
async def test_method_override(scene: Scene, header: str) -> None:
    token = scene.ids["token_id"]
    await scene.ann("GET", "tokens", headers={header: "DELETE"})
    await scene.ann("POST", f"/api/v1/tokens/{token}", headers={header: "DELETE"})
    listed = await scene.ann.get("tokens")
    assert token in [each["id"] for each in listed["items"]]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1//runs/{run}/nodes/train",
        "/api//v1/runs/{run}/nodes/train",
        "//api/v1/runs/{run}/nodes/train",
        "/api/v1/./runs/{run}/nodes/train",
        "/api/v1/x/%2e%2e/runs/{run}/nodes/train",
        "/api/v1/runs/{run};a=b/nodes/train",
        "/api/v1/runs/{run}%2fnodes/train",
        "/api/v1/runs/{run}/nodes/train/",
        "/API/v1/runs/{run}/nodes/train",
        "/api/v1/runs/{run}/nodes/train%00",
        "/api/v1/health/../runs/{run}/nodes/train",
        "/assets/..%2f..%2fapi/v1/runs/{run}",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..;/etc/passwd",
        "/assets/%2e%2e/index.html.gz",
    ],
    ids=describe("A path that is written so that a rule may not match"),
)
async def test_paths(scene: Scene, path: str) -> None:
    for client in (scene.served.client(), scene.mallory):
        async with aiohttp.ClientSession(cookie_jar=client.jar) as session:
            address = URL(f"{client.url}{path.format(run=scene.ids['run'])}", encoded=True)
            async with session.get(address, allow_redirects=False) as response:
                text = await response.text()
                assert response.status in (400, 401, 403, 404, 503, 200), text
                assert "root:" not in text
                assert CANARY not in text
                if response.status == 200:
                    assert "<html" in text, "nothing but the page of the UI"


async def test_headers(scene: Scene) -> None:
    """A proxy, a browser or another site keeps or reads what is private"""
    for key in [key for key in GUARDED if key.startswith("GET ")]:
        headers = {"Origin": "https://evil.example"} if key not in STREAMS else {}
        reply = await ask(scene.ann, key, scene.path(key), headers=headers) if headers else None
        if reply is None:
            continue
        assert "no-store" in reply.headers["Cache-Control"], key
        assert not [name for name in reply.headers if name.lower().startswith("access-control")], key
        assert reply.headers["X-Content-Type-Options"] == "nosniff", key


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True), ("localhost", True), ("mybox", True), ("mybox.local", True), ("muster.example", True),
        ("::1", True), ("", True), ("evil.example", False), ("127.0.0.1.evil.example", False),
        ("muster.example.evil.example", False), ("localhost.evil.example", False),
    ],
    ids=lambda value: f"A page lets its own name point to this server: {value}" if isinstance(value, str) else "",
)  # fmt: skip
async def test_rebinding(host: str, ours: bool) -> None:
    assert may_be_own_name(host, "muster.example") is ours


async def test_rebound_login(scene: Scene) -> None:
    """A page whose name points to this server guesses passwords from the browser of a user"""
    headers = {"Host": "evil.example", "Origin": "http://evil.example"}
    reply = await scene.served.client()("POST", "session", {"name": "ann", "password": "x"}, headers=headers)
    assert reply.refused(403)["code"] == "request.host"


HIDDEN_KINDS = {kind for (kind, action), rule in RULES.items() if action == "view" and not rule.who & Relation.ANYBODY}
"""Members cannot even see things of these kinds that belong to others."""


class Recorded(dict[tuple[Kind, str], Rule]):
    """The permissions table, which remembers the rules that were looked up."""

    def __init__(self) -> None:
        super().__init__(RULES)
        self.asked: set[tuple[str, str]] = set()

    def __getitem__(self, key: tuple[Kind, str]) -> Rule:
        self.asked.add(key)
        return super().__getitem__(key)


@pytest.mark.parametrize(
    "key",
    FOREIGN,
    ids=describe("A route forgets to check its rule for the thing that it is about"),
)
async def test_rules_are_checked(scene: Scene, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function behind a route must look up the rule that the table of routes names for it."""
    monkeypatch.setattr("muster.server.platform.route_rules.may_at_all", lambda *_: permissions.AccessDecision(True))
    rule = ROUTE_RULES[key]
    recorded = Recorded()
    monkeypatch.setattr(permissions, "RULES", recorded)
    await ask(scene.mallory, key, scene.path(key), _body(key))
    refused_before = {(rule.kind, "view")} if rule.kind in HIDDEN_KINDS else set()
    assert ({(rule.kind, action) for action in rule.actions} | refused_before) & recorded.asked


async def test_a_route_without_a_rule() -> None:
    """A route without a rule is added: the server does not start"""
    router = APIRouter()

    @router.get("/forgotten")
    async def forgotten() -> None: ...

    with pytest.raises(ValueError, match='"GET /forgotten" has no rule'):
        include(FastAPI(), router)
    with pytest.raises(ValueError, match='"GET /forgotten" is public'):
        include(FastAPI(), router, rules={"GET /forgotten": public("by mistake")})
    with pytest.raises(ValueError, match='"GET /forgotten" is not public'):
        include(FastAPI(), router, rules={"GET /forgotten": own("")}, needs_identity=False)
    with pytest.raises(ValueError, match="rules without a route: GET /audit"):
        check_complete([router for router in (*ROUTERS, *OPEN_ROUTERS) if router.prefix != "/audit"])
    assert ROUTES.keys() == ROUTE_RULES.keys()


async def test_the_table_in_the_docs() -> None:
    """The documented table of routes says something else than the code"""
    assert Path("docs/routes.md").read_text() == routes_document()


_BODIES: Mapping[str, dict[str, Any]] = {
    "POST /notebooks": {"name": "x"},
    "PATCH /notebooks/{namespace}/{name}": {"image": "minimal"},
    "POST /tensorboards": {"job": "team-ml/pytorchjob/job"},
    "PATCH /tensorboards/{namespace}/{name}": {"logs": [{"path": "pvc://job"}]},
    "POST /volumes": {"name": "x"},
    "POST /volumes/{namespace}/{name}/files/rename": {"path": "a", "to": "b"},
    "POST /volumes/{namespace}/{name}/folders": {"path": "a"},
    "POST /runs": {"workflow": "flow"},
    "PATCH /runs/{run}": {"name": "other"},
    "PATCH /workflows/{workflow}": {"description": "other"},
    "POST /workflows": {"name": "other", "version": {"document": graph(node("a"))}},
    "POST /workflows/{workflow}/versions": {"document": graph(node("a"))},
    "POST /workflows/{workflow}/versions/{version}/copy": {"name": "copied"},
    "POST /jobs/validate": {"manifest": "{}"},
    "POST /jobs": {"manifest": "{}"},
    "POST /dispatch/jobs": {"name": "x", "image": "python:3.12", "command": ["true"]},
    "PATCH /dispatch/jobs/{job}": {"priority": 1},
    "POST /dispatch/jobs/{job}/resolve": {"how": "fail"},
    "POST /modules": {"name": "m", "category": "general", "git_url": "https://git.example/x.git", "git_ref": "main"},
    "PATCH /modules/{module}": {"description": "other"},
    "POST /reviews/{review}/reject": {"reason": "no"},
    "POST /password": {"old": "x", "new": "another good passphrase"},
    "POST /users": {"name": "other"},
    "PATCH /users/{user_id}": {"display_name": "other"},
    "POST /teams": {"name": "other"},
    "PATCH /teams/{team_id}": {"description": "other"},
    "PUT /teams/{team_id}/members/{user_id}": {"role": "member"},
    "POST /tokens": {"name": "other"},
    "POST /graphs/check": {"document": {}},
    "POST /graphs/import": {"manifest": "{}"},
    "POST /categories": {"name": "other"},
    "PATCH /categories/{category}": {"description": "other"},
    "POST /clusters": {"name": "other", "sku": {"cpu": "1"}},
    "PATCH /clusters/{cluster}": {"description": "other"},
    "POST /storage": {"name": "other", "path": "/other"},
    "PATCH /storage/{root}": {"description": "other"},
    "POST /session": {"name": "nobody", "password": "x"},
    "POST /link": {"secret": "x"},
    "POST /link/use": {"secret": "x", "password": "another good passphrase"},
}


def _body(key: str) -> dict[str, Any]:
    return dict(_BODIES.get(key, {}))
