"""The errors of the Kubernetes API: a code, a reason, and the fields at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple


class Cause(NamedTuple):
    """A problem with one field: `spec.containers[0].image`, `Required value`."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class ApiError(Exception):
    """Base of the errors that a `Cluster` raises. Subclasses define `code` and `reason`."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, causes: Sequence[Cause] = (), retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after

    def to_status(self) -> dict[str, Any]:
        """Returns the `Status` object that is sent to clients."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        details: dict[str, Any] = {}
        if self.causes:
            details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in self.causes]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = max(1, round(self.retry_after))
        if details:
            status["details"] = details
        return status


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    """None of the content types that the client accepts can be served."""

    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """The object has changed since it was read; read it again and repeat."""

    code, reason = 409, "Conflict"


class Gone(ApiError):
    """The requested resourceVersion is no longer in the history; list again."""

    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """The object violates its schema or a rule of its kind; `causes` name the fields."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    """The awaited condition did not occur in time; the request may be repeated."""

    code, reason = 504, "Timeout"


class StorageFull(ApiError):
    """Nothing was stored; existing data is intact."""

    code, reason = 507, "InsufficientStorage"


_BY_REASON: dict[str, type[ApiError]] = {
    cls.reason: cls
    for cls in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists, Conflict, Gone,
        TooLarge, UnsupportedMediaType, Invalid, TooManyRequests, Unavailable, Timeout, StorageFull,
    )
}  # fmt: skip
_BY_REASON["Gone"] = Gone
_BY_CODE: dict[int, type[ApiError]] = {cls.code: cls for cls in reversed(_BY_REASON.values())}
_BY_CODE[Conflict.code] = Conflict  # without a reason, assume the error that a caller may simply repeat


def from_status(status: Mapping[str, Any], code: int = 500) -> ApiError:
    """Returns the error for a `Status` object, or for an HTTP code if the reason is unknown."""
    code = int(status.get("code") or code)
    cls = _BY_REASON.get(str(status.get("reason"))) or _BY_CODE.get(code, ApiError)
    details = status.get("details") or {}
    causes = [
        Cause(str(c.get("field", "")), str(c.get("message", "")), str(c.get("reason", "")))
        for c in details.get("causes") or ()
    ]
    return cls(
        str(status.get("message") or f"the API answered {code}"),
        causes=causes,
        retry_after=details.get("retryAfterSeconds"),
    )
