"""Transactions are atomic on SQLite and on PostgreSQL, whatever happens to the process."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, insert, select, text, update
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from muster.kube.encryption import KeyRing
from muster.platform.database import database as database_module
from muster.platform.database.database import Database, DatabaseError
from muster.platform.database.queries import new_id
from muster.platform.database.tables import settings
from tests.platform.databases import PostgresServer


def put(connection: Connection, key: str, value: object) -> None:
    connection.execute(insert(settings).values(key=key, value=value))


def value_of(connection: Connection, key: str) -> object:
    return connection.execute(select(settings.c.value).where(settings.c.key == key)).scalar_one_or_none()


@pytest.mark.parametrize("value", [1, 1.5, "文本 'quoted'", None, True, [1, {"a": []}], {"b": {"c": None}}])
async def test_any_json_is_returned_unchanged(database: Database, value: object) -> None:
    await database.write(lambda connection: put(connection, "k", value))
    assert await database.read(lambda connection: value_of(connection, "k")) == value


async def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    def half(connection: Connection) -> None:
        put(connection, "half", 1)
        raise LookupError("in the middle")

    with pytest.raises(LookupError, match="in the middle"):
        await database.write(half)
    assert await database.read(lambda connection: value_of(connection, "half")) is None


async def test_a_read_transaction_cannot_write(database: Database) -> None:
    with pytest.raises(DBAPIError, match=r"read.?only"):
        await database.read(lambda connection: put(connection, "k", 1))
    await database.write(lambda connection: put(connection, "k", 2))
    assert await database.read(lambda connection: value_of(connection, "k")) == 2


async def test_a_reader_sees_a_snapshot_while_others_write(database: Database) -> None:
    await database.write(lambda connection: put(connection, "k", "before"))
    looked, written = threading.Event(), threading.Event()

    def look_twice(connection: Connection) -> list[object]:
        first = value_of(connection, "k")
        looked.set()
        assert written.wait(30)
        return [first, value_of(connection, "k")]

    reading = asyncio.create_task(database.read(look_twice))
    await asyncio.to_thread(looked.wait, 30)
    await database.write(lambda connection: connection.execute(update(settings).values(value="after")))
    written.set()
    assert await reading == ["before", "before"]
    assert await database.read(lambda connection: value_of(connection, "k")) == "after"


async def test_concurrent_increments_are_all_counted(database: Database) -> None:
    await database.write(lambda connection: put(connection, "n", 0))

    def increment(connection: Connection) -> None:
        number = value_of(connection, "n")
        assert isinstance(number, int)
        connection.execute(update(settings).where(settings.c.key == "n").values(value=number + 1))

    before = database.writes
    await asyncio.gather(*(database.write(increment) for _ in range(30)))
    assert await database.read(lambda connection: value_of(connection, "n")) == 30
    assert database.writes - before == 30


async def test_no_transaction_starves_behind_others(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one reads what all others write, so of those that run side by side only one is kept. One that is slower than
    the others would lose every time."""
    monkeypatch.setattr("muster.platform.database.database._ATTEMPTS", 6)
    attempts = Counter[int]()

    def count_and_add(number: int, connection: Connection) -> None:
        attempts[number] += 1
        found = len(connection.execute(select(settings.c.key)).all())
        time.sleep(0.05 if number == 0 else 0.002)
        put(connection, f"{number}", found)

    await asyncio.gather(*(database.write(partial(count_and_add, number)) for number in range(100)))
    values = await database.read(lambda connection: connection.execute(select(settings.c.value)).scalars().all())
    assert sorted(values)[-100:] == list(range(len(values) - 100, len(values)))
    assert (max(attempts.values()) > 1) == (database.dialect == "postgresql"), "there were conflicts"


async def test_data_is_there_after_reopening(database: Database, database_url: str) -> None:
    await database.write(lambda connection: put(connection, "k", 1))
    again = await Database.open(database_url)
    try:
        assert await again.read(lambda connection: value_of(connection, "k")) == 1
    finally:
        again.close()


async def test_several_servers_may_start_on_a_new_database(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.new_database())
    opened = await asyncio.gather(*(Database.open(url) for _ in range(3)))
    for one in opened:
        one.close()


_WRITER = """
import asyncio, sys
from sqlalchemy import insert
from muster.platform.database.database import Database
from muster.platform.database.tables import settings

async def main():
    database = await Database.open(sys.argv[1])
    for number in range(100000):
        def pair(connection):
            connection.execute(insert(settings).values(key=f"a{number}", value=number))
            connection.execute(insert(settings).values(key=f"b{number}", value=number))
        await database.write(pair)
        print(number, flush=True)

asyncio.run(main())
"""


async def test_a_transaction_on_postgresql_is_one(
    postgres: PostgresServer, migrated_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections of the pool are not tested by a transaction of their own, unless they were idle for long."""
    asked = Counter[str]()
    ping: Any = PGDialect_psycopg.do_ping

    def count(dialect: PGDialect_psycopg, connection: Any) -> bool:
        asked["ping"] += 1
        return bool(ping(dialect, connection))

    monkeypatch.setattr(PGDialect_psycopg, "do_ping", count)
    url = postgres.url(postgres.new_database(migrated_postgres))
    keys = KeyRing.load(tmp_path / "key")
    database = await Database.open(url, keys=keys)
    try:
        for _ in range(20):
            await database.read(lambda connection: value_of(connection, "k"))
            await database.write(lambda connection: connection.execute(update(settings).values(value=1)))
        assert not asked
        monkeypatch.setattr(database_module, "_IDLE_SECONDS", 0.0)
        await database.read(lambda connection: value_of(connection, "k"))
        assert asked["ping"] == 1
    finally:
        database.close()


async def test_connections_that_postgresql_has_ended_are_replaced(
    postgres: PostgresServer, migrated_postgres: str, tmp_path: Path
) -> None:
    name = postgres.new_database(migrated_postgres)
    database = await Database.open(postgres.url(name), keys=KeyRing.load(tmp_path / "key"))
    end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    count_all = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    try:
        await asyncio.gather(*(database.read(lambda connection: value_of(connection, "k")) for _ in range(8)))
        with psycopg.connect(f"host={postgres.socket_folder} user=muster dbname=postgres", autocommit=True) as admin:
            assert admin.execute(end_all, [name]).fetchall()
            while admin.execute(count_all, [name]).fetchone() != (0,):  # noqa: ASYNC110 (processes end)
                await asyncio.sleep(0.01)
        await asyncio.gather(*(database.write(lambda connection: put(connection, new_id(), 1)) for _ in range(8)))
    finally:
        database.close()


async def test_kill_9_loses_no_acknowledged_write_and_no_transaction_is_partial(database_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WRITER, database_url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged = -1
    async for line in process.stdout:
        acknowledged = int(line)
        if acknowledged == 40:
            process.kill()
    assert await process.wait() == -signal.SIGKILL
    database = await Database.open(database_url)
    try:
        keys = set(await database.read(lambda connection: connection.execute(select(settings.c.key)).scalars().all()))
    finally:
        database.close()
    first, second = ({int(key[1:]) for key in keys if key.startswith(letter)} for letter in "ab")
    assert first == second, "a partial transaction"
    assert first >= set(range(acknowledged + 1))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://root@localhost/x", '"mysql" is not supported; use sqlite:///PATH or postgresql://'),
        ("nonsense", "is not a URL; use sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME"),
        ("postgresql//muster:hunter2@db/muster", "is not a URL; use sqlite:///PATH"),
        ("sqlite://", "SQLite needs a file"),
        ("sqlite:////proc/nowhere/platform.db", "the database /proc/nowhere/platform.db cannot be used: No such file"),
        ("postgresql://ann:hunter2@127.0.0.1:1/x", r"postgresql://ann:\*\*\*@127.0.0.1:1/x cannot be used: .*refused"),
    ],
)
async def test_an_unusable_database_is_explained_without_its_password(url: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=rf"(?s){message}") as caught:
        await Database.open(url)
    assert "hunter2" not in str(caught.value)


async def test_the_error_names_a_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "platform.db"
    file.write_bytes(b"this was never a database, not for one byte of it" * 100)
    with pytest.raises(DatabaseError, match=r"platform\.db cannot be used: file is not a database"):
        await Database.open(f"sqlite:///{file}")


async def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    database = await Database.open(f"sqlite:///{tmp_path}/box/platform.db")
    await database.read(lambda connection: connection.execute(text("SELECT 1")))
    database.close()
    assert (tmp_path / "box" / "platform.db").stat().st_mode & 0o777 == 0o600
