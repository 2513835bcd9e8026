"""Validates a value against a structural schema.

A schema is compiled once into nested closures. Each returns None for a value that fits, so the path of a field is only
built for a value that does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeAlias

from muster.kube.errors import (
    INVALID,
    REQUIRED,
    Cause,
    closest_word,
    duplicate,
    format_path,
    invalid,
    join_path,
    not_supported,
    split_path,
    type_mismatch,
)
from muster.kube.kinds import Schema
from muster.kube.quantity import QuantityError, parse_quantity

Check: TypeAlias = Callable[[Any], "list[Cause] | None"]

_UNKNOWN = "unknown"
_MEMO_LIMIT = 20_000
_memo: dict[int, tuple[Schema, Check]] = {}

_known_quantities: set[str] = set()
_BYTES = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_LONGEST_KNOWN = 32
MOST_PROBLEMS = 100
"""No more are reported: who sent them fixes these first, and explaining one takes time."""
_INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def validate(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """Returns what does not fit the schema, each with its path below `path`; an empty list if all is well. A null
    counts as an absent field."""
    problems = _compiled(schema)(value)
    if problems is None:
        return []
    causes = [_complete_cause(cause, schema, path) for cause in problems[:MOST_PROBLEMS]]
    if len(problems) >= MOST_PROBLEMS:
        causes.append(Cause(path, f"only the first {MOST_PROBLEMS} problems are listed", INVALID))
    return causes


def unknown_fields(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Returns the paths of fields that the schema does not have, the first ones if there are many."""
    problems = _compiled(schema)(value)
    return [join_path(path, cause.field) for cause in problems or () if cause.reason == _UNKNOWN]


def _compiled(schema: Schema) -> Check:
    known = _memo.get(id(schema))
    if known is not None:
        return known[1]
    if len(_memo) > _MEMO_LIMIT:  # custom kinds come and go; schemas in use are soon compiled again
        _memo.clear()
    check = _compile(schema)
    _memo[id(schema)] = (schema, check)  # keeps the schema alive, so that its id is not reused
    return check


def _compile(schema: Schema) -> Check:
    checks = [check for check in (_type_check(schema), limits_check(schema), _logic_check(schema)) if check]
    enum = schema.get("enum")
    if enum is not None:
        checks.append(_enum_check(enum))
    if not checks:
        return _accept
    if len(checks) == 1:
        return checks[0]

    def check_all(value: Any) -> list[Cause] | None:
        for check in checks:
            problems = check(value)
            if problems is not None:
                return problems
        return None

    return check_all


def _accept(_: Any) -> None:
    return None


def _type_check(schema: Schema) -> Check | None:
    if schema.get("x-kubernetes-int-or-string"):
        return _quantity_check if schema.get("format") == "quantity" else _int_or_string_check
    if schema.get("x-muster-scalar"):
        return _scalar_check
    match schema.get("type"):
        case "object":
            return _object_check(schema)
        case "array":
            return _list_check(schema)
        case "string":
            return _string_check(schema)
        case "integer":
            return _integer_check(schema)
        case "number":
            return lambda value: None if type(value) in (int, float) else [type_mismatch(value, "number")]
        case "boolean":
            return lambda value: None if value is True or value is False else [type_mismatch(value, "boolean")]
    if "properties" in schema or "additionalProperties" in schema:
        return _object_check(schema)
    return None


def _object_check(schema: Schema) -> Check:
    fields: dict[str, Check] = {key: _compiled(sub) for key, sub in (schema.get("properties") or {}).items()}
    if schema.get("x-kubernetes-embedded-resource"):
        for key in ("apiVersion", "kind", "metadata"):
            fields.setdefault(key, _accept)
    rest = schema.get("additionalProperties")
    other: Check | None = None
    if isinstance(rest, dict):
        other = _compiled(rest)
    elif rest or schema.get("x-kubernetes-preserve-unknown-fields") or (not fields and rest is None):
        other = _accept
    required = tuple(schema.get("required") or ())
    find = fields.get

    def check_object(value: Any) -> list[Cause] | None:
        if type(value) is not dict:
            return [type_mismatch(value, "object")]
        problems: list[Cause] | None = None
        for key, item in value.items():
            if problems is not None and len(problems) >= MOST_PROBLEMS:
                return problems
            check = find(key, other)
            if check is None:
                problems = problems or []
                problems.append(Cause(key, "", _UNKNOWN))
            elif item is not None:
                found = check(item)
                if found is not None:
                    problems = problems or []
                    step = key if key in fields else f"[{key}]"
                    problems += [Cause(join_path(step, c.field), c.message, c.reason) for c in found]
        for key in required:
            if value.get(key) is None:
                problems = problems or []
                problems.append(Cause(key, "Required value", REQUIRED))
        return problems

    return check_object


def _list_check(schema: Schema) -> Check:
    items = schema.get("items") or {}
    check = _compiled(items)
    empty = None if items.get("nullable") else [Cause("", "Required value: the list has an empty item", REQUIRED)]
    keys = _map_keys(schema)

    def check_list(value: Any) -> list[Cause] | None:
        if type(value) is not list:
            return [type_mismatch(value, "array")]
        problems: list[Cause] | None = None
        for index, item in enumerate(value):
            found = empty if item is None else check(item)
            if found is not None:
                problems = problems or []
                if len(problems) >= MOST_PROBLEMS:
                    return problems
                problems += [Cause(join_path(f"[{index}]", c.field), c.message, c.reason) for c in found]
        if keys is not None and problems is None and len(value) > 1:
            problems = _duplicates(value, keys)
        return problems

    return check_list


def _map_keys(schema: Schema) -> tuple[tuple[str, Any], ...] | None:
    """Returns the keys (with their defaults) that identify an item; () for a set, None where duplicates are allowed."""
    if schema.get("x-muster-duplicates"):
        return None
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return ()
        case "map":
            items = (schema.get("items") or {}).get("properties") or {}
            return tuple(
                (key, (items.get(key) or {}).get("default")) for key in schema.get("x-kubernetes-list-map-keys") or ()
            )
    return None


def _duplicates(items: list[Any], keys: tuple[tuple[str, Any], ...]) -> list[Cause] | None:
    seen: set[Any] = set()
    problems: list[Cause] = []
    for index, item in enumerate(items):
        identity = repr([item.get(key, default) for key, default in keys] if keys else item)
        if identity in seen:
            if len(keys) == 1:
                problems.append(duplicate(f"[{index}].{keys[0][0]}", item.get(keys[0][0])))
            else:
                shown: Any = {key: item[key] for key, _ in keys if key in item} if keys else item
                problems.append(duplicate(f"[{index}]", shown))
            if len(problems) >= MOST_PROBLEMS:
                return problems
        seen.add(identity)
    return problems or None


def _string_check(schema: Schema) -> Check:
    match schema.get("format"):
        case "date-time":
            return _time_check
        case "byte":
            return _bytes_check
    return _plain_string_check


def _plain_string_check(value: Any) -> list[Cause] | None:
    return None if type(value) is str else [type_mismatch(value, "string")]


def _time_check(value: Any) -> list[Cause] | None:
    if type(value) is not str:
        return [type_mismatch(value, "string")]
    try:
        if datetime.fromisoformat(value).tzinfo is not None:
            return None
    except ValueError:
        pass
    return [invalid("", value, 'must be a time as in RFC 3339, such as "2025-01-31T09:30:00Z"')]


def _bytes_check(value: Any) -> list[Cause] | None:
    if type(value) is not str:
        return [type_mismatch(value, "string")]
    stripped = value.replace("\n", "").replace("\r", "")
    if len(stripped) % 4 == 0 and _BYTES.fullmatch(stripped):
        return None
    return [invalid("", value, "must be base64; plain text goes into stringData of a Secret or data of a ConfigMap")]


def _integer_check(schema: Schema) -> Check:
    low, high = _INTEGER_RANGES.get(schema.get("format", ""), _INTEGER_RANGES["int64"])

    def check_integer(value: Any) -> list[Cause] | None:
        if type(value) is not int:
            return [type_mismatch(value, "integer")]
        if low <= value <= high:
            return None
        return [invalid("", value, f"must be between {low} and {high}")]

    return check_integer


def _int_or_string_check(value: Any) -> list[Cause] | None:
    if type(value) is int or type(value) is str:
        return None
    return [type_mismatch(value, "an integer or a string")]


def _scalar_check(value: Any) -> list[Cause] | None:
    if isinstance(value, str | int | float):
        return None
    return [type_mismatch(value, "a string, a number or a boolean")]


def _quantity_check(value: Any) -> list[Cause] | None:
    kind = type(value)
    if kind is str:
        if value in _known_quantities:
            return None
        try:
            parse_quantity(value)
        except QuantityError as error:
            return [invalid("", value, str(error))]
        if len(_known_quantities) < _MEMO_LIMIT and len(value) <= _LONGEST_KNOWN:
            _known_quantities.add(value)
        return None
    if kind is int or kind is float:
        return None
    return [type_mismatch(value, 'a quantity (such as "500m" or "2Gi")')]


def _enum_check(allowed: list[Any]) -> Check:
    def check_enum(value: Any) -> list[Cause] | None:
        if value in allowed:
            return None
        return [not_supported("", value, allowed)]

    return check_enum


def _logic_check(schema: Schema) -> Check | None:
    """Checks allOf, anyOf, oneOf and not. They only restrict values: the enclosing schema declares the fields."""
    if schema.get("x-kubernetes-int-or-string"):
        return None
    groups: list[tuple[str, list[Check]]] = [
        (word, [_compile(_allow_unknown(sub)) for sub in schema[word]])
        for word in ("allOf", "anyOf", "oneOf")
        if word in schema
    ]
    if "not" in schema:
        groups.append(("not", [_compile(_allow_unknown(schema["not"]))]))
    if not groups:
        return None

    def check_logic(value: Any) -> list[Cause] | None:
        for word, checks in groups:
            results = [check(value) for check in checks]
            fitting = sum(result is None for result in results)
            if word == "allOf" and fitting < len(checks):
                return next(result for result in results if result is not None)
            if word == "anyOf" and not fitting:
                return results[0] if len(results) == 1 else [invalid("", value, "must fit at least one of anyOf")]
            if word == "oneOf" and fitting != 1:
                return [invalid("", value, f"must fit exactly one of oneOf, fits {fitting}")]
            if word == "not" and fitting:
                return [invalid("", value, "must not fit the schema under not")]
        return None

    return check_logic


def _allow_unknown(schema: Schema) -> Schema:
    """Returns the schema with unknown fields allowed at every level."""
    opened = dict(schema)
    if "properties" in opened:
        opened["properties"] = {key: _allow_unknown(sub) for key, sub in opened["properties"].items()}
        opened.setdefault("x-kubernetes-preserve-unknown-fields", True)
    if "required" in opened and "type" not in opened:
        opened["type"] = "object"
    if isinstance(opened.get("items"), dict):
        opened["items"] = _allow_unknown(opened["items"])
    return opened


def _complete_cause(cause: Cause, schema: Schema, path: str) -> Cause:
    field = join_path(path, cause.field)
    if cause.reason != _UNKNOWN:
        return Cause(field, cause.message, cause.reason)
    return Cause(field, _explain_unknown(schema, cause.field), INVALID)


def _explain_unknown(schema: Schema, field: str) -> str:
    """Suggests the intended field: a similar name here, or the same name nearby."""
    steps = split_path(field)
    if not steps:
        return f'unknown field "{field}"'
    *parents, end = steps
    last = str(end)
    chain = [schema]
    for step in parents:
        chain.append(_subschema(chain[-1], step))
    text = f'unknown field "{last}"'
    here: Mapping[str, Any] = chain[-1].get("properties") or {}
    near = closest_word(last, list(here))
    if near:
        return f'{text}; did you mean "{near}"?'
    for depth in range(len(chain) - 2, -1, -1):
        if last in (chain[depth].get("properties") or {}):
            place = format_path([*parents[:depth], last])
            return f'{text}; did you mean "{place}"? Then it is indented too far'
    for name, sub in here.items():
        inner = sub.get("items") or sub
        if last in (inner.get("properties") or {}):
            return f'{text}; did you mean it to be inside "{name}"?'
    return text


def _subschema(schema: Schema, step: str | int) -> Schema:
    if isinstance(step, int):
        found = schema.get("items")
    else:
        found = (schema.get("properties") or {}).get(step, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


# Limits on the value itself: how large, how long, how many, which pattern.

_SHORT = 256
_Rule: TypeAlias = Callable[[Any], "str | None"]


def limits_check(schema: Schema) -> Callable[[Any], list[Cause] | None] | None:
    """Returns one check for all limits in the schema, or None if it has none. A limit for another type of value is
    ignored."""
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
    return lambda v: f"must match {pattern}" if type(v) is str and not _matches(pattern, v) else None


def _matches(pattern: str, text: str) -> bool:
    return _matches_short(pattern, text) if len(text) <= _SHORT else _search(pattern, text)


def _search(pattern: str, text: str) -> bool:
    compiled = compile_pattern(pattern)
    return compiled is None or compiled.search(text) is not None


_matches_short = lru_cache(4096)(_search)
"""Objects are validated again and again with the same few values."""


@lru_cache(1024)
def compile_pattern(pattern: str) -> Any:
    """Compiles a pattern with RE2, whose syntax is Go's and whose time is linear in the text. Returns None for a
    pattern that RE2 rejects: no check is better than a wrong one."""
    import re2  # type: ignore[import-untyped]  # here, because most programs need no pattern and save its megabytes

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error:
        return None


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
