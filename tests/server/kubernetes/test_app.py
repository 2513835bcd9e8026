from __future__ import annotations

import asyncio
import io
import logging
from typing import Any

import orjson
import pytest
from starlette.types import Message

from muster.kube.cluster import Listing
from muster.kube.kinds import Kind
from muster.server.kubernetes.app import kube_app
from muster.server.kubernetes.request import LARGEST_BODY
from tests.server.kubernetes.served import Served, on_standing

PODS = "/api/v1/namespaces/default/pods"
KINDS_AT_ONCE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@on_standing
@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/nowhere", 404, "NotFound"),
        ("GET", "/api/v1/widgets", 404, "NotFound"),
        ("GET", "/apis/acme.io/v1", 404, "NotFound"),
        ("GET", "/api/v1/pods/web", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound"),
        ("GET", f"{PODS}/web/nothing", 404, "NotFound"),
        ("GET", f"{PODS}/nope", 404, "NotFound"),
        ("GET", f"{PODS}/nope/status", 404, "NotFound"),
        ("POST", "/api/v1/pods", 405, "MethodNotAllowed"),
        ("POST", f"{PODS}/web", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/pods", 405, "MethodNotAllowed"),
        ("PUT", PODS, 405, "MethodNotAllowed"),
        ("PATCH", PODS, 405, "MethodNotAllowed"),
        ("OPTIONS", PODS, 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1", 405, "MethodNotAllowed"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405, "MethodNotAllowed"),
    ],
)
async def test_errors_are_status_objects(standing: Served, method: str, path: str, status: int, reason: str) -> None:
    async with standing.session() as http, http.request(method, path) as response:
        told = orjson.loads(await response.read())
        assert (response.status, told["kind"], told["status"]) == (status, "Status", "Failure")
        assert (told["code"], told["reason"]) == (status, reason)
        assert told["message"]


@on_standing
@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 400),
        (b'{"metadata": 7}', "application/json", 400),
        (b"\xff\xfe", "application/yaml", 400),
        (b"x" * 20, "application/vnd.kubernetes.protobuf", 400),
        (b"{}", "application/cbor", 415),
        (b" " * (LARGEST_BODY + 1), "application/json", 413),
    ],
)
async def test_an_unreadable_body_is_an_error(standing: Served, body: bytes, content_type: str, status: int) -> None:
    async with (
        standing.session() as http,
        http.post(PODS, data=io.BytesIO(body), headers={"Content-Type": content_type}) as response,
    ):
        assert (response.status, orjson.loads(await response.read())["kind"]) == (status, "Status")


async def test_a_chunked_body_has_the_same_limit(served: Served) -> None:
    async def pieces() -> Any:
        for _ in range(40):
            yield b" " * 100_000

    async with served.session() as http, http.post(PODS, data=pieces()) as response:
        assert response.status == 413


async def test_requests_for_protobuf_only_are_refused(served: Served) -> None:
    async with served.session(Accept="application/vnd.kubernetes.protobuf") as http, http.get(PODS) as response:
        assert response.status == 406


@on_standing
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz?verbose", "/version"])
async def test_health_needs_no_token(standing: Served, path: str) -> None:
    async with standing.session("") as http, http.get(path) as response:
        assert response.status == 200


async def test_readyz_fails_with_the_store_and_says_why_to_users(served: Served) -> None:
    async with served.session() as http:
        served.cluster.store.database.limit_pages(12)
        large = {"metadata": {"name": "x"}, "data": {"x": "x" * 200_000}}
        async with http.post("/api/v1/namespaces/default/configmaps", json=large) as response:
            assert response.status == 507
        async with http.get("/readyz") as response:
            assert response.status == 507
            assert "is full: nothing was stored" in await response.text()
        async with served.session("") as anybody, anybody.get("/readyz") as response:
            assert response.status == 401
        served.cluster.store.database.limit_pages(0)
        async with http.post("/api/v1/namespaces/default/configmaps", json=large) as response:
            assert response.status == 201
        async with http.get("/readyz") as response:
            assert response.status == 200


@on_standing
@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/api/v1", "/openapi/v2", "/openapi/v3", PODS, "/metrics"])
@pytest.mark.parametrize("token", ["", "wrong", "muster_" + "A" * 43, "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.x"])
async def test_anonymous_requests_are_refused(standing: Served, path: str, token: str) -> None:
    async with standing.session(token) as http, http.get(path) as response:
        told = orjson.loads(await response.read())
        assert (response.status, told["reason"]) == (401, "Unauthorized")
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
        assert not token or token not in str(told)


async def test_discovery_follows_the_catalogue(served: Served) -> None:
    async with served.session() as http:

        async def groups() -> set[str]:
            async with http.get("/apis", headers={"Accept": KINDS_AT_ONCE}) as response:
                assert "as=APIGroupDiscoveryList" in response.headers["Content-Type"]
                return {item["metadata"]["name"] for item in orjson.loads(await response.read())["items"]}

        assert "acme.io" not in await groups()
        served.cluster.catalogue.register(Kind("acme.io", "v1", "Widget", "widgets"))
        assert "acme.io" in await groups()
        async with http.get("/apis/acme.io/v1/widgets") as response:
            assert orjson.loads(await response.read())["kind"] == "WidgetList"


async def test_an_unchanged_document_is_not_sent_again(served: Served) -> None:
    async with served.session() as http:
        async with http.get("/openapi/v3/api/v1") as response:
            tag = response.headers["ETag"]
        async with http.get("/openapi/v3/api/v1", headers={"If-None-Match": tag}) as response:
            assert (response.status, await response.read()) == (304, b"")
        served.cluster.catalogue.register(Kind("", "v1", "Widget", "widgets"))
        async with http.get("/openapi/v3/api/v1", headers={"If-None-Match": tag}) as response:
            assert response.status == 200


async def test_internal_errors_do_not_expose_a_traceback(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> Listing:
        raise ZeroDivisionError("the secret is 42")

    monkeypatch.setattr(served.cluster, "list", broken)
    with caplog.at_level(logging.ERROR):
        async with served.session() as http, http.get(PODS) as response:
            told = orjson.loads(await response.read())
    assert (response.status, told["reason"]) == (500, "InternalError")
    assert "42" not in str(told)
    assert "ZeroDivisionError" in caplog.text


async def test_secrets_are_not_logged(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}, "extra": "hunter2"}
    with caplog.at_level(logging.DEBUG):
        async with served.session() as http:
            for token in (served.token, "muster_hunter2"):
                headers = {"Authorization": f"Bearer {token}"}
                async with http.post("/api/v1/namespaces/default/secrets", json=secret, headers=headers) as response:
                    await response.read()
    assert "hunter2" not in caplog.text and served.token not in caplog.text


async def test_it_can_be_mounted_under_a_path(served: Served) -> None:
    """The API can be mounted below a path."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": f"/kube{PODS}", "root_path": "/kube", "query_string": b"",
        "headers": [(b"authorization", f"Bearer {served.token}".encode())],
    }  # fmt: skip
    await kube_app(served.cluster, served.identity)(scope, receive, send)
    assert sent[0]["status"] == 200
    assert orjson.loads(sent[1]["body"])["kind"] == "PodList"


async def test_many_concurrent_requests(served: Served) -> None:
    async with served.session() as http:

        async def create(number: int) -> int:
            body = {"metadata": {"name": f"c{number}"}}
            async with http.post("/api/v1/namespaces/default/configmaps", json=body) as response:
                return response.status

        assert set(await asyncio.gather(*(create(n) for n in range(200)))) == {201}
