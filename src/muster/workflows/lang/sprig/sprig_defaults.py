"""sprig: defaults and emptiness, choices, JSON and copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import from_json, to_json
from muster.workflows.lang.sprig.sprig_functions import function_table, is_empty


def _default(default: Any, *given: Any) -> Any:
    return default if not given or is_empty(given[0]) else given[0]


def _fail(message: str) -> Any:
    raise ExpressionError(message)


def _forgiving(function: Callable[[Any], Any], otherwise: Any) -> Callable[[Any], Any]:
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


FUNCTIONS = function_table(
    ("default", "any, ...any", _default),
    ("empty", "any", is_empty),
    ("coalesce", "...any", lambda *values: next((value for value in values if not is_empty(value)), None)),
    ("all", "...any", lambda *values: not any(map(is_empty, values))),
    ("any", "...any", lambda *values: not all(map(is_empty, values))),
    ("ternary", "any, any, bool", lambda then, otherwise, condition: then if condition else otherwise),
    ("fail", "string", _fail),
    ("fromJson", "string", _forgiving(from_json, None)),
    ("mustFromJson", "string", from_json),
    ("toJson", "any", _forgiving(to_json, "")),
    ("mustToJson", "any", to_json),
    ("toPrettyJson", "any", _forgiving(_pretty, "")),
    ("mustToPrettyJson", "any", _pretty),
    ("toRawJson mustToRawJson", "any", _raw),
    ("deepCopy mustDeepCopy", "any", copy.deepcopy),
)
