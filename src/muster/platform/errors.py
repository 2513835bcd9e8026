"""Errors of the platform, in the form of the API's responses (problem+json, RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from muster.platform.messages import FieldError, field_error


class Problem(Exception):
    """A request cannot be fulfilled. `detail` tells the user why, and what to do instead."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something went wrong on the server"

    def __init__(
        self, detail: str, errors: Sequence[FieldError] = (), *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.code = ""
        """The code of `detail` in the message catalog, ..."""
        self.arguments: Mapping[str, Any] | None = None
        """... and its values."""

    @classmethod
    def of(cls, code: str, /, **arguments: Any) -> Self:
        """With a message of the catalog."""
        return cls.from_error(field_error("", code, **arguments))

    @classmethod
    def from_error(cls, error: FieldError) -> Self:
        problem = cls(error.message, [error] if error.field else ())
        problem.code, problem.arguments = error.code, error.arguments
        return problem

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        self.headers |= headers
        return self


class BadRequestProblem(Problem):
    status, type, title = 400, "bad-request", "The request is not valid"


class UnauthenticatedProblem(Problem):
    status, type, title = 401, "unauthenticated", "Log in first"


class ForbiddenProblem(Problem):
    status, type, title = 403, "forbidden", "You do not have permission"


class NotFoundProblem(Problem):
    status, type, title = 404, "not-found", "Not found"

    @classmethod
    def named(cls, kind: str, name: str) -> Self:
        return cls.of("missing", kind=kind, name=name)


class ConflictProblem(Problem):
    status, type, title = 409, "conflict", "The request conflicts with the current state"


class PreconditionFailedProblem(Problem):
    status, type, title = 412, "changed-meanwhile", "Someone else changed it"

    @classmethod
    def check(cls, kind: str, name: str, revision: int, expected: int | None) -> None:
        """Raises if a client expects another revision than the current one."""
        if expected is not None and expected != revision:
            raise cls.of("changed", kind=kind, name=name)


class TooLargeProblem(Problem):
    status, type, title = 413, "too-large", "The request is too large"


class InvalidProblem(Problem):
    status, type, title = 422, "invalid", "Some fields are not valid"

    @classmethod
    def field(cls, field: str, code: str, /, **arguments: Any) -> Self:
        return cls.fields([field_error(field, code, **arguments)])

    @classmethod
    def fields(cls, errors: Sequence[FieldError]) -> Self:
        return cls("; ".join(f"{e.field}: {e.message}" if e.field else e.message for e in errors), errors)


class TooManyRequestsProblem(Problem):
    status, type, title = 429, "too-many-requests", "Too many attempts"


RETRY_SECONDS = 2
"""When a client tries again after something did not respond. A restart takes about as long."""


class UnavailableProblem(Problem):
    """With a Retry-After header."""

    status, type, title = 503, "unavailable", "The service is not available"

    def __init__(
        self, detail: str, errors: Sequence[FieldError] = (), *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail, errors, headers={"Retry-After": str(RETRY_SECONDS), **(headers or {})})


@contextmanager
def conflict_on_duplicate(error: FieldError) -> Iterator[None]:
    """Raises Conflict with this error if a row collides with another one, for example because its name is taken."""
    from sqlalchemy.exc import IntegrityError

    try:
        yield
    except IntegrityError:
        raise ConflictProblem.from_error(error) from None
