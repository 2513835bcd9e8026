"""Every list is paged in the same way."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import Connection, delete, func, insert, select

from muster.platform.database.database import Database
from muster.platform.database.queries import PageRequest, contains_words, new_id, select_page
from muster.platform.database.tables import teams
from muster.platform.errors import InvalidProblem
from muster.platform.records.common import Page


def test_ids_are_lower_case_letters_and_digits() -> None:
    assert all(re.fullmatch(r"[0-9a-hjkmnp-tv-z]{26}", new_id()) for _ in range(100))


def test_later_ids_are_greater_and_unique() -> None:
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(set(ids))


def test_threads_do_not_share_ids() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = [one for many in pool.map(lambda _: [new_id() for _ in range(500)], range(8)) for one in many]
    assert len(set(ids)) == len(ids)


START = datetime(2026, 1, 1, tzinfo=UTC)
# Names in another order, and times in pairs so that the id decides.
ROWS = [
    {"id": f"id{number}", "name": name, "description": about, "created": START + timedelta(days=number // 2)}
    for number, (name, about) in enumerate(
        [
            ("delta", "100% sure"),
            ("alpha", "the first_one"),
            ("Zulu", "upper case"),
            ("charlie", "训练 团队"),
            ("bravo", "Second"),
        ]
    )
]


def fill(connection: Connection) -> None:
    connection.execute(insert(teams), [{**row, "revision": 1} for row in ROWS])


def names(connection: Connection, wanted: PageRequest, q: str = "") -> tuple[list[str], str | None, int]:
    query = select(teams.c.id, teams.c.name)
    if q:
        query = query.where(contains_words(q, teams.c.name, teams.c.description))
    sortable = {"name": teams.c.name, "created": teams.c.created, "folded": func.lower(teams.c.name)}
    page: Page[str] = select_page(connection, query, wanted, key=teams.c.id, sortable=sortable, usual="-created").map(
        lambda row: row.name
    )
    return page.items, page.next, page.total


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("", ["bravo", "charlie", "Zulu", "alpha", "delta"]),
        ("created", ["delta", "alpha", "Zulu", "charlie", "bravo"]),
        ("-created", ["bravo", "charlie", "Zulu", "alpha", "delta"]),
        ("name", ["Zulu", "alpha", "bravo", "charlie", "delta"]),
        ("-name", ["delta", "charlie", "bravo", "alpha", "Zulu"]),
        ("folded", ["alpha", "bravo", "charlie", "delta", "Zulu"]),
    ],
)
async def test_pages_of_any_size_make_the_whole_list(database: Database, sort: str, expected: list[str]) -> None:
    await database.write(fill)
    for limit in (1, 2, 3, 4, 5, 6):
        seen: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            wanted = PageRequest(limit, cursor, sort)
            items, cursor, total = await database.read(partial(names, wanted=wanted))
            assert total == len(ROWS)
            assert len(items) == limit or cursor is None
            seen += items
        assert seen == expected, f"in pages of {limit}"


async def test_concurrent_inserts_and_deletes_neither_repeat_nor_hide_rows(database: Database) -> None:
    await database.write(fill)
    first, cursor, _ = await database.read(lambda c: names(c, PageRequest(2, "", "name")))
    assert first == ["Zulu", "alpha"]

    def change(connection: Connection) -> None:
        connection.execute(delete(teams).where(teams.c.name.in_(["Zulu", "alpha"])))
        row = {"id": "new", "name": "aaa", "description": "", "created": START, "revision": 1}
        connection.execute(insert(teams).values(**row))

    await database.write(change)
    rest, end, total = await database.read(lambda c: names(c, PageRequest(9, cursor or "", "name")))
    assert (rest, end, total) == (["bravo", "charlie", "delta"], None, 4)


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("ALPHA", ["alpha"]),
        ("zulu", ["Zulu"]),
        ("训练", ["charlie"]),
        ("second br", ["bravo"]),
        ("100%", ["delta"]),
        ("first_one", ["alpha"]),
        ("%", ["delta"]),
        ("_", ["alpha"]),
        ("nothing like it", []),
        ("  ", ["Zulu", "alpha", "bravo", "charlie", "delta"]),
    ],
)
async def test_a_search_matches_every_word_literally(database: Database, q: str, expected: list[str]) -> None:
    await database.write(fill)
    items, _, total = await database.read(lambda c: names(c, PageRequest(sort="name"), q))
    assert (items, total) == (expected, len(expected))


async def test_an_empty_list_has_no_next_page(database: Database) -> None:
    assert await database.read(lambda c: names(c, PageRequest())) == ([], None, 0)


async def a_cursor(database: Database, sort: str) -> str:
    await database.write(fill)
    cursor = (await database.read(lambda c: names(c, PageRequest(1, "", sort))))[1]
    assert cursor is not None
    return cursor


@pytest.mark.parametrize(
    ("wanted", "field", "message"),
    [
        (PageRequest(limit=0), "limit", "0 is not between 1 and 500"),
        (PageRequest(limit=501), "limit", "501 is not between 1 and 500"),
        (PageRequest(sort="size"), "sort", 'cannot sort by "size"; use one of name, created, folded'),
        (PageRequest(sort="--name"), "sort", 'cannot sort by "--name"'),
        (PageRequest(cursor="garbage!"), "cursor", "this is not a valid cursor"),
        (PageRequest(cursor="e30"), "cursor", "this is not a valid cursor"),
        (PageRequest(cursor="WzFd"), "cursor", "this is not a valid cursor"),
    ],
)
async def test_invalid_options_are_refused_by_name(
    database: Database, wanted: PageRequest, field: str, message: str
) -> None:
    with pytest.raises(InvalidProblem, match=message) as caught:
        await database.read(lambda c: names(c, wanted))
    assert [error.field for error in caught.value.errors] == [field]


async def test_a_cursor_of_another_sort_order_is_refused(database: Database) -> None:
    cursor = await a_cursor(database, "name")
    with pytest.raises(InvalidProblem, match='the cursor belongs to a list sorted by "name", not by "-name"'):
        await database.read(lambda c: names(c, PageRequest(1, cursor, "-name")))
