from __future__ import annotations

import gzip
from typing import Any

import aiohttp
import orjson
import pytest

from muster.kube.builtin import CONFIG_MAP
from muster.kube.errors import BadRequest, Invalid
from muster.kube.objects import name_of, version_of
from muster.server.kubernetes.handlers import DeleteOptions, delete_options, fill_from_url
from muster.server.kubernetes.request import Target
from tests.server.kubernetes.served import Served, on_standing

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def config_map(name: str = "conf", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"of": name}}, "data": data}


def pod(name: str, **container: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x", **container}]}}


async def json_of(response: aiohttp.ClientResponse, status: int = 200) -> Any:
    body = await response.read()
    assert response.status == status, body
    return orjson.loads(body)


async def test_the_life_of_an_object(served: Served) -> None:
    async with served.session() as http:
        made = await json_of(await http.post(CONFIG_MAPS, json=config_map(a="1")), 201)
        assert (made["apiVersion"], made["kind"], made["metadata"]["namespace"]) == ("v1", "ConfigMap", "default")
        assert await json_of(await http.get(f"{CONFIG_MAPS}/conf")) == made
        changed = await json_of(await http.put(f"{CONFIG_MAPS}/conf", json={**made, "data": {"a": "2"}}))
        assert changed["data"] == {"a": "2"}
        stale = await json_of(await http.put(f"{CONFIG_MAPS}/conf", json={**made, "data": {}}), 409)
        assert stale["reason"] == "Conflict"
        gone = await json_of(await http.delete(f"{CONFIG_MAPS}/conf"))
        assert gone["status"] == "Success"
        assert gone["details"] == {"name": "conf", "kind": "configmaps", "uid": made["metadata"]["uid"], "group": ""}
        missing = await json_of(await http.get(f"{CONFIG_MAPS}/conf"), 404)
        assert missing["message"] == 'configmaps "conf" not found'
        assert missing["details"] == {"name": "conf", "kind": "configmaps"}


async def test_the_response_of_a_deletion_depends_on_the_kind(served: Served) -> None:
    async with served.session() as http:
        await json_of(await http.post(PODS, json=pod("web")), 201)
        await json_of(await http.post(CONFIG_MAPS, json=config_map()), 201)
        assert (await json_of(await http.delete(f"{PODS}/web")))["kind"] == "Pod"
        assert (await json_of(await http.delete(f"{CONFIG_MAPS}/conf")))["kind"] == "Status"


async def test_lists_in_pages_and_through_selectors(served: Served) -> None:
    async with served.session() as http:
        for name in ("a", "b", "c"):
            await json_of(await http.post(CONFIG_MAPS, json=config_map(name)), 201)
        page = await json_of(await http.get(CONFIG_MAPS, params={"limit": "2"}))
        assert page["kind"] == "ConfigMapList"
        assert [name_of(obj) for obj in page["items"]] == ["a", "b"]
        assert page["metadata"]["remainingItemCount"] == 1
        token = page["metadata"]["continue"]
        rest = await json_of(await http.get(CONFIG_MAPS, params={"limit": "2", "continue": token}))
        assert [name_of(obj) for obj in rest["items"]] == ["c"]
        for selector in ({"labelSelector": "of=b"}, {"fieldSelector": "metadata.name=b"}):
            found = await json_of(await http.get("/api/v1/configmaps", params=selector))
            assert [name_of(obj) for obj in found["items"]] == ["b"]
        deleted = await json_of(await http.delete(CONFIG_MAPS, params={"labelSelector": "of in (a,b)"}))
        assert [name_of(obj) for obj in deleted["items"]] == ["a", "b"]
        left = await json_of(await http.get(CONFIG_MAPS))
        assert [name_of(obj) for obj in left["items"]] == ["c"]


@on_standing
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"resourceVersion": "0"}, 200),
        ({"resourceVersion": "1"}, 200),
        ({"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200),
        ({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, 410),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersion": "999999"}, 504),
        ({"resourceVersion": "yesterday"}, 400),
        ({"limit": "many"}, 400),
        ({"limit": "-1"}, 400),
        ({"continue": "rubbish"}, 400),
        ({"labelSelector": "a in"}, 400),
        ({"fieldSelector": "what"}, 400),
        ({"fieldSelector": "metadata.name=none"}, 200),
        ({"fieldSelector": "data.color=blue"}, 400),
        ({"fieldSelector": "data.color=blue", "watch": "true"}, 400),
        ({"fieldSelector": "data.color=blue", "watch": "true", "resourceVersion": "1"}, 400),
    ],
)
async def test_list_options(standing: Served, query: dict[str, str], status: int) -> None:
    async with standing.session() as http:
        await json_of(await http.get(CONFIG_MAPS, params=query), status)


async def test_a_table_has_the_columns_of_get(served: Served) -> None:
    async with served.session(Accept=TABLE) as http:
        await http.post(PODS, json=pod("web"))
        table = await json_of(await http.get(PODS))
        assert table["kind"] == "Table"
        assert [c["name"] for c in table["columnDefinitions"] if c["priority"] == 0] == [
            "Name", "Ready", "Status", "Restarts", "Age",
        ]  # fmt: skip
        (row,) = table["rows"]
        assert row["cells"][:3] == ["web", "0/1", "Pending"]
        assert row["object"]["kind"] == "PartialObjectMetadata"
        whole = await json_of(await http.get(f"{PODS}/web", params={"includeObject": "Object"}))
        assert whole["rows"][0]["object"]["kind"] == "Pod"
        none = await json_of(await http.get(PODS, params={"includeObject": "None"}))
        assert "object" not in none["rows"][0]
        await json_of(await http.get(PODS, params={"includeObject": "Some"}), 400)


async def test_metadata_only(served: Served) -> None:
    async with served.session(Accept=METADATA) as http:
        await http.post(CONFIG_MAPS, json=config_map(secret="x"))
        one = await json_of(await http.get(f"{CONFIG_MAPS}/conf"))
        assert (one["kind"], name_of(one), "data" in one) == ("PartialObjectMetadata", "conf", False)
        many = await json_of(await http.get(CONFIG_MAPS))
        assert many["kind"] == "PartialObjectMetadataList"
        assert many["items"] == [one]


async def test_yaml_in_and_out(served: Served) -> None:
    text = "metadata: {name: conf}\napiVersion: v1\nkind: ConfigMap\ndata:\n  on: 'yes'\n"
    headers = {"Content-Type": "application/yaml", "Accept": "application/yaml"}
    async with served.session() as http:
        response = await http.post(CONFIG_MAPS, data=text, headers=headers)
        assert response.status == 201 and response.content_type == "application/yaml"
        assert "name: conf" in await response.text()
        broken = await json_of(await http.post(CONFIG_MAPS, data="a: [", headers=headers), 400)
        assert "the body of the request:" in broken["message"]


async def test_every_kind_of_patch(served: Served) -> None:
    async with served.session() as http:
        await http.post(PODS, json=pod("web"))

        async def patched(type_: str, body: Any, status: int = 200, **query: str) -> Any:
            headers = {"Content-Type": f"application/{type_}"}
            sent = orjson.dumps(body) if not isinstance(body, bytes) else body
            return await json_of(await http.patch(f"{PODS}/web", data=sent, headers=headers, params=query), status)

        merged = await patched("merge-patch+json", {"metadata": {"labels": {"a": "1"}}})
        assert merged["metadata"]["labels"] == {"a": "1"}
        one_by_one = await patched("json-patch+json", [{"op": "add", "path": "/metadata/labels/b", "value": "2"}])
        assert one_by_one["metadata"]["labels"] == {"a": "1", "b": "2"}
        image = {"spec": {"containers": [{"name": "main", "image": "y"}]}}
        strategic = await patched("strategic-merge-patch+json", image)
        assert [(c["name"], c["image"]) for c in strategic["spec"]["containers"]] == [("main", "y")]
        applied = b"apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {c: '3'}\n"
        assert (await patched("apply-patch+yaml", applied, fieldManager="me"))["metadata"]["labels"]["c"] == "3"
        await patched("apply-patch+yaml", applied, 422)
        await patched("merge-patch+json", {}, 422, force="true")
        await patched("json", {}, 415)
        await patched("json-patch+json", [{"op": "test", "path": "/metadata/name", "value": "other"}], 422)


async def test_apply_creates_what_is_missing(served: Served) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    body = orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}})
    async with served.session() as http:
        for status in (201, 200):
            response = await http.patch(f"{CONFIG_MAPS}/new", data=body, headers=headers, params={"fieldManager": "me"})
            assert name_of(await json_of(response, status)) == "new"


async def test_a_dry_run_changes_nothing(served: Served) -> None:
    async with served.session() as http:
        made = await json_of(await http.post(CONFIG_MAPS, json=config_map(), params={"dryRun": "All"}), 201)
        assert name_of(made) == "conf" and not version_of(made)
        await json_of(await http.get(f"{CONFIG_MAPS}/conf"), 404)
        made = await json_of(await http.post(CONFIG_MAPS, json=config_map()), 201)
        changed = {**made, "data": {"new": "1"}}
        put = await json_of(await http.put(f"{CONFIG_MAPS}/conf", json=changed, params={"dryRun": "All"}))
        headers = {"Content-Type": "application/merge-patch+json"}
        patched = await http.patch(f"{CONFIG_MAPS}/conf", json=changed, params={"dryRun": "All"}, headers=headers)
        for rehearsed in (put, await json_of(patched)):
            assert rehearsed["data"] == {"new": "1"} and version_of(rehearsed) == version_of(made)
        assert await json_of(await http.get(f"{CONFIG_MAPS}/conf")) == made
        await json_of(await http.delete(f"{CONFIG_MAPS}/conf", params={"dryRun": "All"}))
        await json_of(await http.get(f"{CONFIG_MAPS}/conf"))
        await json_of(await http.post(CONFIG_MAPS, json=config_map(), params={"dryRun": "Some"}), 422)


@on_standing
@pytest.mark.parametrize(
    ("validation", "status", "warnings"),
    [
        ("", 201, ['299 - "unknown field \\"spec.containers[0].comand\\""']),
        ("Warn", 201, ['299 - "unknown field \\"spec.containers[0].comand\\""']),
        ("Ignore", 201, []),
        ("Strict", 400, []),
        ("Maybe", 422, []),
    ],
)
async def test_unknown_fields(standing: Served, validation: str, status: int, warnings: list[str]) -> None:
    query = {"dryRun": "All", **({"fieldValidation": validation} if validation else {})}
    async with standing.session() as http:
        response = await http.post(PODS, json=pod("web", comand=["x"]), params=query)
        await json_of(response, status)
        assert response.headers.getall("Warning", []) == warnings


async def test_an_error_names_the_object_and_its_fields(served: Served) -> None:
    async with served.session() as http:
        status = await json_of(await http.post(PODS, json=pod("web", image=7)), 422)
        assert status["details"]["kind"] == "Pod" and status["details"]["name"] == "web"
        assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.containers[0].image"]


async def test_status_is_a_subresource(served: Served) -> None:
    async with served.session() as http:
        made = await json_of(await http.post(PODS, json=pod("web")), 201)
        running = {**made, "status": {"phase": "Running"}}
        assert (await json_of(await http.put(f"{PODS}/web", json=running)))["status"]["phase"] == "Pending"
        headers = {"Content-Type": "application/merge-patch+json"}
        response = await http.patch(f"{PODS}/web/status", json={"status": {"phase": "Running"}}, headers=headers)
        assert (await json_of(response))["status"]["phase"] == "Running"
        assert (await json_of(await http.get(f"{PODS}/web/status")))["status"]["phase"] == "Running"
        await json_of(await http.put(f"{CONFIG_MAPS}/conf/status", json=config_map()), 404)


async def test_large_responses_are_compressed_on_request(served: Served) -> None:
    async with served.session() as http:
        await json_of(await http.post(CONFIG_MAPS, json=config_map(text="x" * 200_000)), 201)
    async with served.session(**{"Accept-Encoding": "gzip"}) as http:
        response = await http.get(CONFIG_MAPS)
        assert response.headers["Content-Encoding"] == "gzip"
        assert len((await json_of(response))["items"]) == 1
    async with served.session(**{"Accept-Encoding": "identity"}) as http:
        response = await http.get(CONFIG_MAPS)
        assert "Content-Encoding" not in response.headers
        assert len(await response.read()) > len(gzip.compress(b"x" * 200_000))


@pytest.mark.parametrize(
    ("query", "body", "options"),
    [
        ({}, {}, DeleteOptions()),
        ({"propagationPolicy": "Foreground"}, {"propagationPolicy": "Orphan"}, DeleteOptions("Foreground")),
        ({}, {"propagationPolicy": "Orphan"}, DeleteOptions("Orphan")),
        ({}, {"orphanDependents": True}, DeleteOptions("Orphan")),
        ({"orphanDependents": "false"}, {}, DeleteOptions("Background")),
        ({"gracePeriodSeconds": "0"}, {"gracePeriodSeconds": 30}, DeleteOptions(grace_seconds=0)),
        ({}, {"gracePeriodSeconds": 30}, DeleteOptions(grace_seconds=30)),
        ({}, {"preconditions": {"uid": "u", "resourceVersion": "7"}}, DeleteOptions(uid="u", resource_version="7")),
        ({}, {"dryRun": ["All"]}, DeleteOptions(dry_run=True)),
    ],
)  # fmt: skip
def test_delete_options(query: dict[str, str], body: dict[str, Any], options: DeleteOptions) -> None:
    assert delete_options(query, body) == options


@pytest.mark.parametrize("query", [{"propagationPolicy": "Sometimes"}, {"gracePeriodSeconds": "soon"}])
def test_invalid_delete_options(query: dict[str, str]) -> None:
    with pytest.raises((Invalid, BadRequest), match=next(iter(query))):
        delete_options(query, {})


HERE = Target("", "v1", "configmaps", "team", "conf")


def test_missing_fields_are_filled_from_the_url() -> None:
    assert fill_from_url({"data": {}}, CONFIG_MAP, HERE) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "team", "name": "conf"},
        "data": {},
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"kind": "Secret"}, '"Secret"'),
        ({"apiVersion": "v2"}, '"v2"'),
        ({"metadata": {"namespace": "other"}}, "namespace"),
        ({"metadata": {"name": "other"}}, "name"),
        ({"metadata": []}, None),
        ({"metadata": "x"}, "metadata"),
        ([], "object"),
    ],
)
def test_a_body_and_its_url_must_agree(body: Any, message: str | None) -> None:
    if message is None:
        assert name_of(fill_from_url(body, CONFIG_MAP, HERE)) == "conf"
        return
    with pytest.raises(BadRequest, match=message):
        fill_from_url(body, CONFIG_MAP, HERE)
