"""The errors of the Kubernetes API (a code, a reason, and the fields at fault), the wording of problems with a field,
and the name syntaxes of Kubernetes (DNS labels, qualified names, ...).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

import orjson


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


def lacks_permission(error: Exception) -> bool:
    """Whether the cluster refused a request because the account may not make it. An API server that starts refuses
    everything until it has read its roles, and an admin may add what is missing; admission refuses what is written in
    an object."""
    return isinstance(error, Forbidden) and bool(_NO_PERMISSION.search(error.message))


_NO_PERMISSION = re.compile(r'is forbidden: User "[^"]*" cannot ')
"""The words of Kubernetes' authorizer. Admission says something else, such as `violates PodSecurity`."""

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


REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
TYPE_INVALID = "FieldValueTypeInvalid"
DUPLICATE = "FieldValueDuplicate"
FORBIDDEN = "FieldValueForbidden"
NOT_FOUND = "FieldValueNotFound"

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean (true or false)",
}


def invalid(field: str, value: Any, why: str) -> Cause:
    return Cause(field, f"Invalid value: {format_value(value)}: {why}", INVALID)


def required(field: str, why: str = "") -> Cause:
    return Cause(field, f"Required value: {why}" if why else "Required value", REQUIRED)


def forbidden(field: str, why: str) -> Cause:
    return Cause(field, f"Forbidden: {why}", FORBIDDEN)


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, f"Duplicate value: {format_value(value)}", DUPLICATE)


def not_found(field: str, value: str, there: Iterable[str], what: str) -> Cause:
    """`value` should be one of the names in `there`, which are `what`."""
    names = sorted(there)
    near = closest_word(value, names)
    if near:
        hint = f'did you mean "{near}"?'
    elif names:
        hint = f"the {what} are {', '.join(format_value(name) for name in names)}"
    else:
        hint = f"there are no {what}"
    return Cause(field, f"Not found: {format_value(value)}; {hint}", NOT_FOUND)


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    near = closest_word(value, [v for v in allowed if isinstance(v, str)]) if isinstance(value, str) else None
    hint = f' (did you mean "{near}"?)' if near else ""
    listed = ", ".join(format_value(v) for v in allowed)
    return Cause(field, f"Unsupported value: {format_value(value)}: supported values: {listed}{hint}", NOT_SUPPORTED)


def type_mismatch(value: Any, wanted: str) -> Cause:
    """`wanted` is an OpenAPI type, or a description of something else."""
    text = f"expected {_TYPES.get(wanted, wanted)}, got {_describe(value)}"
    advice = _suggest_fix(value, wanted)
    return Cause("", f"{text}; {advice}" if advice else text, TYPE_INVALID)


def format_value(value: Any) -> str:
    """Formats a value for a message: JSON, shortened."""
    if isinstance(value, str):
        value = value[:_LONGEST_SHOWN]
    try:
        text = orjson.dumps(value).decode()
    except TypeError:  # nested too deeply, a large number, or half of a surrogate pair
        text = f"({type(value).__name__})" if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


_LONGEST_SHOWN = 120
_LONGEST_WORD = 80
_MOST_WORDS = 500
"""Comparing words takes time, so long words and long lists get no suggestion."""


def closest_word(word: str, words: Iterable[str]) -> str | None:
    """Returns the word that was probably meant, if one is close."""
    words = list(words)
    if len(word) > _LONGEST_WORD or len(words) > _MOST_WORDS:
        return None
    same = {_normalize(w): w for w in words}.get(_normalize(word))
    if same is not None and same != word:
        return same
    near = get_close_matches(word, words, n=1, cutoff=0.7)
    return near[0] if near else None


def _normalize(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _describe(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {format_value(value)}"
    if isinstance(value, int | float):
        return f"the number {format_value(value)}"
    if isinstance(value, str):
        return f"a string {format_value(value)}"
    if isinstance(value, list):
        return f"a list {format_value(value)}" if len(value) == 1 else f"a list of {len(value)} items"
    return f"an object with {', '.join([str(key) for key in value][:3])}" if value else "an empty object"


def _suggest_fix(value: Any, wanted: str) -> str:
    scalar = isinstance(value, str | int | float)
    if wanted == "array":
        if scalar:
            return f'write it as "- {value if isinstance(value, str) else format_value(value)}"'
        return 'put "- " before its first field' if isinstance(value, dict) and value else ""
    if wanted == "string" and isinstance(value, bool):
        others = '"y", "yes" or "on"' if value else '"n", "no" or "off"'
        text = format_value(value)
        return f'put it in quotes: "{text}", or {others} if that is what you wrote (without quotes, YAML reads {text})'
    if wanted == "string" and scalar:
        return f'put it in quotes: "{format_value(value)}"'
    if wanted in ("integer", "number") and isinstance(value, str) and _is_number(value, wanted):
        return f"write it without quotes: {value}"
    if wanted == "boolean" and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off"):
        return f"write it without quotes: {'true' if value.lower() in ('true', 'yes', 'on') else 'false'}"
    if wanted == "a string, a number or a boolean" and isinstance(value, list | dict):
        return f"write it as JSON in quotes: '{format_value(value)}'"
    if wanted in ("object", "string") and isinstance(value, list) and len(value) == 1:
        return 'leave out the "- " before it'
    return ""


def _is_number(text: str, wanted: str) -> bool:
    try:
        (int if wanted == "integer" else float)(text)
    except ValueError:
        return False
    return True


# Field paths.


Step: TypeAlias = str | int

_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


def join_path(path: str, field: str) -> str:
    """`spec` and `containers[0]` -> `spec.containers[0]`; a bracket follows without a dot."""
    if not path:
        return field
    if not field or field[0] == "[":
        return path + field
    return f"{path}.{field}"


def split_path(path: str) -> list[Step]:
    """`spec.containers[0].image` -> ['spec', 'containers', 0, 'image']."""
    return [name or (int(index) if is_count(index) else index) for name, index in _STEP.findall(path)]


def format_path(steps: Iterable[Step]) -> str:
    """The inverse of `split_path`."""
    path = ""
    for step in steps:
        bracketed = isinstance(step, int) or "." in step or "/" in step
        path = join_path(path, f"[{step}]" if bracketed else str(step))
    return path


def value_at(value: Any, path: str) -> Any:
    """Returns the value at the path, or None."""
    for step in split_path(path):
        if isinstance(value, dict):
            value = value.get(step, value.get(str(step)))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


# The name syntaxes of Kubernetes (DNS labels, qualified names, ...), each with its
# explanation.


DNS_LABEL_RULE = "use lower case letters, digits and '-', at most 63; it starts and ends with a letter or digit"
DNS_NAME_RULE = "use lower case letters, digits, '-' and '.', at most 253; it starts and ends with a letter or digit"
QUALIFIED_RULE = (
    "a name has at most 63 letters, digits, '-', '_', '.', with a letter or digit at either end, and may have a "
    "prefix in lower case that is a DNS name, as in example.com/name"
)
LABEL_VALUE_RULE = "a label's value has at most 63 letters, digits, '-', '_', '.', and a letter or digit at either end"
PORT_NAME_RULE = "use at most 15 lower case letters, digits and single '-', at least one of them a letter"
ENV_NAME_RULE = "use printable ASCII characters other than '='"
FILE_KEY_RULE = "use at most 253 letters, digits, '-', '_' and '.', but not '.' or '..' or a name that begins with '..'"

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"(?=[-0-9]*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_FILE_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


# The length is checked before the cache: so long texts cannot fill it.


def is_dns_label(name: str) -> bool:
    return len(name) <= 63 and _is_dns_label(name)


def is_dns_name(name: str) -> bool:
    return len(name) <= 253 and _is_dns_name(name)


def is_qualified_name(name: str) -> bool:
    """A label key, resource name or taint key: `app`, `nvidia.com/gpu`."""
    return len(name) <= 253 + 1 + 63 and _is_qualified_name(name)


def is_label_value(value: str) -> bool:
    return len(value) <= 63 and _is_label_value(value)


def is_port_name(name: str) -> bool:
    return len(name) <= 15 and "--" not in name and _PORT_NAME.fullmatch(name) is not None


def is_env_name(name: str) -> bool:
    return _ENV_NAME.fullmatch(name) is not None


def is_file_key(name: str) -> bool:
    """A key of a ConfigMap or Secret, which becomes a file name."""
    return _FILE_KEY.fullmatch(name) is not None and not name.startswith("..") and name != "."


@lru_cache(maxsize=8192)
def _is_dns_label(name: str) -> bool:
    return _DNS_LABEL.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def _is_dns_name(name: str) -> bool:
    return _DNS_NAME.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def _is_qualified_name(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    return _NAME_PART.fullmatch(rest) is not None and (not slash or is_dns_name(prefix))


@lru_cache(maxsize=8192)
def _is_label_value(value: str) -> bool:
    return _LABEL_VALUE.fullmatch(value) is not None


def is_count(text: str) -> bool:
    """A whole number of at most 18 ASCII digits, so that `int` accepts it and 64 bits hold it."""
    return len(text) <= 18 and text.isascii() and text.isdigit()


def check_dns_label(field: str, name: str) -> Iterator[Cause]:
    if not name:
        yield required(field)
    elif not is_dns_label(name):
        yield invalid(field, name, DNS_LABEL_RULE)


def check_dns_name(field: str, name: str) -> Iterator[Cause]:
    if not name:
        yield required(field)
    elif not is_dns_name(name):
        yield invalid(field, name, DNS_NAME_RULE)


def check_labels(field: str, given: Mapping[str, Any] | None) -> Iterator[Cause]:
    for key, value in (given or {}).items():
        if not is_qualified_name(key):
            yield invalid(field, key, QUALIFIED_RULE)
        if not is_label_value(value):
            yield invalid(f"{field}[{key}]", value, LABEL_VALUE_RULE)
