"""Row ids, rows as records, and lists in pages: filtered, sorted and cut in SQL."""

from __future__ import annotations

import base64
import binascii
import operator
import re
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

import orjson
from sqlalchemy import Boolean, ColumnElement, Connection, Row, Select, Table, and_, func, or_, select, true
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from muster.platform.database.tables import UtcDateTime, from_microseconds, to_microseconds
from muster.platform.errors import InvalidProblem
from muster.platform.records.common import Page

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Returns a new id: 26 lower-case letters and digits that sort by time of creation and are valid in URLs, file
    names and names of Kubernetes objects. It is greater than all others that this process has created."""
    global _last
    with _lock:
        _last = max(_last + 1, (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS))
        number = _last
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(125, -1, -5))


T = TypeVar("T")

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"


def as_record(row: AnyRow, record: type[T], **other: Any) -> T:
    """Makes a record of a row. Fields come from the columns of the same name; `other` sets the rest."""
    places = _places(cast(Hashable, record), row._fields)
    return record(**{name: row[place] for name, place in places if name not in other}, **other)


def find_row(connection: Connection, query: Select[Any], table: Table, id_or_name: str) -> AnyRow | None:
    """Returns the row of `table` with this id, or else the one with this name. Users choose names: the name of one row
    may be the id of another, and an id must always find its own row."""
    found = query.where(or_(table.c.id == id_or_name, table.c.name == id_or_name))
    return connection.execute(found.order_by(table.c.id != id_or_name).limit(1)).first()


def record_columns(record: type[Any], table: Table, **others: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    """Returns the columns to select for a record: those of `table` with the names of its fields, and `others` by field
    name. Fields with neither are set by `as_record`."""
    found = {name: table.c[name] for name in (each.name for each in fields(record)) if name in table.c}
    return [column.label(name) for name, column in (found | others).items()]


@cache
def _places(record: Any, columns: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The position of each field in a row, found once for all rows of a query."""
    return tuple((each.name, columns.index(each.name)) for each in fields(record) if each.init and each.name in columns)


U = TypeVar("U")

MAX_LIMIT = 500
_LIKE = re.compile("[%_/]")


@dataclass(frozen=True, slots=True)
class PageRequest:
    limit: int = 50
    cursor: str = ""
    """What the piece before gave as `next`."""
    sort: str = ""
    """The field to sort by, with `-` in front for descending order; '' for the default order of the list."""


def select_page(
    connection: Connection,
    query: Select[Any],
    wanted: PageRequest,
    *,
    key: ColumnElement[str],
    sortable: Mapping[str, ColumnElement[Any]],
    usual: str,
    count: Select[Any] | None = None,
) -> Page[AnyRow]:
    """Returns one page of `query`, which has filters but no order. `key` is unique. `sortable` maps names to columns,
    none of them NULL. `usual` is the default order, such as `-created`. `count` counts the same rows, if there is a
    cheaper way than joining everything. A cursor says after which row the next page starts, so rows that are added or
    deleted in between are neither shown twice nor hidden."""
    sort, column = _order(wanted, sortable, usual)
    down = sort.startswith("-")
    total = connection.execute(_count(query) if count is None else count).scalar_one()
    piece = query.add_columns(column.label("page_value"), key.label("page_key"))
    if wanted.cursor:
        value, last = _decode(wanted.cursor, sort)
        if isinstance(column.type, UtcDateTime) != isinstance(value, datetime):
            raise InvalidProblem.field("cursor", "page.cursor")
        beyond = operator.lt if down else operator.gt
        piece = piece.where(or_(beyond(column, value), and_(column == value, beyond(key, last))))
    order = (column.desc(), key.desc()) if down else (column.asc(), key.asc())
    rows: Sequence[AnyRow] = connection.execute(piece.order_by(*order).limit(wanted.limit + 1)).all()
    more = len(rows) > wanted.limit
    rows = rows[: wanted.limit]
    return Page(list(rows), _encode(sort, rows[-1].page_value, rows[-1].page_key) if more else None, total)


def paginate(
    items: Iterable[T],
    wanted: PageRequest,
    *,
    key: Callable[[T], str],
    sortable: Mapping[str, Callable[[T], Any]],
    usual: str,
) -> Page[T]:
    """Returns one page of a list that is not in the database, by the same rules."""
    sort, value_of = _order(wanted, sortable, usual)
    down = sort.startswith("-")
    found = sorted(items, key=lambda item: (value_of(item), key(item)), reverse=down)
    begin = 0
    if wanted.cursor:
        last = _decode(wanted.cursor, sort)
        beyond = operator.lt if down else operator.gt
        try:
            begin = next((at for at, item in enumerate(found) if beyond((value_of(item), key(item)), last)), len(found))
        except TypeError:
            raise InvalidProblem.field("cursor", "page.cursor") from None
    piece = found[begin : begin + wanted.limit]
    more = begin + wanted.limit < len(found)
    return Page(piece, _encode(sort, value_of(piece[-1]), key(piece[-1])) if more else None, len(found))


def merge_pages(
    pages: Sequence[Page[T]], wanted: PageRequest, *, key: Callable[[T], str], value_of: Callable[[T], Any], usual: str
) -> Page[T]:
    """Returns one page of several lists that are in the same order. Each of `pages` was requested with the same
    cursor: `key` and `value_of` give what the lists are sorted by."""
    sort = wanted.sort or usual
    found = sorted(
        (item for page in pages for item in page.items),
        key=lambda item: (value_of(item), key(item)),
        reverse=sort.startswith("-"),
    )
    piece = found[: wanted.limit]
    more = len(found) > wanted.limit or any(page.next is not None for page in pages)
    after = _encode(sort, value_of(piece[-1]), key(piece[-1])) if more and piece else None
    return Page(piece, after, sum(page.total for page in pages))


def contains_words(text: str, *columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """A condition: every word of `text` occurs in one of the columns, in upper or lower case."""
    found = (or_(*(_Contains(column, f"%{_LIKE.sub(_escape, word)}%") for column in columns)) for word in text.split())
    return and_(true(), *found)


class _Contains(FunctionElement[bool]):
    """(text, pattern)"""

    type = Boolean()
    inherit_cache = True


@compiles(_Contains)
def _ilike(element: _Contains, compiler: Any, **more: Any) -> str:
    text, pattern = (compiler.process(clause, **more) for clause in element.clauses)
    # LIKE ignores the case of ASCII letters in SQLite, and lower() would take twice as long.
    return f"{text} {'LIKE' if compiler.dialect.name == 'sqlite' else 'ILIKE'} {pattern} ESCAPE '/'"


def _order(wanted: PageRequest, sortable: Mapping[str, T], usual: str) -> tuple[str, T]:
    """Returns the order and the column. Raises Invalid."""
    if not 1 <= wanted.limit <= MAX_LIMIT:
        raise InvalidProblem.field("limit", "page.limit", limit=wanted.limit, most=MAX_LIMIT)
    sort = wanted.sort or usual
    found = sortable.get(sort.removeprefix("-"))
    if found is None:
        raise InvalidProblem.field("sort", "page.sort", sort=sort, choices=list(sortable))
    return sort, found


def _escape(found: re.Match[str]) -> str:
    return f"/{found[0]}"


def _count(query: Select[Any]) -> Select[int]:
    if query._group_by_clauses or query._distinct:
        return select(func.count()).select_from(query.subquery())
    # Columns, some of which are subqueries, are not computed for rows that are only counted.
    return query.with_only_columns(func.count(), maintain_column_froms=True)


def _encode(sort: str, value: Any, key: str) -> str:
    plain = {"at": to_microseconds(value)} if isinstance(value, datetime) else value
    return base64.urlsafe_b64encode(orjson.dumps([sort, plain, key])).decode().rstrip("=")


def _decode(cursor: str, sort: str) -> tuple[Any, str]:
    try:
        said = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        made_for, value, key = said
        if isinstance(value, dict):
            value = from_microseconds(value["at"])
        if not _is_scalar(value) or not isinstance(key, str) or not _is_scalar(key):
            raise ValueError(value)
    except (binascii.Error, ValueError, TypeError, KeyError, OverflowError):
        raise InvalidProblem.field("cursor", "page.cursor") from None
    if made_for != sort:
        raise InvalidProblem.field("cursor", "page.other", other=made_for, sort=sort)
    return value, key


def _is_scalar(value: Any) -> bool:
    """Whether it can be compared with a column, on any database."""
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, (float, datetime))
