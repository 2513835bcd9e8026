"""Errors as problem+json (RFC 9457), with the path of every faulty field.

A database or a cluster that does not respond is a 503 with Retry-After, wherever in a request it is noticed.
"""

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
from muster.kube.errors import ApiError, Unavailable, lacks_permission
from muster.platform.database.database import is_disconnected
from muster.platform.errors import (
    BadRequestProblem,
    ConflictProblem,
    ForbiddenProblem,
    InvalidProblem,
    NotFoundProblem,
    Problem,
    TooLargeProblem,
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
    for kind in (DBAPIError, ApiError, EncryptionError):
        app.add_exception_handler(kind, _failure)


def problem_of(error: Exception, request: str) -> Problem:
    """Returns what the client learns about an error, and logs what only an admin can do something about. `request` is
    for the log."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, DBAPIError):
        if is_disconnected(error):
            log.warning("%s: the database does not respond: %s", request, str(error.orig).strip())
        else:
            log.error("%s: the database failed", request, exc_info=error)
        return UnavailableProblem.of("database")
    if isinstance(error, ApiError):
        return _cluster_problem(error, request)
    if isinstance(error, EncryptionError):
        log.error("%s: %s", request, error)
        return UnavailableProblem.of("encryption")
    log.error("%s failed", request, exc_info=error)
    return Problem.of("bug")


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


async def _failure(request: Request, error: Exception) -> Response:
    return problem_response(problem_of(error, f"{request.method} {request.url.path}"))


def _cluster_problem(error: ApiError, request: str) -> Problem:
    """For errors of the cluster and of the workers that no route expects."""
    if lacks_permission(error):
        # It is the server that may not do it, not the user.
        log.warning("%s: %s", request, error)
        return UnavailableProblem(error.message)
    if isinstance(error, Unavailable):
        log.warning("%s: %s", request, error)
    elif error.code >= 500:
        log.error("%s: the cluster failed", request, exc_info=error)
    problem = _CLUSTER_PROBLEMS.get(error.code, BadRequestProblem if error.code < 500 else UnavailableProblem)
    headers = {} if error.retry_after is None else {"Retry-After": str(max(1, round(error.retry_after)))}
    return problem(error.message).with_headers(headers)


_CLUSTER_PROBLEMS: dict[int, type[Problem]] = {
    403: ForbiddenProblem,
    404: NotFoundProblem,
    409: ConflictProblem,
    413: TooLargeProblem,
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
