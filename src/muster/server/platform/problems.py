"""Errors as problem+json (RFC 9457), with the path of every faulty field."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from muster.kube.encryption import EncryptionError
from muster.kube.errors import ApiError
from muster.platform.errors import (
    BadRequestProblem,
    ConflictProblem,
    ForbiddenProblem,
    InvalidProblem,
    NotFoundProblem,
    Problem,
    TooManyRequestsProblem,
    UnavailableProblem,
)
from muster.platform.messages import FieldError, field_error

log = logging.getLogger(__name__)

_PHRASES = {404: ("not-found", "Not found"), 405: ("method-not-allowed", "Method not allowed")}


class FieldProblem(BaseModel):
    field: str
    message: str
    code: str | None = None
    """The code of the message in the catalog, for translations."""
    arguments: dict[str, Any] | None = None


class ProblemDocument(BaseModel):
    """The form of every error."""

    type: str
    title: str
    status: int
    detail: str
    code: str | None = None
    """The code of `detail` in the message catalog, for translations."""
    arguments: dict[str, Any] | None = None
    errors: list[FieldProblem] = []


def answer_problems(app: FastAPI) -> None:
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(DBAPIError, _database)
    app.add_exception_handler(ApiError, _cluster)
    app.add_exception_handler(EncryptionError, _encryption)


def problem_response(problem: Problem) -> Response:
    errors = [
        {"field": error.field, "message": error.message, "code": error.code or None, "arguments": error.arguments}
        for error in problem.errors
    ]
    code = {"code": problem.code, "arguments": problem.arguments} if problem.code else {}
    return _response(problem.status, problem.type, problem.title, problem.detail, errors, problem.headers, code)


def field_path(location: Sequence[str | int]) -> str:
    """('body', 'nodes', 0, 'name') is nodes[0].name."""
    path = ""
    for part in location[1:]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(InvalidProblem.fields([_field_error(given) for given in error.errors()]))


async def _http(_: Request, error: Exception) -> Response:
    """Errors of the framework: no such path, no such method."""
    assert isinstance(error, HTTPException)
    kind, title = _PHRASES.get(error.status_code, ("http", "The request cannot be answered"))
    return _response(error.status_code, kind, title, str(error.detail), [], dict(error.headers or {}))


async def _database(request: Request, error: Exception) -> Response:
    log.error("%s %s: the database failed", request.method, request.url.path, exc_info=error)
    return problem_response(UnavailableProblem.of("database"))


async def _encryption(request: Request, error: Exception) -> Response:
    log.error("%s %s: %s", request.method, request.url.path, error)
    return problem_response(UnavailableProblem.of("encryption"))


async def _cluster(request: Request, error: Exception) -> Response:
    """Errors of the cluster and of the workers that no route expects."""
    assert isinstance(error, ApiError)
    if error.code >= 500:
        log.error("%s %s: the cluster failed", request.method, request.url.path, exc_info=error)
    problem = _CLUSTER_PROBLEMS.get(error.code, BadRequestProblem if error.code < 500 else UnavailableProblem)
    headers = {} if error.retry_after is None else {"Retry-After": str(max(1, round(error.retry_after)))}
    return problem_response(problem(error.message).with_headers(headers))


_CLUSTER_PROBLEMS: dict[int, type[Problem]] = {
    403: ForbiddenProblem,
    404: NotFoundProblem,
    409: ConflictProblem,
    429: TooManyRequestsProblem,
}

_KNOWN = {
    "missing": ("field.missing", {}),
    "extra_forbidden": ("field.unknown", {}),
    "string_too_long": ("field.long", {"most": "max_length"}),
    "string_too_short": ("field.short", {"least": "min_length"}),
    "greater_than_equal": ("field.least", {"least": "ge"}),
    "less_than_equal": ("field.most", {"most": "le"}),
    "int_parsing": ("field.number", {}),
    "float_parsing": ("field.number", {}),
}
"""Codes for the errors of pydantic."""


def _field_error(given: Any) -> FieldError:
    where = field_path(given["loc"])
    known = _KNOWN.get(given["type"])
    if known is not None:
        code, arguments = known
        return field_error(where, code, **{name: given["ctx"][key] for name, key in arguments.items()})
    message = str(given["msg"]).removeprefix("Value error, ")
    return FieldError(where, message[:1].lower() + message[1:])


def _response(
    status: int,
    kind: str,
    title: str,
    detail: str,
    errors: list[dict[str, Any]],
    headers: dict[str, str],
    code: Mapping[str, Any] | None = None,
) -> Response:
    document: dict[str, Any] = {"type": f"/problems/{kind}", "title": title, "status": status, "detail": detail}
    document |= code or {}
    document["errors"] = errors
    return Response(orjson.dumps(document), status, headers, "application/problem+json")
