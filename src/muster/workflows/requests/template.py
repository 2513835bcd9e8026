"""What an http template asks for, and what its answer means. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.workflows.expressions.environment import evaluate_bool
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.values import Byte
from muster.workflows.model import Outcome, Outputs, Template

LARGEST_BODY = 4 * 1024 * 1024
"""Of an answer: it becomes a parameter."""


class RequestError(Exception):
    """The request cannot be made, or got no answer. The message is the node's."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout: float | None
    verify: bool


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, Sequence[str]]
    body: bytes


def secrets_of(template: Template) -> list[tuple[str, str]]:
    """(name, key) of the Secrets that its headers take their values from."""
    refs = [_secret(header) for header in _http(template).get("headers") or ()]
    return [(str(ref.get("name") or ""), str(ref.get("key") or "")) for ref in refs if ref]


def request_of(template: Template, secrets: Mapping[tuple[str, str], str]) -> Request:
    """Raises RequestError with the field that is wrong."""
    http = _http(template)
    url = str(http.get("url") or "")
    if not url.startswith(("http://", "https://")):
        raise RequestError(f'http.url: "{url}" must begin with http:// or https://')
    seconds = http.get("timeoutSeconds")
    return Request(
        method=str(http.get("method") or "GET"),
        url=url,
        headers=tuple((str(header.get("name")), _value(header, secrets)) for header in http.get("headers") or ()),
        body=_body(http),
        timeout=float(seconds) if seconds else None,
        verify=not http.get("insecureSkipVerify"),
    )


def outcome_of(template: Template, response: Response, started: str, finished: str) -> Outcome:
    """A condition sees `request` and `response` as Argo's does; values from Secrets it does not see."""
    http = _http(template)
    text = response.body.decode(errors="replace")
    message = _judged(http, response, text)
    return Outcome(
        "Failed" if message else "Succeeded",
        message,
        outputs=Outputs(result=text),
        started=started,
        finished=finished,
    )


def _judged(http: Mapping[str, Any], response: Response, text: str) -> str:
    """What is wrong with the answer; '' for nothing."""
    condition = http.get("successCondition")
    if not condition:
        is_good = 200 <= response.status < 300
        return "" if is_good else f"received non-2xx response code: {response.status}"
    given = [header for header in http.get("headers") or () if not header.get("valueFrom")]
    scope = {
        "request": {
            "method": http.get("method") or "",
            "url": http.get("url") or "",
            "body": http.get("body") or "",
            "bodyBytes": [Byte(byte) for byte in _body(http)] if http.get("bodyFrom") else [],
            "headers": {str(header.get("name")): [str(header.get("value") or "")] for header in given},
        },
        "response": {
            "statusCode": response.status,
            "body": text,
            "headers": {name: list(values) for name, values in response.headers.items()},
        },
    }
    try:
        holds = evaluate_bool(str(condition), scope)
    except ExpressionError as error:
        return f"successCondition: {error}"
    return "" if holds else f"successCondition '{condition}' evaluated false"


def _http(template: Template) -> dict[str, Any]:
    found: dict[str, Any] = template.get("http") or {}
    return found


def _secret(header: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return (header.get("valueFrom") or {}).get("secretKeyRef")


def _value(header: Mapping[str, Any], secrets: Mapping[tuple[str, str], str]) -> str:
    ref = _secret(header)
    if ref is None:
        return str(header.get("value") or "")
    return secrets.get((str(ref.get("name") or ""), str(ref.get("key") or "")), "")


def _body(http: Mapping[str, Any]) -> bytes:
    source = http.get("bodyFrom")
    if not source:
        return str(http.get("body") or "").encode()
    try:
        return base64.b64decode(str(source.get("bytes") or ""), validate=True)
    except binascii.Error:
        raise RequestError("http.bodyFrom.bytes: it must be base64") from None
