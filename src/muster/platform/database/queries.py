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
from sqlalchemy import Boolean, ColumnElement, Connection, Row, Select, and_, func, or_, select, true
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from muster.platform.database.tables import from_microseconds, to_microseconds
from muster.platform.errors import Invalid
from muster.platform.records import Page

# Merged from ids: Names for rows: 26 lower-case letters and digits that sort by when they were made, and that fit
# URLs, file names and
# the names of Kubernetes objects.


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Greater than every other that this process has made."""
    global _last
    with _lock:
        _last = max(_last + 1, (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS))
        number = _last
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(125, -1, -5))


# Merged from rows: Rows as the dataclasses that the rest of the platform speaks of.


T = TypeVar("T")

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"


def as_record(row: AnyRow, record: type[T], **other: Any) -> T:
    """Fields are taken from the columns of the same name; `other` gives those that have none, or are kept otherwise."""
    places = _places(cast(Hashable, record), row._fields)
    return record(**{name: row[place] for name, place in places if name not in other}, **other)


@cache
def _places(record: Any, columns: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Where in a row each field is: looked up once for all rows of a query."""
    return tuple((each.name, columns.index(each.name)) for each in fields(record) if each.init and each.name in columns)


# Merged from paging: Lists in pieces: filtered, sorted and cut in SQL, the same way for every list; what is not in
# SQL looks the same.
#
# A cursor says after which row the next piece begins, so rows that come or go meanwhile neither double nor hide
# others.


U = TypeVar("U")

MAX_LIMIT = 500
_LIKE = re.compile("[%_/]")


@dataclass(frozen=True, slots=True)
class PageRequest:
    limit: int = 50
    cursor: str = ""
    """What the piece before gave as `next`."""
    sort: str = ""
    """A name to sort by, with `-` in front for the greatest first; '' for the usual order of that list."""


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
    """One piece of what `query`, which has its filters but no order, selects. `key` is unique; `sortable` names what
    one may sort by (none of it NULL: wrap it in coalesce); `usual` is the order if none is asked for: `-created`.
    `count` counts the same rows, if there is a way that is cheaper than to join all that is shown of them."""
    sort, column = _order(wanted, sortable, usual)
    down = sort.startswith("-")
    total = connection.execute(_count(query) if count is None else count).scalar_one()
    piece = query.add_columns(column.label("page_value"), key.label("page_key"))
    if wanted.cursor:
        value, last = _decode(wanted.cursor, sort)
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
    """One piece of a list that is not in the database, by the same rules."""
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
            raise Invalid.field("cursor", "page.cursor") from None
    piece = found[begin : begin + wanted.limit]
    more = begin + wanted.limit < len(found)
    return Page(piece, _encode(sort, value_of(piece[-1]), key(piece[-1])) if more else None, len(found))


def contains_words(text: str, *columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether every word of `text` occurs in one of the columns, whatever its case."""
    found = (or_(*(_Contains(column, f"%{_LIKE.sub(_escape, word)}%") for column in columns)) for word in text.split())
    return and_(true(), *found)


class _Contains(FunctionElement[bool]):
    """(text, pattern)"""

    type = Boolean()
    inherit_cache = True


@compiles(_Contains)
def _ilike(element: _Contains, compiler: Any, **more: Any) -> str:
    text, pattern = (compiler.process(clause, **more) for clause in element.clauses)
    # To SQLite the case of ASCII letters makes no difference anyway, and asking for it takes twice as long.
    return f"{text} {'LIKE' if compiler.dialect.name == 'sqlite' else 'ILIKE'} {pattern} ESCAPE '/'"


def _order(wanted: PageRequest, sortable: Mapping[str, T], usual: str) -> tuple[str, T]:
    """How to sort, and by what. Raises Invalid."""
    if not 1 <= wanted.limit <= MAX_LIMIT:
        raise Invalid.field("limit", "page.limit", limit=wanted.limit, most=MAX_LIMIT)
    sort = wanted.sort or usual
    found = sortable.get(sort.removeprefix("-"))
    if found is None:
        raise Invalid.field("sort", "page.sort", sort=sort, choices=list(sortable))
    return sort, found


def _escape(found: re.Match[str]) -> str:
    return f"/{found[0]}"


def _count(query: Select[Any]) -> Select[int]:
    if query._group_by_clauses or query._distinct:
        return select(func.count()).select_from(query.subquery())
    # The columns themselves, some of which are queries of their own, are not worked out for rows that only count.
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
    except (binascii.Error, ValueError, TypeError, KeyError, OverflowError):
        raise Invalid.field("cursor", "page.cursor") from None
    if made_for != sort:
        raise Invalid.field("cursor", "page.other", other=made_for, sort=sort)
    return value, key
