"""The limits a schema sets on the value itself: how large, how long, how many, which pattern."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from muster.kube.causes import invalid
from muster.kube.errors import Cause
from muster.kube.kinds import Schema

_Rule: TypeAlias = Callable[[Any], "str | None"]


def limits_check(schema: Schema) -> Callable[[Any], list[Cause] | None] | None:
    """One check for all limits in the schema; None if it sets none. A limit on another type of value is met."""
    rules: list[Callable[[Any], str | None]] = []
    for keyword, rule in _LIMITS.items():
        if schema.get(keyword) is not None and schema[keyword] is not False:
            rules.append(rule(schema[keyword], schema))
    if not rules:
        return None

    def check_value(value: Any) -> list[Cause] | None:
        for rule in rules:
            complaint = rule(value)
            if complaint is not None:
                return [invalid("", value, complaint)]
        return None

    return check_value


def _number_rule(fits: Callable[[Any, Any], bool], words: str) -> Callable[[Any, Schema], _Rule]:
    def make(limit: Any, _: Schema) -> _Rule:
        return lambda v: f"{words} {limit}" if type(v) in (int, float) and not fits(v, limit) else None

    return make


def _size_rule(
    of: type[str] | type[list[Any]] | type[dict[str, Any]], fits: Callable[[int, int], bool], words: str, noun: str
) -> Callable[[Any, Schema], _Rule]:
    def make(limit: Any, _: Schema) -> _Rule:
        return lambda v: f"{words} {limit} {noun}" if type(v) is of and not fits(len(v), limit) else None

    return make


def _minimum_rule(limit: Any, schema: Schema) -> _Rule:
    if schema.get("exclusiveMinimum"):
        return lambda v: f"must be greater than {limit}" if type(v) in (int, float) and not v > limit else None
    return lambda v: f"must be greater than or equal to {limit}" if type(v) in (int, float) and v < limit else None


def _maximum_rule(limit: Any, schema: Schema) -> _Rule:
    if schema.get("exclusiveMaximum"):
        return lambda v: f"must be less than {limit}" if type(v) in (int, float) and not v < limit else None
    return lambda v: f"must be less than or equal to {limit}" if type(v) in (int, float) and v > limit else None


def _pattern_rule(pattern: str, _: Schema) -> _Rule:
    try:
        search = re.compile(pattern).search
    except re.error:  # RE2 knows a few things that Python does not; better no check than a wrong one
        return lambda _: None
    return lambda v: f"must match {pattern}" if type(v) is str and search(v) is None else None


def _unique_rule(_: Any, __: Schema) -> _Rule:
    return lambda v: (
        "must not have an item twice" if isinstance(v, list) and len({repr(i) for i in v}) < len(v) else None
    )


_LIMITS: dict[str, Callable[[Any, Schema], _Rule]] = {
    "minimum": _minimum_rule,
    "maximum": _maximum_rule,
    "multipleOf": _number_rule(lambda v, limit: v % limit == 0, "must be a multiple of"),
    "minLength": _size_rule(str, lambda size, limit: size >= limit, "must have at least", "characters"),
    "maxLength": _size_rule(str, lambda size, limit: size <= limit, "must have at most", "characters"),
    "minItems": _size_rule(list, lambda size, limit: size >= limit, "must have at least", "items"),
    "maxItems": _size_rule(list, lambda size, limit: size <= limit, "must have at most", "items"),
    "minProperties": _size_rule(dict, lambda size, limit: size >= limit, "must have at least", "entries"),
    "maxProperties": _size_rule(dict, lambda size, limit: size <= limit, "must have at most", "entries"),
    "pattern": _pattern_rule,
    "uniqueItems": _unique_rule,
}
