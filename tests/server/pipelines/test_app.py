"""The v2beta1 API over HTTP: the form of answers and errors, lists with filters and pages, uploads."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
import pytest_asyncio
import yaml

from muster.pipelines.packages import LARGEST
from muster.platform.database.database import Database, sqlite_url
from muster.server.platform.route_rules import PIPELINES_RULES
from tests.pipelines.test_packages import SPEC, YAML, zipped
from tests.server.platform.served import Reply, Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Api:
    """A user of the API, with a token."""

    url: str
    token: str = ""

    async def __call__(self, method: str, path: str, body: Any = None, **query: Any) -> Reply:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data: Any = body if isinstance(body, (bytes, aiohttp.FormData)) or body is None else json.dumps(body).encode()
        url = f"{self.url}/apis/v2beta1/{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=data, headers=headers, params=query) as response,
        ):
            return Reply(response.status, json.loads(await response.read()), response.headers)

    async def get(self, path: str, **query: Any) -> Any:
        return (await self("GET", path, **query)).ok()

    async def post(self, path: str, body: Any = None, **query: Any) -> Any:
        return (await self("POST", path, body, **query)).ok()

    async def upload(self, path: str, data: bytes, file_name: str = "p.yaml", **query: Any) -> Reply:
        form = aiohttp.FormData()
        form.add_field("uploadfile", io.BytesIO(data), filename=file_name)
        return await self("POST", path, form, **query)


async def user_of(served: Served, name: str, scopes: list[str] | None = None) -> Api:
    browser = await served.user(name)
    body = {"name": "script", **({"scopes": scopes} if scopes else {})}
    return Api(served.url, (await browser.post("tokens", body))["secret"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    folder: Path = tmp_path_factory.mktemp("pipelines")
    database = await Database.open(sqlite_url(folder / "platform.db"), survives_power_cut=False)
    async with serving(database, folder / "home") as running:
        yield running
    await asyncio.to_thread(database.close)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(served: Served) -> Api:
    return await user_of(served, "ann")


async def test_health_needs_no_token_and_everything_else_does(served: Served) -> None:
    stranger = Api(served.url)
    assert await stranger.get("healthz") == {"multi_user": False, "pipeline_store": "database"}
    for key in PIPELINES_RULES:
        method, path = key.split(" ")
        if path == "healthz":
            continue
        reply = await stranger(method, path.replace("{", "").replace("}", ""))
        assert (reply.status, reply.body["code"]) == (401, 16), key
        assert reply.body["message"]


async def test_an_experiment_from_creation_to_deletion(served: Served) -> None:
    user = await user_of(served, "bea")
    (default,) = (await user.get("experiments"))["experiments"]
    assert default["display_name"] == "Default"
    made = await user.post("experiments", {"display_name": "first", "description": "one", "namespace": ""})
    identifier = made["experiment_id"]
    assert made == {
        "experiment_id": identifier,
        "display_name": "first",
        "description": "one",
        "created_at": made["created_at"],
        "namespace": "user-bea",
        "storage_state": "AVAILABLE",
        "may": ["archive", "delete"],
    }
    assert await user.get(f"experiments/{identifier}") == made
    taken = await user("POST", "experiments", {"displayName": "first"})
    assert (taken.status, taken.body["code"]) == (409, 6)
    assert await user.post(f"experiments/{identifier}:archive") == {}
    assert (await user.get(f"experiments/{identifier}"))["storage_state"] == "ARCHIVED"
    assert await user.post(f"experiments/{identifier}:unarchive") == {}
    assert (await user("DELETE", f"experiments/{identifier}")).ok() == {}
    assert (await user("GET", f"experiments/{identifier}")).status == 404
    refused = await user("DELETE", f"experiments/{default['experiment_id']}")
    assert (refused.status, refused.body["message"]) == (400, 'the experiment "Default" cannot be deleted')


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "experiments", {"display_name": "x", "colour": 1}, 400, "colour: there is no such field"),
        ("POST", "experiments", {"display_name": 3}, 400, "display_name: this must be a text"),
        ("POST", "experiments", {}, 400, "display_name: enter a name"),
        ("POST", "experiments", {"display_name": "x" * 300}, 400, "256 characters"),
        ("POST", "experiments", b"{", 400, "not valid JSON"),
        ("POST", "experiments", [1], 400, "this must be an object"),
        ("POST", "experiments", {"display_name": "x", "namespace": "user-bea"}, 404, "namespace"),
        ("GET", "experiments/nothing", None, 404, 'there is no experiment "nothing"'),
        ("GET", "nothing/at/all", None, 404, "Kubeflow Pipelines has no GET"),
        ("PUT", "experiments", {}, 404, "Kubeflow Pipelines has no PUT"),
        ("GET", "experiments?colour=1", None, 400, "colour: there is no such query parameter"),
        ("GET", "experiments?page_size=x", None, 400, "page_size"),
        ("GET", "experiments?page_size=-1", None, 400, "page_size"),
        ("GET", "experiments?page_token=x", None, 400, "page_token: this is not a valid page token"),
        ("GET", "experiments?sort_by=colour", None, 400, "sort_by: cannot sort by"),
        ("GET", "experiments?sort_by=created_at%20up", None, 400, "sort_by"),
        ("GET", "experiments?filter=x", None, 400, "filter: this is not JSON"),
        ("POST", "pipelines/p/versions", {"display_name": "v"}, 400, "pipeline_spec: this field is required"),
        ("POST", "pipelines/create", {"pipeline": {"name": "p"}, "pipeline_version": {"package_url": {}}}, 400, "spec"),
        ("POST", "pipelines/upload", b"x", 400, "uploadfile"),
        ("POST", "pipelines/upload_version", b"x", 400, "pipelineid: this field is required"),
    ],
)
async def test_a_wrong_request_gets_a_clear_error(
    ann: Api, method: str, path: str, body: Any, status: int, message: str
) -> None:
    reply = await ann(method, path, body)
    assert reply.status == status, reply.body
    assert set(reply.body) == {"code", "message", "details"}
    assert message in reply.body["message"]


async def test_an_error_has_codes_and_values_for_other_languages(ann: Api) -> None:
    missing = (await ann("GET", "experiments/nothing")).body["details"]
    assert [each["reason"] for each in missing] == ["missing"]
    assert json.loads(missing[0]["metadata"]["arguments"]) == {"kind": "experiment", "name": "nothing"}
    wrong = (await ann("POST", "experiments", {"display_name": 3, "description": []})).body["details"]
    assert [(each["reason"], each["metadata"]["field"]) for each in wrong] == [
        ("pipelines.type", "display_name"),
        ("pipelines.type", "description"),
    ]


async def test_an_answer_says_what_the_user_may_do(served: Served) -> None:
    team = (await served.admin.post("teams", {"name": "mays"}))["id"]
    owner, other = await user_of(served, "may-owner"), await user_of(served, "may-other")
    for name in ("may-owner", "may-other"):
        (await served.admin("PUT", f"teams/{team}/members/{name}", {"role": "member"})).ok()
    made = await owner.post("pipelines", {"display_name": "shared", "namespace": "team-mays"})
    assert made["may"] == ["edit", "delete"]
    [found] = (await other.get("pipelines", namespace="team-mays"))["pipelines"]
    assert found["may"] == ["edit"]
    experiment = await owner.post("experiments", {"display_name": "e", "namespace": "team-mays"})
    assert experiment["may"] == ["archive", "delete"]
    assert "may" not in await other.get(f"experiments/{experiment['experiment_id']}")


async def test_lists_are_filtered_sorted_and_paged(served: Served) -> None:
    user = await user_of(served, "cyd")
    names = [f"exp-{number:02}" for number in range(25)]
    for name in names:
        await user.post("experiments", {"display_name": name, "description": f"about {name}"})

    async def listed(**query: Any) -> list[str]:
        found = await user.get("experiments", **query)
        return [each["display_name"] for each in found.get("experiments", [])]

    first = await user.get("experiments", sort_by="display_name desc")
    assert (len(first["experiments"]), first["total_size"]) == (20, 26)
    second = await user.get("experiments", page_token=first["next_page_token"])
    assert (len(second["experiments"]), second.get("next_page_token")) == (6, None)
    found = [each["display_name"] for each in first["experiments"] + second["experiments"]]
    assert found == sorted([*names, "Default"], reverse=True)
    # a page stays what it is if something new comes
    page = await user.get("experiments", sort_by="display_name asc", page_size=10)
    await user.post("experiments", {"display_name": "aaa"})
    after = await user.get("experiments", sort_by="display_name asc", page_size=10, page_token=page["next_page_token"])
    assert [each["display_name"] for each in after["experiments"]] == names[9:19]
    other = await user("GET", "experiments", page_token=page["next_page_token"], sort_by="created_at")
    assert "another filter or order" in other.body["message"]

    def predicate(operation: Any, key: str, **value: Any) -> str:
        return json.dumps({"predicates": [{"operation": operation, "key": key, **value}]})

    assert await listed(filter=predicate(1, "display_name", stringValue="exp-07")) == ["exp-07"]
    assert await listed(filter=predicate("EQUALS", "name", string_value="exp-07")) == ["exp-07"]
    assert await listed(filter=quote(predicate(1, "display_name", stringValue="exp-07"))) == ["exp-07"]
    assert await listed(filter=predicate(9, "description", stringValue="EXP-1"), page_size=200) == names[10:20]
    assert await listed(filter=predicate(9, "description", stringValue="%")) == []
    assert await listed(filter=predicate(8, "display_name", string_values={"values": ["exp-01", "x"]})) == ["exp-01"]
    assert len(await listed(filter=predicate("NOT_EQUALS", "name", string_value="aaa"), page_size=200)) == 26
    assert await listed(filter=predicate(3, "created_at", timestamp_value="2100-01-01T00:00:00Z")) == []
    assert len(await listed(filter=predicate(7, "created_at", timestampValue="2100-01-01T00:00:00Z"))) == 20
    assert await listed(filter=predicate(1, "storage_state", stringValue="ARCHIVED")) == []
    for operation, key, value, message in (
        (4, "name", {"string_value": "x"}, "use one of EQUALS"),
        ("LIKE", "name", {"string_value": "x"}, "use one of EQUALS"),
        (1, "colour", {"string_value": "x"}, 'cannot be filtered by "colour"'),
        (1, "name", {}, "expected one value"),
        (1, "name", {"string_value": "x", "int_value": 1}, "expected one value"),
        (1, "name", {"int_value": 1}, "string_value"),
        (1, "created_at", {"string_value": "x"}, "timestamp_value"),
        (1, "created_at", {"timestamp_value": "yesterday"}, "expected a time"),
        (8, "name", {"string_value": "x"}, "IN takes a list"),
        (1, "name", {"string_values": {"values": ["x"]}}, "IN takes a list"),
        (1, "name", {"surprise": 1}, "there is no such field"),
    ):
        reply = await user("GET", "experiments", filter=predicate(operation, key, **value))
        assert (reply.status, message in reply.body["message"]) == (400, True), reply.body


async def test_a_pipeline_and_its_versions(ann: Api) -> None:
    made = (await ann.upload("pipelines/upload", YAML, name="hello", description="says it")).ok()
    identifier = made["pipeline_id"]
    assert (made["display_name"], made["name"], made["namespace"]) == ("hello", "hello", "user-ann")
    assert await ann.get(f"pipelines/{identifier}") == made
    assert await ann.get("pipelines/names/hello") == made
    (version,) = (await ann.get(f"pipelines/{identifier}/versions"))["pipeline_versions"]
    assert (version["display_name"], version["pipeline_spec"]) == ("hello", SPEC)
    packed = zipped(pipeline__yaml=yaml.safe_dump({**SPEC, "sdkVersion": "kfp-2.0.0"}).encode())
    second = (await ann.upload("pipelines/upload_version", packed, "p.zip", name="v2", pipelineid=identifier)).ok()
    assert second["pipeline_spec"]["sdkVersion"] == "kfp-2.0.0"
    third = await ann.post(f"pipelines/{identifier}/versions", {"display_name": "v3", "pipeline_spec": SPEC})
    assert (await ann.upload("pipelines/upload_version", YAML, name="v3", pipelineid=identifier)).status == 409
    found = await ann.get(f"pipelines/{identifier}/versions", sort_by="created_at desc", page_size=2)
    assert [each["name"] for each in found["pipeline_versions"]] == ["v3", "v2"]
    changed = await ann(
        "PATCH", f"pipelines/{identifier}/versions/{third['pipeline_version_id']}", {"display_name": "V"}
    )
    assert changed.ok()["display_name"] == "V"
    assert (await ann("PATCH", f"pipelines/{identifier}", {"description": "new"})).ok()["description"] == "new"
    assert (await ann.upload("pipelines/upload", YAML, name="hello")).status == 409
    refused = await ann("DELETE", f"pipelines/{identifier}")
    assert (refused.status, "has 3 versions" in refused.body["message"]) == (400, True)
    for each in (await ann.get(f"pipelines/{identifier}/versions"))["pipeline_versions"]:
        assert (await ann("DELETE", f"pipelines/{identifier}/versions/{each['pipeline_version_id']}")).ok() == {}
    assert (await ann("DELETE", f"pipelines/{identifier}")).ok() == {}
    both = {"pipeline": {"display_name": "two"}, "pipeline_version": {"pipeline_spec": SPEC}}
    identifier = (await ann.post("pipelines/create", both))["pipeline_id"]
    assert (await ann("DELETE", f"pipelines/{identifier}", cascade="true")).ok() == {}


async def test_bad_uploads_get_clear_errors(ann: Api) -> None:
    for data, status, message in (
        (b"x: [", 400, "p.yaml"),
        (yaml.safe_dump({**SPEC, "schemaVersion": "3"}).encode(), 400, "schemaVersion"),
        (b"x" * (LARGEST + 1024 * 1024), 413, "MB"),
    ):
        reply = await ann.upload("pipelines/upload", data, name="bad")
        assert (reply.status, message in reply.body["message"]) == (status, True), reply.body
    assert (await ann("GET", "pipelines/names/bad")).status == 404
