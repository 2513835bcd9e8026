"""Jobs of the dispatcher and MLP Cooker's API against members: the server's keys, jobs of others, and what a request or
a container can say to stop the dispatcher."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from muster.dispatch.cluster import _lines
from muster.dispatch.kubernetes_objects import JOB_LABEL
from muster.kube.builtin import NODE, POD
from muster.kube.objects import name_of, namespace_of
from muster.platform.database.database import Database, sqlite_url
from muster.server.dispatch import service
from muster.server.dispatch.progress import progress_token
from muster.server.dispatch.settings import read_dispatch_settings
from muster.server.platform.route_rules import COOKER_RULES
from muster.training.registry import training_kinds
from muster.workflows.artifacts.single_file import find_single_file
from tests.dispatch.aihc_server import AK, SK, AihcServer
from tests.server.platform.served import Client, Served, serving
from tests.server.platform.whole import PATIENCE, events, eventually
from tests.workflows.artifacts.test_single_file import header

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOB: dict[str, Any] = {"name": "train", "image": "python:3.11", "command": ["python", "train.py"]}
CPU = {"name": "cpu", "quantity": 1}
TASK: dict[str, Any] = {
    "name": "my-job", "command": "true", "jobSpec": {"image": "python:3.11", "resources": [CPU]},
}  # fmt: skip
NODE_OBJECT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node"},
    "status": {
        "allocatable": {"cpu": "1000", "memory": "1000Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
DEEP = b"[" * 5000 + b"]" * 5000
_LARGEST_ANSWER = 100_000


@dataclass(frozen=True, slots=True)
class Here:
    served: Served
    ann: Client
    """A script of a member."""
    bob: Client
    ann_token: str
    bob_token: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Here]:
    """A platform whose dispatcher works, on a cluster where nothing runs the Pods: the tests say what they did."""
    home = tmp_path_factory.mktemp("dispatch")
    database = await Database.open(sqlite_url(home / "platform.db"), survives_power_cut=False)
    async with serving(database, home / "data", kinds=training_kinds()) as served:
        await served.platform.cluster.create(NODE_OBJECT)
        await served.platform.cluster.patch(NODE, "node", "", {"status": NODE_OBJECT["status"]}, subresource="status")
        working = asyncio.create_task(served.platform.dispatch.run())
        ann, bob = [await new_token(await served.user(name)) for name in ("ann", "bob")]
        yield Here(served, served.client(ann), served.client(bob), ann, bob)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    await asyncio.to_thread(database.close)


async def new_token(client: Client) -> str:
    return str((await client.post("tokens", {"name": "script"}))["secret"])


async def ask(served: Served, token: str, method: str, path: str, body: Any = None) -> tuple[Any, int]:
    """Returns the answer of MLP Cooker's API, and its size."""
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    data = None if raw is None else io.BytesIO(raw)
    async with (
        aiohttp.ClientSession(headers={"X-Auth-Token": token}) as session,
        session.request(method, served.url + path, data=data) as response,
    ):
        text = await response.read()
        assert response.status == 200
        return json.loads(text), len(text)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _create(attack: str, **more: Any) -> Any:
    return pytest.param("POST", "/api/jobs/create", {"taskParams": {**TASK, **more}}, id=attack)


def _spec(**more: Any) -> dict[str, Any]:
    return {**TASK["jobSpec"], **more}


def _source(**more: Any) -> dict[str, Any]:
    return {"type": "emptydir", "mountPath": "/x", **more}


COOKER_REQUESTS: list[Any] = [
    pytest.param("GET", f"/api/jobs?pageNumber=000000000001{'9' * 30}", None, id="A page beyond all databases"),
    pytest.param("GET", f"/api/jobs?pageNumber=000000000001{'9' * 5000}", None, id="A page number of 5000 digits"),
    pytest.param("POST", "/api/jobs", {"pageNumber": 1e300, "pageSize": True}, id="A page number of 300 digits"),
    pytest.param("POST", "/api/jobs/create", b'{"taskParams": ' + DEEP + b"}", id="A body of 5000 lists"),
    pytest.param(
        "POST", "/api/jobs/create", {"taskParams": {"a": 1}, "team": [], "key": {}}, id="A team that is a list"
    ),
    _create("A timeout of 5000 digits", timeout="9" * 5000),
    _create("A number of machines with 5000 digits", jobSpec=_spec(replicas="1" * 5000)),
    _create("An amount of 5000 digits", jobSpec=_spec(resources=[{"name": "cpu", "quantity": "9" * 5000}])),
    _create("Options of a data source in 260 lists", datasources=[_source(options={"a": nested(260)})]),
    _create(
        "Options of a data source that could be stored but not shown", datasources=[_source(options={"a": nested(245)})]
    ),
    _create("100,000 unknown fields, each with its message", **{f"x{number}": 1 for number in range(100_000)}),
    _create(
        "150 unknown fields in each of 1000 data sources",
        datasources=[_source(**{f"k{number}": 1 for number in range(150)}) for _ in range(1000)],
    ),
    _create(
        "1000 long mount paths, each compared with all others",
        datasources=[_source(mountPath=f"/{number}{'/' * 1500}") for number in range(1000)],
    ),
    _create("The root of the machine as a data source", datasources=[_source(type="hostpath", sourcePath="/")]),
    _create("The network of the machine", jobSpec=_spec(hostNetwork=True)),
    _create("A label that the platform sets", labels={"muster.dev/owner": "bob"}),
    _create("Wrong types everywhere", jobType=[], queue=7, priority={}, datasources={"a": 1}, labels=3),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("method", "path", "body"), COOKER_REQUESTS)
async def test_a_request_to_mlp_cooker(here: Here, method: str, path: str, body: Any) -> None:
    """A request to MLP Cooker's API is refused in a short answer"""
    said, size = await ask(here.served, here.ann_token, method, path, body)
    assert said["success"] is False
    assert 400 <= said["details"]["status"] < 500, said
    assert size < _LARGEST_ANSWER


def _manifest(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "busybox"}], **(spec or {})}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "x"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}}},
    }
    return {"name": "x", "manifest": json.dumps({**job, **more})}


def _post(attack: str, body: Any) -> Any:
    return pytest.param("POST", "dispatch/jobs", body, id=attack)


DISPATCH_REQUESTS: list[Any] = [
    pytest.param("POST", "dispatch/jobs/x/cancel?grace=nan", None, id="A grace period that is no number"),
    pytest.param("GET", f"dispatch/jobs/x/log?tail={'9' * 5000}", None, id="A number of lines with 5000 digits"),
    _post("A NUL character in a variable", {**JOB, "env": {"A": "\0"}}),
    _post("The name of a variable with an equals sign", {**JOB, "env": {"a=b": "x"}}),
    _post("A share of a GPU", {**JOB, "resources": {"gpu": 1e-300}}),
    _post("Memory beyond all machines", {**JOB, "resources": {"memory": "9" * 40}}),
    _post("A folder of the machine", {**JOB, "mounts": [{"path": "/x", "source": "/etc"}]}),
    _post(
        "A folder above its claim", {**JOB, "mounts": [{"path": "/x", "source": "../y", "kind": "claim", "name": "a"}]}
    ),
    _post("A team of others", {**JOB, "team": "others"}),
    _post("A manifest for the namespace of the server", _manifest(metadata={"name": "x", "namespace": "kube-system"})),
    _post(
        "A manifest with an annotation of the agent", _manifest(metadata={"annotations": {"muster.dev/runtime": "x"}})
    ),
    _post("A manifest with the machine's processes", _manifest({"hostPID": True})),
    _post("A manifest with more rights", _manifest({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}})),
    _post("A manifest of a Secret", _manifest(apiVersion="v1", kind="Secret")),
    _post("A manifest of 100,000 lists", {"name": "x", "manifest": "[" * 100_000}),
]


@pytest.mark.parametrize(("method", "path", "body"), DISPATCH_REQUESTS)
async def test_a_request_to_dispatch(here: Here, method: str, path: str, body: Any) -> None:
    """A request to dispatch is refused, as it would be for kubectl"""
    answer = await here.ann(method, path, body)
    assert 400 <= answer.status < 500, answer.body


PROGRESS: list[Any] = [
    pytest.param(b'{"progress": NaN}', id="Progress that is no number"),
    pytest.param(b'{"metrics": {"loss": 1e400}}', id="A metric that is infinite"),
    pytest.param(b'{"metrics": {"a\\u0000": 1}}', id="The name of a metric with a NUL character"),
    pytest.param(b'{"message": "\\u0000"}', id="A message with a NUL character"),
    pytest.param(b'{"message": "\\ud800"}', id="A message with half a character"),
    pytest.param(json.dumps({"message": "x" * 1000}).encode(), id="A message of 1000 characters"),
    pytest.param(json.dumps({"metrics": {f"m{n}": n for n in range(1000)}}).encode(), id="1000 metrics"),
    pytest.param(b'{"progress": ' + DEEP + b"}", id="Progress of 5000 lists"),
    pytest.param(b'{"state": "succeeded"}', id="The state of the job"),
]


@pytest.mark.parametrize("body", PROGRESS)
async def test_progress_of_a_program(here: Here, body: bytes) -> None:
    """The program of a job reports something that is no progress"""
    job = (await here.ann.post("dispatch/jobs", JOB))["id"]
    stored = await here.served.platform.dispatch.find(job)
    assert stored is not None
    token = progress_token(stored, here.served.platform.dispatch._progress_key).reveal()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    url = f"{here.served.url}/api/v1/dispatch/jobs/{job}/progress"
    async with aiohttp.ClientSession(headers=headers) as session, session.post(url, data=io.BytesIO(body)) as response:
        assert response.status in (400, 401, 422), await response.text()


@pytest.mark.parametrize("token", ["", "mjp_", "mjp_" + "0" * 64, "mjp_\xe9", "x" * 5000])
async def test_a_guessed_token_of_a_job(here: Here, token: str) -> None:
    """A member reports the progress of another member's job with a token that they made up"""
    job = (await here.ann.post("dispatch/jobs", JOB))["id"]
    (await here.served.client(token)("POST", f"dispatch/jobs/{job}/progress", {"progress": 1})).refused(401)


@pytest.mark.parametrize("path", ["dispatch/jobs", "runs"])
async def test_a_time_without_a_zone(here: Here, path: str) -> None:
    """A list is filtered by a time without a time zone"""
    for time in ("2020-01-01T00:00:00", "2020-01-01", "0001-01-01T00:00:00%2B14:00"):
        assert (await here.ann("GET", f"{path}?since={time}&until={time}")).status < 500


async def test_jobs_of_another_member(here: Here) -> None:
    """A member tries every route of dispatch and of MLP Cooker's API with the job of another member"""
    job = (await here.ann.post("dispatch/jobs", JOB))["id"]
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/events", None),
        ("GET", "/log", None),
        ("GET", "/log/events", None),
        ("PATCH", "", {"priority": 100}),
        ("POST", "/cancel", None),
        ("POST", "/restart", None),
        ("POST", "/resolve", {"how": "adopt", "external_id": "pods/user-ann/x/y"}),
        ("DELETE", "", None),
    ):
        (await here.bob(method, f"dispatch/jobs/{job}{path}", body)).refused(404)
    for route in COOKER_RULES:
        method, _, template = route.partition(" ")
        if "{job}" in template:
            path = template.replace("{job}", job).replace("{pod}", "x")
            said, _ = await ask(here.served, here.bob_token, method, path)
            assert said["details"]["status"] == 404, route
    assert job not in json.dumps(await here.bob.get("dispatch/jobs?limit=100"))
    assert job in json.dumps(await here.ann.get("dispatch/jobs?limit=100"))


async def test_a_job_of_a_team_that_its_owner_has_left(here: Here) -> None:
    """A member who has left a team restarts an old job in the team's namespace"""
    admin = here.served.admin
    team = await admin.post("teams", {"name": "vision"})
    ann = (await here.ann.get("session"))["user"]["id"]
    (await admin("PUT", f"teams/{team['id']}/members/{ann}", {"role": "member"})).ok()
    job = (await here.ann.post("dispatch/jobs", {**JOB, "team": "vision"}))["id"]
    await here.ann.post(f"dispatch/jobs/{job}/cancel?grace=0")
    await until_ended(here.ann, job)
    (await admin("DELETE", f"teams/{team['id']}/members/{ann}")).ok()
    (await here.ann("POST", f"dispatch/jobs/{job}/restart")).refused(403)
    (await admin("DELETE", f"teams/{team['id']}")).ok()
    (await here.ann("POST", f"dispatch/jobs/{job}/restart")).refused(404)


async def test_keys_of_the_server_in_a_task(tmp_path: Path) -> None:
    """A task for AIHC contains what looks like a reference to a key, a variable or a file of the server"""
    (tmp_path / "key").write_text("file-content")
    with pytest.MonkeyPatch.context() as patch, AihcServer(execute=True) as aihc:
        variables = {"AK": AK, "SK": SK, "BASE_URL": aihc.url, "POOL_ID": "aihc-pool", "QUEUE_ID": "q-1"}
        for name, value in variables.items():
            patch.setenv(f"ML_PLATFORM_RESOURCE_{name}", value)
        database = await Database.open(sqlite_url(tmp_path / "platform.db"), survives_power_cut=False)
        async with serving(database, tmp_path / "home", dispatch=read_dispatch_settings({})) as served:
            working = asyncio.create_task(served.platform.dispatch.run())
            token = await new_token(await served.user("ann"))
            key: dict[str, Any] = {"$secret": "env:ML_PLATFORM_RESOURCE_SK"}
            stolen = {
                "tensorboardConfig": {"a": [key]},
                "alertConfig": {"$secret": f"file:{tmp_path / 'key'}"},
                "faultToleranceArgs": {"$literal": {"$literal": key}},
                "datasources": [_source(options={"a": key})],
            }
            said, _ = await ask(served, token, "POST", "/api/jobs/create", {"taskParams": {**TASK, **stolen}})
            assert said["success"], said
            said, _ = await ask(
                served, token, "POST", "/api/jobs/create", {"taskParams": {**TASK, "alertConfig": nested(260)}}
            )
            assert said["details"]["errors"][0]["code"] == "dispatch.deep"

            async def is_there() -> bool:
                return bool(aihc.jobs)

            await eventually(is_there)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        await asyncio.to_thread(database.close)
        (sent,) = aihc.jobs.values()
        assert SK not in json.dumps(sent.body)
        assert "file-content" not in json.dumps(sent.body)
        assert {name: sent.body[name] for name in stolen if name != "datasources"} == {
            name: value for name, value in stolen.items() if name != "datasources"
        }


async def until_ended(client: Client, job: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found: dict[str, Any] = await client.get(f"dispatch/jobs/{job}")
            if found["state"] in ("succeeded", "failed", "cancelled"):
                return found
            await asyncio.sleep(0.02)


async def end_pod(here: Here, job: str, message: str) -> None:
    """Says of the job's Pod what the agent does when its container fails with this termination message."""
    cluster = here.served.platform.cluster
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await cluster.list(POD, "", labels=f"{JOB_LABEL}={job}")).items
            if found:
                break
            await asyncio.sleep(0.02)
    (pod,) = found
    end = {"exitCode": 1, "reason": "Error", "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": end}}]}
    await cluster.patch(POD, name_of(pod), namespace_of(pod), {"status": status}, subresource="status")


@pytest.mark.parametrize(
    "message",
    [
        pytest.param('{"result": ' + DEEP.decode() + "}", id="5000 lists"),
        pytest.param('{"result": ' + "[" * 300 + "]" * 300 + "}", id="300 lists"),
        pytest.param('{"result": 1' + "0" * 30 + "}", id="a number of 31 digits"),
        pytest.param('{"result": 1' + "0" * 5000 + "}", id="a number of 5001 digits"),
        pytest.param('{"result": 1e400, "a": NaN}', id="a number that is infinite"),
        pytest.param('{"result": "\\ud800"}', id="half a character"),
        pytest.param('{"fault": {"code": [1], "message": {"a": 1}}}', id="a fault of wrong types"),
        pytest.param('{"fault": {"code": "x", "message": "y", "origin": [], "log_tail": [1]}}', id="an unknown origin"),
        pytest.param('{"fault": {"code": "a\\u0000", "message": "b\\u0000"}}', id="a NUL character"),
        pytest.param(
            '{"fault": {"code": "x", "message": "y", "retryable": {}, "exit_code": "z"}}', id="an odd exit code"
        ),
    ],
)
async def test_the_last_words_of_a_container(here: Here, message: str) -> None:
    """The termination message of a container, which the dispatcher of all members reads"""
    job = (await here.ann.post("dispatch/jobs", JOB))["id"]
    await end_pod(here, job, message)
    ended = await until_ended(here.ann, job)
    assert ended["state"] == "failed"
    assert "\0" not in json.dumps(ended).encode().decode("unicode_escape", "replace")
    assert (await here.served.admin("GET", "dispatch/jobs?limit=100")).status == 200


async def test_a_line_without_an_end() -> None:
    """A container prints many megabytes without a line break, and the log is read"""
    pieces = 200

    async def written() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield b"x" * 65_536

    lengths = [len(line) async for line in _lines(written())]
    assert sum(lengths) == pieces * 65_536
    assert max(lengths) <= (1 << 20) + 65_536


async def test_a_last_event_of_5000_digits(here: Here) -> None:
    """A stream of events continues after an event of 5000 digits"""
    job = (await here.ann.post("dispatch/jobs", JOB))["id"]
    await end_pod(here, job, "")
    await until_ended(here.ann, job)
    last = f"1.{'9' * 5000}"
    told = [event["event"] async for event in events(here.ann, f"dispatch/jobs/{job}/log/events", last)]
    assert told[-1] == "end"
    epoch = here.served.platform.dispatch.feed.last.rstrip("0123456789")
    async for event in events(here.ann, "dispatch/jobs/events", f"{epoch}{'9' * 5000}", most=1):
        assert event["event"] == "reset"


async def test_more_changes_than_one_look_sees(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member changes so many jobs at once that others would never see a change again"""
    monkeypatch.setattr(service, "_MOST_CHANGES", 2)
    seen, missing = set[str](), set[str]()
    is_open = asyncio.Event()

    async def follow() -> None:
        async for event in events(here.ann, "dispatch/jobs/events"):
            is_open.set()
            seen.add(event["data"]["id"])

    async def has_seen_all() -> bool:
        return missing <= seen

    following = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE):
        while not is_open.is_set():
            await here.ann.post("dispatch/jobs", JOB)
            await asyncio.sleep(0.1)
        made = await asyncio.gather(*(here.ann.post("dispatch/jobs", JOB) for _ in range(8)))
        missing = {job["id"] for job in made}
        await eventually(has_seen_all)
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following


@pytest.mark.timeout(20)
async def test_an_archive_whose_headers_go_in_circles() -> None:
    """A member's own archive has headers with sizes below zero, and is downloaded as a single file"""
    for kind in (tarfile.REGTYPE, tarfile.XHDTYPE):
        assert find_single_file(gzip.compress(header(-512, kind) + bytes(1024))) is None
