"""Errors as grpc-gateway writes them: a gRPC code, its HTTP status and a message."""

from __future__ import annotations

from typing import Any, NamedTuple

from muster.embedded.api.calls import Answer, answer
from muster.kube.errors import ApiError


class Unimplemented(ApiError):
    """Argo Server has this; the cluster in the box has no use for it."""

    code, reason = 501, "NotImplemented"


class Code(NamedTuple):
    number: int
    http: int
    text: str


_UNKNOWN_REQUEST = Code(3, 400, "Bad Request")
_INTERNAL = Code(13, 500, "Internal Server Error")
_CODES = {
    400: _UNKNOWN_REQUEST,
    401: Code(16, 401, "Unauthorized"),
    403: Code(7, 403, "Forbidden"),
    404: Code(5, 404, "Not Found"),
    409: Code(6, 409, "Conflict"),
    429: Code(8, 429, "Too Many Requests"),
    501: Code(12, 501, "Not Implemented"),
    503: Code(14, 503, "Service Unavailable"),
    504: Code(4, 504, "Gateway Timeout"),
}


def code_of(error: ApiError) -> Code:
    return _CODES.get(error.code) or (_UNKNOWN_REQUEST if error.code < 500 else _INTERNAL)


def failure(error: ApiError) -> Answer:
    code = code_of(error)
    made = answer({"code": code.number, "message": error.message}, status=code.http)
    if code.http == 401:
        made.headers.append((b"www-authenticate", b'Bearer realm="muster"'))
    return made


def stream_failure(error: ApiError) -> dict[str, Any]:
    """The last message of a stream that has already begun."""
    code = code_of(error)
    told = {"grpc_code": code.number, "http_code": code.http, "message": error.message, "http_status": code.text}
    return {"error": told}
