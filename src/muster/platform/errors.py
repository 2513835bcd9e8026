"""What goes wrong, in the shape that the API answers with (problem+json, RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self


@dataclass(frozen=True, slots=True)
class FieldError:
    field: str
    """Where, as in `nodes[0].name`."""
    message: str
    code: str = ""
    """For those who show it in another language: what it is, ..."""
    arguments: Mapping[str, Any] | None = None
    """... and what to put into the sentence."""


class Problem(Exception):
    """The request cannot be fulfilled; `detail` tells the person who made it why, and what to do instead."""

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
        """For those who show it in another language: what `detail` says, ..."""
        self.arguments: Mapping[str, Any] | None = None
        """... and what to put into the sentence."""

    @classmethod
    def told(cls, what: FieldError) -> Self:
        """With its code; of a field, if it names one."""
        problem = cls(what.message, [what] if what.field else ())
        problem.code, problem.arguments = what.code, what.arguments
        return problem


class BadRequest(Problem):
    status, type, title = 400, "bad-request", "The request cannot be understood"


class Unauthenticated(Problem):
    status, type, title = 401, "unauthenticated", "Log in first"


class Forbidden(Problem):
    status, type, title = 403, "forbidden", "You may not do this"


class NotFound(Problem):
    status, type, title = 404, "not-found", "There is no such thing"

    @classmethod
    def of(cls, kind: str, name: str) -> Self:
        return cls.told(FieldError("", f'there is no {kind} "{name}"', "missing", {"kind": kind, "name": name}))


class Conflict(Problem):
    status, type, title = 409, "conflict", "It does not fit what is there"


class PreconditionFailed(Problem):
    status, type, title = 412, "changed-meanwhile", "Somebody else changed it meanwhile"


class TooLarge(Problem):
    status, type, title = 413, "too-large", "It is too large"


class Invalid(Problem):
    status, type, title = 422, "invalid", "Some fields are not right"

    @classmethod
    def field(cls, field: str, message: str) -> Self:
        return cls.fields([FieldError(field, message)])

    @classmethod
    def fields(cls, errors: Sequence[FieldError]) -> Self:
        """One or more fields at fault."""
        return cls("; ".join(f"{e.field}: {e.message}" if e.field else e.message for e in errors), errors)


class TooManyRequests(Problem):
    status, type, title = 429, "too-many-requests", "Too many attempts"


class Unavailable(Problem):
    status, type, title = 503, "unavailable", "Not now"


@contextmanager
def conflict_on_duplicate(what: str | FieldError, field: str = "") -> Iterator[None]:
    """A row that collides with another one (its name is taken, say) is a Conflict with this message."""
    from sqlalchemy.exc import IntegrityError

    error = what if isinstance(what, FieldError) else FieldError(field, what)
    try:
        yield
    except IntegrityError:
        raise Conflict.told(error) from None
