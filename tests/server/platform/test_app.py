"""What is true of every route: identity, problems, headers, parameters, the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from muster.server.platform.app import platform_app
from tests.server.platform.served import Served

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""These tests do not depend on the database."""

OPEN = {
    ("GET", "/api/v1/health"),
    ("GET", "/api/v1/login-options"),
    ("POST", "/api/v1/session"),
    ("POST", "/api/v1/link"),
    ("POST", "/api/v1/link/use"),
    ("GET", "/api/v1/openid/login"),
    ("GET", "/api/v1/openid/callback"),
    ("POST", "/api/v1/dispatch/jobs/{job}/progress"),
}
"""Routes for logging in and for health checks, and one that takes a token of its own."""


def routes(served: Served) -> set[tuple[str, str]]:
    found = iter_route_contexts(platform_app(served.platform).routes)
    return {(method, str(route.path)) for route in found for method in route.methods or ()}


async def test_every_route_except_login_needs_a_user(served: Served) -> None:
    there = routes(served)
    assert there >= OPEN
    assert len(there) > 20
    stranger = served.client()
    for method, path in sorted(there - OPEN):
        address = re.sub(r"\{[^}]*\}", "x", path)
        for headers in ({}, {"Authorization": "Bearer mst_nonsense"}, {"Cookie": "muster_session=nonsense"}):
            reply = await stranger(method, address, headers=headers)
            csrf = method != "GET" and "Cookie" in headers
            reply.refused(403 if csrf else 401)
            assert csrf or reply.headers["WWW-Authenticate"] == "Bearer"


async def test_a_missing_path_is_a_problem_too(served: Served) -> None:
    assert (await served.client()("GET", "nothing")).refused(404)["type"] == "/problems/not-found"
    assert (await served.client()("PUT", "health")).refused(405)["type"] == "/problems/method-not-allowed"


@pytest.mark.parametrize(
    ("method", "path", "body", "errors"),
    [
        ("POST", "users", {"nam": "x"}, {"name": "this field is required", "nam": "there is no such field"}),
        ("POST", "users", {"name": "X Y"}, {"name": '"X Y" is not a valid account name; use lower-case'}),
        ("POST", "users", {"name": "x", "password": "short"}, {"password": "the password has 5 characters; use"}),
        ("POST", "tokens", {"name": "t", "scopes": ["read", "fly"]},
         {"scopes[1]": "input should be 'read', 'write' or 'admin'"}),
        ("GET", "users?limit=0", None, {"limit": "use 1 or more"}),
        ("GET", "users?sort=age", None, {"sort": 'cannot sort by "age"; use one of name, created'}),
        ("GET", "users?rolle=admin", None, {"rolle": "there is no such query parameter; known parameters: q, role, "}),
    ],
)  # fmt: skip
async def test_problems_name_the_invalid_fields(
    served: Served, method: str, path: str, body: object, errors: dict[str, str]
) -> None:
    problem = (await served.admin(method, path, body)).refused(422)
    found = {error["field"]: error["message"] for error in problem["errors"]}
    assert found.keys() == errors.keys()
    for field, message in errors.items():
        assert found[field].startswith(message)
        assert field in problem["detail"]


async def test_a_body_that_is_not_json_is_refused(served: Served) -> None:
    reply = await served.admin("POST", "users", headers={"Content-Type": "application/json"})
    assert reply.refused(422)["errors"][0]["message"] == "this field is required"


async def test_responses_have_security_headers(served: Served) -> None:
    for reply in (await served.client()("GET", "health"), await served.client()("GET", "users")):
        assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
        assert "unsafe-inline" not in reply.headers["Content-Security-Policy"].split("script-src")[1].split(";")[0]
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Cache-Control"] == "no-store"
        assert "Strict-Transport-Security" not in reply.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 401),
        ({"Sec-Fetch-Site": "none"}, 401),
    ],
)
async def test_pages_of_other_sites_cannot_log_in(served: Served, headers: dict[str, str], status: int) -> None:
    (await served.client()("POST", "session", {"name": "a", "password": "b"}, headers=headers)).refused(status)


async def test_a_page_of_the_same_site_can_log_in(served: Served) -> None:
    reply = await served.client()("POST", "session", {"name": "a", "password": "b"}, headers={"Origin": served.url})
    reply.refused(401)


async def test_bodies_have_a_limit(served: Served) -> None:
    (await served.admin("POST", "users", headers={"Content-Length": "17000000"})).refused(413)


async def test_the_document_has_unique_operations_with_responses(served: Served) -> None:
    document = await served.admin.get("openapi.json")
    operations = [op for path in document["paths"].values() for op in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        assert re.fullmatch(r"[a-z_]+", operation["operationId"])
        assert operation["tags"]
        good = [code for code in operation["responses"] if code.startswith(("2", "3"))]
        assert good, operation["operationId"]
        assert "4XX" in operation["responses"]
        for code in good:
            answer: Any = next(iter(operation["responses"][code].get("content", {}).values()), {})
            assert code in {"204", "302"} or "$ref" in answer["schema"] or answer["schema"]["type"], operation
    assert not [path for path in document["paths"] if not path.startswith("/api/v1/")]
