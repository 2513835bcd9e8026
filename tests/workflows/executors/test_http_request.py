from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.executors.http import (
    HttpRequest,
    HttpResponse,
    RequestError,
    build_request,
    referenced_secrets,
    response_outcome,
)

ANSWER = HttpResponse(200, {"Content-Type": ["text/plain"]}, b'{"ok": true}')
TOKEN = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "web", "key": "token"}}}


@pytest.mark.parametrize(
    ("http", "expected"),
    [
        ({"url": "http://x/"}, HttpRequest("GET", "http://x/", (), b"", None, True)),
        (
            {"url": "https://x/", "method": "POST", "body": "a", "timeoutSeconds": 3, "insecureSkipVerify": True},
            HttpRequest("POST", "https://x/", (), b"a", 3.0, False),
        ),
        (
            {"url": "http://x/", "headers": [{"name": "A", "value": "b"}, TOKEN], "bodyFrom": {"bytes": "aGk="}},
            HttpRequest("GET", "http://x/", (("A", "b"), ("Authorization", "secret")), b"hi", None, True),
        ),
    ],
)
def test_a_template_is_a_request(http: dict[str, Any], expected: HttpRequest) -> None:
    assert build_request({"http": http}, {("web", "token"): "secret"}) == expected


@pytest.mark.parametrize(
    ("http", "message"),
    [
        ({"url": ""}, 'http.url: "" must begin with http:// or https://'),
        ({"url": "file:///etc/passwd"}, 'http.url: "file:///etc/passwd" must begin with'),
        ({"url": "http://x/", "bodyFrom": {"bytes": "%"}}, "http.bodyFrom.bytes must be base64"),
    ],
)
def test_what_cannot_be_sent(http: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        build_request({"http": http}, {})
    assert str(raised.value).startswith(message)


def test_the_secrets_that_are_needed() -> None:
    assert referenced_secrets({"http": {"headers": [{"name": "A", "value": "b"}, TOKEN]}}) == [("web", "token")]


@pytest.mark.parametrize(
    ("status", "condition", "message"),
    [
        (200, "", ""),
        (204, "", ""),
        (301, "", "received non-2xx response code: 301"),
        (404, "", "received non-2xx response code: 404"),
        (404, "response.statusCode == 404", ""),
        (200, "response.statusCode == 404", "successCondition 'response.statusCode == 404' evaluated false"),
        (200, 'response.body contains "ok"', ""),
        (200, 'response.headers["Content-Type"][0] == "text/plain"', ""),
        (200, 'request.method == "PUT" && request.url == "http://x/" && request.body == "b"', ""),
        (200, 'request.headers["A"][0] == "b"', ""),
        (200, '"Authorization" in request.headers', "successCondition '\"Authorization\" in request"),
        (200, "len(request.bodyBytes) == 0", ""),
        (200, "response.statusCode", "successCondition: "),
        (200, "((", "successCondition: "),
    ],
)  # fmt: skip
def test_an_answer_is_judged(status: int, condition: str, message: str) -> None:
    http = {
        "url": "http://x/",
        "method": "PUT",
        "body": "b",
        "headers": [{"name": "A", "value": "b"}, TOKEN],
        "successCondition": condition,
    }
    outcome = response_outcome({"http": http}, HttpResponse(status, ANSWER.headers, ANSWER.body), "then", "now")
    assert outcome.phase == ("Failed" if message else "Succeeded")
    assert outcome.message.startswith(message)
    assert outcome.outputs == {"result": '{"ok": true}'}
