"""Attacks with single requests: odd types, odd bytes, odd sizes. None may get a 500, and none may take the server's
time or memory."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from muster.kube import errors, quantity
from muster.kube.builtin import CONFIG_MAP, POD, ROLE, SECRET
from muster.kube.errors import TooLarge, closest_word, is_dns_name, is_label_value
from muster.kube.manifests import ManifestError, load_manifests, parse_mapping
from muster.kube.patches import json_patch
from muster.kube.quantity import QuantityError, parse_quantity
from muster.kube.schema_validation import MOST_PROBLEMS, validate
from muster.kube.selectors import parse_labels
from muster.kube.server_side_apply import TooManyFields, server_side_apply, track_update
from muster.workflows.kinds import WORKFLOW
from tests.fuzz.mutation import FuzzRequest
from tests.fuzz.wire import Wire
from tests.server.argo.served import hello, serving
from tests.server.kubernetes.served import Served

on_server = pytest.mark.asyncio(loop_scope="module")
_POD = "/api/v1/namespaces/default/pods/a"
_REVIEWS = "/apis/authorization.k8s.io/v1"
_JSON_PATCH = {"Content-Type": "application/json-patch+json"}
_YAML = {"Content-Type": "application/yaml"}
_PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with serving(tmp_path_factory.mktemp("requests"), artifacts=True) as running:
        await running.cluster.create(hello("main"))
        running.node.write("default", "a", b"one\n")
        yield running


def _wire(served: Served) -> Wire:
    host, _, port = served.url.removeprefix("https://").partition(":")
    return Wire(host, int(port), served.certificates.client_context(), {"Authorization": f"Bearer {served.token}"})


def _case(attack: str, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    content = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
    return pytest.param(method, target, content, headers or {}, id=attack)


def _workflow(**spec: Any) -> dict[str, Any]:
    return {"workflow": hello("odd", **spec)}


ODD_REQUESTS: list[Any] = [
    _case("The spec of an access review is a list", "POST", f"{_REVIEWS}/selfsubjectaccessreviews", {"spec": []}),
    _case(
        "The attributes of an access review are a string",
        "POST",
        f"{_REVIEWS}/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": "x"}},
    ),
    _case(
        "The groups of an access review are a number",
        "POST",
        f"{_REVIEWS}/subjectaccessreviews",
        {"spec": {"user": "x", "groups": 1e300, "nonResourceAttributes": {"path": "/"}}},
    ),
    _case(
        "The audiences of a token review are a boolean",
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"spec": {"token": "x", "audiences": True}},
    ),
    _case("The target of a Binding is a string", "POST", f"{_POD}/binding", {"target": "\0"}),
    _case("The metadata of an Eviction is a list", "POST", f"{_POD}/eviction", {"metadata": [[1]]}),
    _case(
        "The preconditions of an Eviction are a number",
        "POST",
        f"{_POD}/eviction",
        {"deleteOptions": {"preconditions": 65536}},
    ),
    _case("DeleteOptions are of the wrong types", "DELETE", _POD, {"preconditions": "x", "dryRun": 1}),
    _case("A Pod is deleted with a grace period beyond the year 9999", "DELETE", _POD, {"gracePeriodSeconds": 2**62}),
    _case(
        "A token is bound to a list",
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        {"spec": {"boundObjectRef": [0]}},
    ),
    _case(
        "A Role whose rules are strings",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        {"metadata": {"name": "x"}, "rules": [".."]},
    ),
    _case(
        "A RoleBinding whose roleRef is a list",
        "PUT",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/b",
        {"metadata": {"name": "b"}, "roleRef": [[]]},
    ),
    _case("A watch for more seconds than a float holds", "GET", f"/api/v1/pods?watch=1&timeoutSeconds={'9' * 400}"),
    _case("A limit in digits that are not ASCII", "GET", "/api/v1/pods?limit=%C2%B2"),
    _case("A resourceVersion in digits that are not ASCII", "GET", "/api/v1/pods?watch=1&resourceVersion=%C2%B2"),
    _case("A resourceVersion of 5000 digits", "GET", f"/api/v1/pods?resourceVersion={'9' * 5000}"),
    _case("A continue token that is no token", "GET", "/api/v1/pods?continue=%00"),
    _case("A continue token with a number for an object", "GET", "/api/v1/pods?limit=1&continue=MQ"),
    _case("A label selector that never ends", "GET", "/api/v1/pods?labelSelector=a+in+("),
    _case("A field selector that ends in a backslash", "GET", "/api/v1/pods?fieldSelector=a%3D%5C"),
    _case("A NUL byte in a path", "GET", "/api/v1/namespaces/%00/pods/%00/log"),
    _case("A parent directory as the name of a Pod", "GET", "/api/v1/namespaces/default/pods/%2e%2e/log"),
    _case("A name of 5000 characters", "GET", f"/api/v1/namespaces/default/pods/{'b' * 5000}/log"),
    _case("Bad UTF-8 in a path", "GET", "/api/v1/namespaces/%ff/pods/%ff"),
    _case("A body nested 2000 deep", "POST", "/api/v1/namespaces/default/configmaps", b'{"a":' * 2000),
    _case(
        "A body nested 500 deep that is closed",
        "POST",
        "/api/v1/namespaces/default/configmaps",
        b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 500 + b"1" + b"}" * 502,
    ),
    _case("Half of a surrogate pair", "POST", "/api/v1/namespaces/default/configmaps", b'{"data":{"a":"\\ud800"}}'),
    _case("A number that JSON does not know", "POST", "/api/v1/namespaces/default/configmaps", b'{"data":NaN}'),
    _case("A field with an empty name", "POST", "/api/v1/namespaces/default/pods?fieldValidation=Strict", {"": 1}),
    _case("A YAML alias that contains itself", "POST", "/api/v1/namespaces/default/configmaps", b"a: &a [*a]", _YAML),
    _case("A YAML tag that names a Python object", "POST", _POD[:-2], b"a: !!python/object:os.system {}", _YAML),
    _case("Protobuf that is cut off", "POST", _POD[:-2], b"k8s\0\x0a\x08\x0a\x02v1\x12\x02Po", _PROTOBUF),
    _case("Protobuf with a number for a message", "POST", _POD[:-2], b"k8s\0\x08\x01\x12\x02\x08\x01", _PROTOBUF),
    _case("A compressed body", "POST", _POD[:-2], gzip.compress(b"{}" * 1000), {"Content-Encoding": "gzip"}),
    _case("A body of four megabytes", "POST", _POD[:-2], b" " * (4 << 20)),
    _case("A length that is no number", "POST", _POD[:-2], b"{}", {"X-A": "1", "Transfer-Encoding": "x"}),
    _case("A JSON patch of strings", "PATCH", "/api/v1/namespaces/default", ["x"], _JSON_PATCH),
    _case("A JSON patch that removes everything", "PATCH", "/api/v1/namespaces/default", [{"op": "remove", "path": ""}],
          _JSON_PATCH),
    _case("An impersonated user in bytes that are not text", "GET", "/api/v1/pods", None, {"Impersonate-User": "\xff"}),
    _case("An unknown method", "BREW", "/api/v1/pods"),
    _case("Argo: labels are a list", "POST", "/api/v1/workflows/default",
          {"workflow": {"metadata": {"labels": [{"a": "b"}]}}}),
    _case("Argo: metadata is a number", "POST", "/api/v1/workflows/default", {"workflow": {"metadata": 1}}),
    _case("Argo: a template is a string", "POST", "/api/v1/workflows/default", _workflow(templates=["x"])),
    _case("Argo: steps are a number", "POST", "/api/v1/workflows/default/lint",
          _workflow(templates=[{"name": "main", "steps": 1}])),
    _case("Argo: a step's name is a list", "POST", "/api/v1/workflows/default/lint",
          _workflow(templates=[{"name": "main", "steps": [[{"name": ["a"], "template": "b"}]]}])),
    _case("Argo: a retry strategy is a string", "POST", "/api/v1/workflows/default", _workflow(retryStrategy="x")),
    _case("Argo: a name is an object", "POST", "/api/v1/workflows/default/lint",
          _workflow(templates=[{"name": {"a": 1}, "container": {"image": "a"}}])),
    _case("Argo: schedules are a number", "POST", "/api/v1/cron-workflows/default/lint",
          {"cronWorkflow": {"metadata": {"name": "a"}, "spec": {"schedules": -1, "workflowSpec": []}}}),
    _case("Argo: a priority is a word", "POST", "/api/v1/workflows/default/submit",
          {"resourceKind": "WorkflowTemplate", "resourceName": "x", "submitOptions": {"priority": "x"}}),
    _case("Argo: an owner is a number", "POST", "/api/v1/workflows/default/submit",
          {"resourceKind": "WorkflowTemplate", "resourceName": "x", "submitOptions": {"ownerReference": 0.5}}),
    _case("Argo: parameters are a string", "PUT", "/api/v1/workflows/default/main/retry", {"parameters": "x=y"}),
    _case("Argo: outputs are no object", "PUT", "/api/v1/workflows/default/main/set", {"outputParameters": [1]}),
    _case("Argo: a log since the year 300000", "GET",
          "/api/v1/workflows/default/main/log?logOptions.sinceTime.seconds=9999999999999"),
    _case("Argo: a log since the year 1 in another zone", "GET",
          "/api/v1/workflows/default/main/log?logOptions.sinceTime=0001-01-01T00:00:00%2B10:00"),
    _case("Argo: a limit in digits that are not ASCII", "GET",
          "/api/v1/workflow-templates/default?listOptions.limit=%C2%B2"),
    _case("Argo: a regular expression that is none", "GET", "/api/v1/workflows/default/main/log?grep=(a"),
]  # fmt: skip


@on_server
@pytest.mark.parametrize(("method", "target", "content", "headers"), ODD_REQUESTS)
async def test_an_odd_request_is_refused_with_a_reason(
    served: Served, method: str, target: str, content: bytes | None, headers: dict[str, str]
) -> None:
    sent = FuzzRequest(method, ("",), headers=tuple(headers.items()), body=content)
    async with _wire(served) as wire:
        answer = await wire.send(sent, target=target)
    assert 400 <= answer.status < 500, answer.body[:500]
    assert str(served.kubeconfig.parent).encode() not in answer.body


@pytest.mark.timeout(60)
def test_many_unknown_fields_are_explained_in_time() -> None:
    """A megabyte of unknown fields takes the server's time: a similar name is searched for each"""
    given = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {f"field{n}": 1 for n in range(60_000)},
    }
    causes = validate(given, POD.schema)
    assert len(causes) == MOST_PROBLEMS + 1


@pytest.mark.timeout(60)
def test_many_wrong_items_are_reported_in_time() -> None:
    """A list of wrong items makes a longer list of errors"""
    rules = [{"verbs": 1, "apiGroups": 1, "resources": 1} for _ in range(50_000)]
    causes = validate({"apiVersion": "v1", "kind": "Role", "metadata": {"name": "a"}, "rules": rules}, ROLE.schema)
    assert MOST_PROBLEMS <= len(causes) <= MOST_PROBLEMS + 1


@pytest.mark.timeout(60)
def test_a_long_word_is_not_compared_with_others() -> None:
    """A name of a megabyte is compared with every known name"""
    assert closest_word("a" * 1_000_000, ["a" * 999_999]) is None


@pytest.mark.timeout(60)
def test_many_duplicate_keys_are_found_in_time() -> None:
    """Each of many keys that are set twice is searched from the start of the text"""
    keys = [f"k{number}: 1\n" for number in range(60_000)]
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + "".join("  " + key for key in keys + keys)
    (document,) = load_manifests(text, "a")
    assert len(document.warnings) == 100
    with pytest.raises(ManifestError, match="already set"):
        parse_mapping("".join(keys + keys), "a")


def test_aliases_of_a_long_text_are_counted() -> None:
    """A YAML text of a megabyte stands for a terabyte: many aliases of one long string"""
    text = f"a: &a {'x' * 200_000}\nb: [{', '.join(['*a'] * 200_000)}]\n"
    with pytest.raises(ManifestError, match="once its aliases are written out"):
        parse_mapping(text, "a")


@pytest.mark.timeout(60)
def test_merge_keys_are_counted() -> None:
    """Many YAML mappings each merge one with many keys"""
    text = f"a: &a\n{''.join(f'  k{n}: 1' + chr(10) for n in range(30_000))}"
    text += "".join(f"m{n}:\n  <<: *a\n" for n in range(30_000))
    with pytest.raises(ManifestError, match="values"):
        parse_mapping(text, "a")


@pytest.mark.timeout(60)
def test_a_long_label_selector_is_compiled_in_time() -> None:
    """A label selector of many requirements is compared with itself"""
    selector = parse_labels(",".join(f"a{number}=b" for number in range(50_000)))
    assert not selector.matches({})


@pytest.mark.timeout(60)
def test_base64_with_many_line_ends_is_checked_in_time() -> None:
    """A Secret of carriage returns makes a regular expression go back and forth"""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "\r" * 500_000 + "!"}}
    assert len(validate(secret, SECRET.schema)) == 1


def test_long_values_are_not_kept_in_caches() -> None:
    """Long names, values and quantities fill the caches of the checks"""
    for number in range(2000):
        assert not is_dns_name(f"a{number}" + "a" * 1000)
        assert not is_label_value(f"a{number}" + "a" * 1000)
        with pytest.raises(QuantityError):
            parse_quantity(f"{number}" + "0" * 1000)
    assert errors._is_label_value.cache_info().currsize < 2000
    assert quantity._parse_quantity.cache_info().currsize < 2000


@on_server
@pytest.mark.parametrize(
    ("method", "target", "content"),
    [
        pytest.param("HEAD", "/api/v1/pods?watch=1", None, id="The head of a watch, which never ends"),
        pytest.param("HEAD", "/api/v1/workflow-events/default", None, id="The head of an Argo stream"),
        pytest.param("GET", f"{_POD}/exec?command=true", b"{}", id="A WebSocket whose request has a body"),
        pytest.param("POST", f"{_POD}/exec?command=true", b"", id="A WebSocket that is opened with POST"),
    ],
)
async def test_every_request_gets_an_answer(served: Served, method: str, target: str, content: bytes | None) -> None:
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    headers = tuple(upgrade.items()) if "exec" in target else ()
    async with _wire(served) as wire:
        answer = await wire.send(FuzzRequest(method, ("",), headers=headers, body=content), target=target)
        assert answer.status in (200, 400, 404, 405)
        assert (await wire.send(FuzzRequest("GET", ("version",)))).status == 200


@on_server
async def test_warnings_do_not_fill_the_headers(served: Served) -> None:
    """A thousand unknown fields with control characters become a thousand headers"""
    data = {"metadata": {"name": "warned"}, **{f"odd\r\n\x00{n}": 1 for n in range(1000)}}
    async with served.session() as http, http.post("/api/v1/namespaces/default/configmaps", json=data) as response:
        assert response.status == 201
        warnings = response.headers.getall("Warning")
    assert sum(map(len, warnings)) < 20_000
    assert not any(char in text for text in warnings for char in "\r\n\x00")


@on_server
async def test_a_client_that_leaves_a_stream_early_leaves_nothing_behind(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients that disconnect before the first event make the server fail"""
    async with served.session() as http:
        for path in ("/api/v1/workflow-events/default", "/api/v1/pods?watch=1", "/api/v1/stream/events/default"):
            for _ in range(5):
                with pytest.raises(asyncio.TimeoutError):
                    async with asyncio.timeout(0.05), http.get(path) as response:
                        await response.read()
    assert "already running" not in caplog.text


def test_a_workflow_of_the_wrong_types_is_told_by_the_schema() -> None:
    """A template of the wrong type breaks the lint rules"""
    causes = validate(hello("a", templates=[{"name": "main", "dag": True}]), WORKFLOW.schema)
    assert [cause.field for cause in causes] == ["spec.templates[0].dag"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/args/0", "value": ""},
        {"op": "remove", "path": "/args/0"},
        {"op": "move", "from": "/args/0", "path": "/args/-"},
        {"op": "copy", "from": "/args/0", "path": "/args/0"},
    ],
    ids=["add", "remove", "move", "copy"],
)
def test_a_patch_that_moves_a_long_list_again_and_again(operation: dict[str, Any]) -> None:
    """A small JSON patch changes the start of a long list thousands of times, each of which moves all items"""
    with pytest.raises(TooLarge, match="moves more than"):
        json_patch({"args": [""] * 480_000}, [operation] * 1500)


def _config_map(number: int, value: str = "v") -> dict[str, Any]:
    data = {f"k{each}": value for each in range(number)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": data}


@pytest.mark.parametrize("current", [None, _config_map(60_000)], ids=["a new object", "an object that is not applied"])
def test_apply_of_many_fields(current: dict[str, Any] | None) -> None:
    """A member applies an object with 60,000 fields, whose owners are compared on the event loop of all members"""
    with pytest.raises(TooManyFields):
        server_side_apply(current, _config_map(60_000), CONFIG_MAP.schema, "eve", True, "")


def test_many_owners_of_many_fields() -> None:
    """A member applies an object under many names, so that each of them owns all its fields"""
    applied: dict[str, Any] = {}
    with pytest.raises(TooManyFields):
        for number in range(10):
            applied = server_side_apply(applied or None, _config_map(3_000), CONFIG_MAP.schema, str(number), True, "")
    assert len(applied["metadata"]["managedFields"]) == 3


def test_updates_of_an_applied_object_with_many_fields() -> None:
    """A member applies an object once and lets it grow: each small change of it would read the owners of all fields"""
    applied = server_side_apply(None, _config_map(1), CONFIG_MAP.schema, "eve", False, "")
    grown = {**applied, "data": _config_map(60_000)["data"]}
    stored = track_update(applied, grown, CONFIG_MAP.schema, "eve", "")
    assert "managedFields" not in stored["metadata"]
    fields: dict[str, Any] = {"f:data": {f"f:k{number}": {} for number in range(60_000)}}
    sent = {**applied["metadata"], "managedFields": [{"manager": "x", "operation": "Apply", "fieldsV1": fields}]}
    stored = track_update(applied, {**applied, "metadata": sent}, CONFIG_MAP.schema, "eve", "")
    assert "managedFields" not in stored["metadata"]
