"""Lists as Kubeflow Pipelines serves them: a filter in JSON, `sort_by`, and pages.

A filter is a list of predicates that must all hold. Clients send operations as numbers or names, fields in snake_case
or camelCase, and some encode the whole filter for a URL once more. A page token contains the filter and the order, so
the next page needs nothing but the token.
"""

from __future__ import annotations

import base64
import binascii
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote_plus

import orjson
from sqlalchemy import Boolean, ColumnElement, Connection, Select, and_, func, literal, true

from muster.kube.errors import closest_word
from muster.platform.database.queries import AnyRow, PageRequest, select_page
from muster.platform.database.tables import UtcDateTime
from muster.platform.errors import InvalidProblem
from muster.platform.records.common import Page

DEFAULT_SIZE: Final = 20
LARGEST_SIZE: Final = 200
_MOST_PREDICATES: Final = 50
_MOST_VALUES: Final = 500
_LONGEST_VALUE: Final = 10_000
_OPERATIONS: Final[Mapping[int, str]] = {
    1: "EQUALS",
    2: "NOT_EQUALS",
    3: "GREATER_THAN",
    5: "GREATER_THAN_EQUALS",
    6: "LESS_THAN",
    7: "LESS_THAN_EQUALS",
    8: "IN",
    9: "IS_SUBSTRING",
}
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "EQUALS": operator.eq,
    "GREATER_THAN": operator.gt,
    "GREATER_THAN_EQUALS": operator.ge,
    "LESS_THAN": operator.lt,
    "LESS_THAN_EQUALS": operator.le,
}
_VALUES: Final[Mapping[str, str]] = {
    "int_value": "number",
    "long_value": "number",
    "string_value": "text",
    "timestamp_value": "time",
    "int_values": "numbers",
    "long_values": "numbers",
    "string_values": "texts",
}


@dataclass(frozen=True, slots=True)
class ListFields:
    """What a list can be filtered and sorted by: columns by the names of the API."""

    columns: Mapping[str, ColumnElement[Any]]
    key: ColumnElement[str]
    usual: str = "created_at"


@dataclass(frozen=True, slots=True)
class ListRequest:
    page_size: int = DEFAULT_SIZE
    page_token: str = ""
    sort_by: str = ""
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Predicate:
    operation: str
    key: str
    value: Any
    """Text, a number, a time, or a list of one of them."""


def list_rows(connection: Connection, query: Select[Any], wanted: ListRequest, by: ListFields) -> Page[AnyRow]:
    """Returns one page. `query` has the conditions of the list itself. Raises Invalid."""
    token = _read_token(wanted)
    condition = filter_condition(parse_filter(token.filter), by)
    sort = parse_sort(token.sort_by, by)
    sortable = {name: _sortable(column) for name, column in by.columns.items()}
    request = PageRequest(wanted.page_size, token.cursor, sort)
    try:
        page = select_page(connection, query.where(condition), request, key=by.key, sortable=sortable, usual=by.usual)
    except InvalidProblem:
        raise InvalidProblem.field("page_token", "pipelines.page-token") from None
    return Page(page.items, page.next and _write_token(token, page.next), page.total)


def parse_filter(text: str) -> list[Predicate]:
    """Raises Invalid."""
    if not text:
        return []
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            given = orjson.loads(unquote_plus(text))
        except orjson.JSONDecodeError as error:
            raise _wrong("", f"this is not JSON: {error}") from None
    if not isinstance(given, dict) or not set(given) <= {"predicates"}:
        raise _wrong("", 'expected {"predicates": [...]}')
    predicates = given.get("predicates") or []
    if not isinstance(predicates, list) or len(predicates) > _MOST_PREDICATES:
        raise _wrong("predicates", f"expected a list of at most {_MOST_PREDICATES} predicates")
    return [_predicate(each, f"predicates[{at}]") for at, each in enumerate(predicates)]


def filter_condition(predicates: Sequence[Predicate], by: ListFields) -> ColumnElement[bool]:
    """Raises Invalid for a key that the list does not have, and for a value of another type."""
    return and_(true(), *(_condition(each, by) for each in predicates))


def parse_sort(text: str, by: ListFields) -> str:
    """Returns `created_at` or `-created_at` for "created_at desc". Raises Invalid."""
    words = text.split()
    if not words:
        return ""
    name, direction = words[0], words[1].lower() if len(words) > 1 else "asc"
    if len(words) > 2 or direction not in ("asc", "desc"):
        raise InvalidProblem.field("sort_by", "pipelines.sort", sort=text[:200])
    if name not in by.columns:
        raise InvalidProblem.field("sort_by", "pipelines.sort-field", name=name[:200], choices=list(by.columns))
    return f"-{name}" if direction == "desc" else name


@dataclass(frozen=True, slots=True)
class _Token:
    sort_by: str
    filter: str
    cursor: str = ""


def _read_token(wanted: ListRequest) -> _Token:
    if not wanted.page_token:
        return _Token(wanted.sort_by, wanted.filter)
    try:
        padded = wanted.page_token + "=" * (-len(wanted.page_token) % 4)
        sort_by, text, cursor = orjson.loads(base64.urlsafe_b64decode(padded))
        if not all(isinstance(each, str) for each in (sort_by, text, cursor)):
            raise ValueError(cursor)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidProblem.field("page_token", "pipelines.page-token") from None
    if wanted.sort_by not in ("", sort_by) or wanted.filter not in ("", text):
        raise InvalidProblem.field("page_token", "pipelines.page-other")
    return _Token(sort_by, text, cursor)


def _write_token(token: _Token, cursor: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([token.sort_by, token.filter, cursor])).decode().rstrip("=")


def _predicate(given: Any, path: str) -> Predicate:
    if not isinstance(given, dict):
        raise _wrong(path, "expected an object")
    fields = {_snake_case(name): value for name, value in given.items()}
    unknown = [name for name in fields if name not in ("operation", "key", *_VALUES)]
    if unknown:
        raise _wrong(f"{path}.{unknown[0]}", "there is no such field")
    operation, key = fields.get("operation"), fields.get("key")
    if isinstance(operation, str) and operation.isdecimal() and len(operation) < 3:
        operation = int(operation)
    name = _OPERATIONS.get(operation) if isinstance(operation, int) else operation
    if name not in _OPERATIONS.values():
        raise _wrong(f"{path}.operation", f"use one of {', '.join(_OPERATIONS.values())}")
    if not isinstance(key, str) or not key:
        raise _wrong(f"{path}.key", "expected the name of a field")
    values = [(field, fields[field]) for field in _VALUES if fields.get(field) is not None]
    if len(values) != 1:
        raise _wrong(path, f"expected one value, found {len(values)}")
    field, value = values[0]
    read = _read_value(value, _VALUES[field], f"{path}.{field}")
    if isinstance(read, list) != (name == "IN"):
        raise _wrong(path, "IN takes a list of values, every other operation one value")
    assert isinstance(name, str)
    return Predicate(name, key, read)


def _read_value(value: Any, kind: str, path: str) -> Any:
    if kind in ("numbers", "texts"):
        inner = value.get("values") if isinstance(value, dict) else value
        if not isinstance(inner, list) or len(inner) > _MOST_VALUES:
            raise _wrong(path, f'expected {{"values": [...]}} with at most {_MOST_VALUES} values')
        return [_read_value(each, kind[:-1], f"{path}.values[{at}]") for at, each in enumerate(inner)]
    if kind == "number":
        if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**63:
            raise _wrong(path, "expected a whole number")
        return value
    if not isinstance(value, str) or len(value) > _LONGEST_VALUE or "\0" in value:
        raise _wrong(path, "expected a text")
    return value if kind == "text" else _read_time(value, path)


def _read_time(text: str, path: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _wrong(path, "expected a time such as 2026-01-31T12:00:00Z") from None


def _condition(predicate: Predicate, by: ListFields) -> ColumnElement[bool]:
    column = by.columns.get(predicate.key)
    if column is None:
        near = closest_word(predicate.key, by.columns)
        meant = f'; did you mean "{near}"?' if near else f"; use one of {', '.join(by.columns)}"
        raise _wrong("key", f'this list cannot be filtered by "{predicate.key[:200]}"{meant}')
    value, operation = predicate.value, predicate.operation
    for each in value if isinstance(value, list) else [value]:
        _check_type(each, column, predicate.key)
    if operation == "IN":
        return column.in_(value)
    if operation == "IS_SUBSTRING":
        if not isinstance(value, str):
            raise _wrong(predicate.key, "IS_SUBSTRING takes a text")
        return column.icontains(value, autoescape=True)
    if operation == "NOT_EQUALS":
        return column.is_distinct_from(value)
    compared: ColumnElement[bool] = _COMPARISONS[operation](column, value)
    return compared


def _check_type(value: Any, column: ColumnElement[Any], key: str) -> None:
    if isinstance(column.type, UtcDateTime):
        wanted, fits = "timestamp_value", isinstance(value, datetime)
    elif isinstance(column.type, Boolean):
        wanted, fits = "nothing", False
    elif column.type.python_type is int:
        wanted, fits = "int_value or long_value", isinstance(value, int)
    else:
        wanted, fits = "string_value", isinstance(value, str)
    if not fits:
        raise _wrong(key, f"this field is compared with a {wanted}")


def _sortable(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A time that is not known comes first."""
    if not isinstance(column.type, UtcDateTime):
        return column
    return func.coalesce(column, literal(datetime(1970, 1, 1, tzinfo=UTC), UtcDateTime()))


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _wrong(path: str, detail: str) -> InvalidProblem:
    return InvalidProblem.field(f"filter.{path}" if path else "filter", "pipelines.filter", detail=detail)
