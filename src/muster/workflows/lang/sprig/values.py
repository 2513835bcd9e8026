"""sprig's functions on any value: defaults, choices, types, JSON, base64, checksums."""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import decode32, decode64, encode32, encode64, from_json, to_json
from muster.workflows.lang.go_strings import to_bytes
from muster.workflows.lang.go_values import deep_equal, go_kind, go_type
from muster.workflows.lang.sprig.arguments import function_table, is_empty

# -- Defaults, choices, JSON and copies


def _default(default: Any, *given: Any) -> Any:
    return default if not given or is_empty(given[0]) else given[0]


def _fail(message: str) -> Any:
    raise ExpressionError(message)


def _with_fallback(function: Callable[[Any], Any], otherwise: Any) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        try:
            return function(value)
        except ExpressionError:
            return otherwise

    return call


def _pretty(value: Any) -> str:
    return to_json(value, indent="  ")


def _raw(value: Any) -> str:
    return to_json(value, escape_html=False)


DEFAULT_FUNCTIONS = function_table(
    ("default", "any, ...any", _default),
    ("empty", "any", is_empty),
    ("coalesce", "...any", lambda *values: next((value for value in values if not is_empty(value)), None)),
    ("all", "...any", lambda *values: not any(map(is_empty, values))),
    ("any", "...any", lambda *values: not all(map(is_empty, values))),
    ("ternary", "any, any, bool", lambda then, otherwise, condition: then if condition else otherwise),
    ("fail", "string", _fail),
    ("fromJson", "string", _with_fallback(from_json, None)),
    ("mustFromJson", "string", from_json),
    ("toJson", "any", _with_fallback(to_json, "")),
    ("mustToJson", "any", to_json),
    ("toPrettyJson", "any", _with_fallback(_pretty, "")),
    ("mustToPrettyJson", "any", _pretty),
    ("toRawJson mustToRawJson", "any", _raw),
    ("deepCopy mustDeepCopy", "any", copy.deepcopy),
)


# -- Types and kinds, by Go's names

TYPE_FUNCTIONS = function_table(
    ("typeOf", "any", go_type),
    ("typeIs", "string, any", lambda name, value: go_type(value) == name),
    ("typeIsLike", "string, any", lambda name, value: go_type(value) in (name, "*" + name)),
    ("kindOf", "any", go_kind),
    ("kindIs", "string, any", lambda name, value: go_kind(value) == name),
    ("deepEqual", "any, any", deep_equal),
)


# -- Base64, base32 and checksums


def _with_error_as_result(decode: Callable[[str], str]) -> Callable[[str], str]:
    """Returns the error message as the result, as sprig does."""

    def call(text: str) -> str:
        try:
            return decode(text)
        except ExpressionError as error:
            return error.message

    return call


ENCODING_FUNCTIONS = function_table(
    ("b64enc", "string", encode64),
    ("b64dec", "string", _with_error_as_result(decode64)),
    ("b32enc", "string", encode32),
    ("b32dec", "string", _with_error_as_result(decode32)),
    ("sha1sum", "string", lambda text: hashlib.sha1(to_bytes(text), usedforsecurity=False).hexdigest()),
    ("sha256sum", "string", lambda text: hashlib.sha256(to_bytes(text)).hexdigest()),
    ("sha512sum", "string", lambda text: hashlib.sha512(to_bytes(text)).hexdigest()),
    ("adler32sum", "string", lambda text: str(zlib.adler32(to_bytes(text)))),
)
