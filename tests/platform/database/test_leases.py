"""Several servers on one PostgreSQL: one of them does the work, and another one takes over. On SQLite there is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, text, update

from muster.platform.database import leases as module
from muster.platform.database.announcements import Announced, announcements, read_announcements
from muster.platform.database.database import RUN, Database, announce
from muster.platform.database.leases import LeaseLost, Leases
from muster.platform.database.tables import leases as table
from muster.platform.database.tables import settings, teams
from tests.platform.databases import PostgresServer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def renewing(*servers: Leases) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(server.run()) for server in servers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def shared_url(postgres: PostgresServer, migrated_postgres: str) -> str:
    return postgres.url(postgres.new_database(migrated_postgres))


@pytest.fixture
async def shared(shared_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(shared_url)
    yield opened
    opened.close()


async def expire(database: Database, holder: str) -> None:
    """What the time would do to the leases of a server that was killed."""
    gone = update(table).where(table.c.holder == holder).values(until=EPOCH)
    await database.write(lambda connection: connection.execute(gone))


async def holders(database: Database) -> dict[str, str]:
    query = select(table.c.name, table.c.holder)
    return {row.name: row.holder for row in await database.read(lambda connection: connection.execute(query).all())}


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.01)


async def test_a_lease_is_held_by_one_task_at_a_time(database: Database) -> None:
    servers, inside, most = [Leases(database), Leases(database)], 0, 0
    if database.dialect == "sqlite":
        servers = servers[:1]

    async def work(server: Leases) -> None:
        nonlocal inside, most
        async with server.hold("run/1"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.005)
            inside -= 1

    await asyncio.gather(*(work(server) for server in servers for _ in range(4)))
    assert most == 1
    assert await holders(database) == {}, "leases are given back"


async def test_leases_of_different_names_do_not_wait_for_each_other(database: Database) -> None:
    server = Leases(database)
    async with asyncio.timeout(30), server.hold("run/1"), server.hold("run/2"):
        assert await holders(database) == (
            {} if database.dialect == "sqlite" else dict.fromkeys(("run/1", "run/2"), server.holder)
        )


async def test_a_server_writes_nothing_under_a_lease_that_it_has_lost(shared: Database) -> None:
    paused, other = Leases(shared), Leases(shared)
    put = insert(settings).values(key="k", value="stale")
    async with paused.hold("run/1"):
        await expire(shared, paused.holder)
        async with other.hold("run/1"):
            pass
        with pytest.raises(LeaseLost, match="another server has taken over run/1"):
            await shared.write(lambda connection: connection.execute(put))
    stored = await shared.read(lambda connection: connection.execute(select(settings.c.value)).scalars().all())
    assert "stale" not in stored


async def test_new_work_is_stored_together_with_its_lease(database: Database) -> None:
    server, is_shared = Leases(database), database.dialect == "postgresql"

    def put(connection: Connection) -> str:
        connection.execute(insert(settings).values(key="k", value="stored"))
        return "stored"

    def fail(connection: Connection) -> str:
        put(connection)
        raise LookupError

    with pytest.raises(LookupError):
        async with server.hold_new("run/1", fail):
            pass
    assert await holders(database) == {}
    async with server.hold_new("run/1", put) as (stored, lease):
        assert stored == "stored"
        assert await holders(database) == ({"run/1": server.holder} if is_shared else {})
        done = update(settings).where(settings.c.key == "k").values(value="done")
        await server.write_last(lease, lambda connection: connection.execute(done))
        assert await holders(database) == {}
    async with server.hold_new("run/2", lambda _: None):
        pass
    assert await holders(database) == {}, "it is given back even if nothing is written"


async def test_new_work_is_not_finished_under_a_lease_that_was_lost(shared: Database) -> None:
    paused, other = Leases(shared), Leases(shared)
    put = insert(settings).values(key="k", value="stale")
    async with paused.hold_new("run/1", lambda _: None) as (_, lease):
        await expire(shared, paused.holder)
        async with other.hold("run/1"):
            with pytest.raises(LeaseLost, match="another server has taken over run/1"):
                await paused.write_last(lease, lambda connection: connection.execute(put))
            assert await holders(shared) == {"run/1": other.holder}


async def test_tasks_of_the_work_are_fenced_too(shared: Database) -> None:
    server, outcome = Leases(shared), asyncio.Event()

    async def child() -> None:
        await shared.autocommit(lambda connection: connection.execute(text("DELETE FROM leases")))
        with pytest.raises(LeaseLost):
            await shared.write(lambda connection: connection.execute(insert(settings).values(key="k", value=1)))
        outcome.set()

    async def work() -> None:
        await asyncio.create_task(child())
        await asyncio.Event().wait()

    leading = asyncio.create_task(server.lead("controllers", work))
    async with asyncio.timeout(30):
        await outcome.wait()
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)


async def test_one_server_leads_and_another_takes_over(shared: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENEW_SECONDS", 0.02)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.02)
    first, second = Leases(shared, "first"), Leases(shared, "second")
    working: list[str] = []

    def work_of(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def work() -> None:
            working.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                working.remove(name)

        return work

    leading: dict[str, asyncio.Task[None]] = {}
    async with renewing(first, second):
        for server in (first, second):
            leading[server.holder] = asyncio.create_task(server.lead("controllers", work_of(server.holder)))
            await eventually(lambda: working == ["first"])
        await eventually(lambda: shared.is_shared)
        # It is paused: another server takes its lease, and it notices at its next renewal.
        await shared.autocommit(
            lambda connection: connection.execute(
                text("UPDATE leases SET holder = 'second' WHERE name = 'controllers'")
            )
        )
        await eventually(lambda: working == ["second"])
        # It stops in an orderly way, and gives the lease back.
        leading["second"].cancel()
        await eventually(lambda: working == ["first"])
        leading["first"].cancel()
        await asyncio.gather(*leading.values(), return_exceptions=True)
    assert await holders(shared) == {}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([], Announced()),
        (["me run 1", "me access "], Announced()),
        (["other run 1", "other run 2", "me run 3", "other run 1"], Announced(frozenset({"1", "2"}))),
        (["other access "], Announced(access=True)),
        (["other something new", "", "other run "], Announced()),
    ],
)
def test_announcements_of_others(said: list[str], found: Announced) -> None:
    assert read_announcements(said, "me") == found


async def test_changes_of_another_server_arrive_after_its_commit(shared: Database, shared_url: str) -> None:
    other = await Database.open(shared_url)
    team = {"id": "crew", "name": "crew", "description": "", "created": EPOCH, "revision": 1}
    await other.write(lambda connection: connection.execute(insert(teams).values(**team)))
    heard: list[Announced] = []

    async def listen() -> None:
        async for each in announcements(shared):
            heard.append(each)  # noqa: PERF401 (it has no end)

    listening = asyncio.create_task(listen())
    try:

        def store(connection: Connection) -> None:
            announce(connection, RUN, "17")
            connection.execute(update(teams).values(revision=teams.c.revision + 1))

        async with asyncio.timeout(30):
            while not heard:  # until it listens
                await other.write(store)
                await asyncio.sleep(0.05)
        assert heard[0] == Announced(frozenset({"17"}), access=True)

        def fail(connection: Connection) -> None:
            announce(connection, RUN, "lost")
            raise LookupError

        heard.clear()
        with pytest.raises(LookupError):
            await other.write(fail)
        await shared.write(lambda connection: announce(connection, RUN, "own"))
        await other.write(lambda connection: announce(connection, RUN, "last"))
        await eventually(lambda: any("last" in each.runs for each in heard))
        assert not any({"lost", "own"} & each.runs for each in heard)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        other.close()
