"""Connections to the shop's database: transactions off the event loop, migrations, and a signal when jobs change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from muster.dispatch.errors import InvalidJob

VERSION_TABLE = "dispatch_version"
HEAD = "dispatch_0001"
CHANNEL = "muster_dispatch"
"""PostgreSQL's channel for "a job has changed"."""
_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x6D64_6973_7061
"""The advisory lock of processes that share a PostgreSQL: one upgrades, the others wait."""
_BUSY_SECONDS = 30.0
_LOOK_SECONDS = 0.03

T = TypeVar("T")


class Database:
    """`read` and `write` run a function in a transaction of this thread; `run` does so off the event loop, and puts
    writes that arrive together into one transaction."""

    def __init__(self, database: str | Engine) -> None:
        """An Engine is not used itself, but its URL: the dispatcher needs transactions of its own kind on SQLite."""
        self.url = _parse(database if isinstance(database, str) else database.url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._engines: tuple[Engine, Engine] | None = None
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._batch: list[tuple[Callable[[Connection], Any], asyncio.Future[Any]]] = []
        self._flusher: asyncio.Task[None] | None = None

    def read(self, function: Callable[[Connection], T]) -> T:
        with self._open()[0].connect() as connection, connection.begin():
            return function(connection)

    def write(self, function: Callable[[Connection], T]) -> T:
        with self._open()[1].connect() as connection, connection.begin():
            return function(connection)

    async def run_read(self, function: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool(), self.read, function)

    async def run(self, function: Callable[[Connection], T]) -> T:
        """Writes. What is called while another write is under way is committed together: one sync for all."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._batch.append((function, future))
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())
        return await future

    async def _flush(self) -> None:
        while self._batch:
            batch, self._batch = self._batch, []
            done = await asyncio.get_running_loop().run_in_executor(self._pool(), self._write_all, batch)
            for (_, future), (value, error) in zip(batch, done, strict=True):
                if future.cancelled():
                    continue
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)

    def _write_all(
        self, batch: list[tuple[Callable[[Connection], Any], asyncio.Future[Any]]]
    ) -> list[tuple[Any, Exception | None]]:
        if len(batch) > 1:
            with suppress(Exception):  # one of them failed: each gets a transaction of its own, and its own error
                return self.write(lambda connection: [(function(connection), None) for function, _ in batch])
        results: list[tuple[Any, Exception | None]] = []
        for function, _ in batch:
            try:
                results.append((self.write(function), None))
            except Exception as error:
                results.append((None, error))
        return results

    def ensure(self) -> None:
        """Opens the database and upgrades its tables, if that has not been done."""
        self._open()

    def close(self) -> None:
        """Waits for transactions that are under way. The database opens again when it is used."""
        with self._lock:
            engines, self._engines = self._engines, None
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
        for engine in set(engines or ()):
            engine.dispose()

    async def changes(self, wake: Callable[[], None]) -> None:
        """Calls `wake` whenever another process has changed a job. Runs until it is cancelled."""
        if self.is_sqlite:
            await self._watch_file(wake)
        else:
            await self._listen(wake)

    async def _watch_file(self, wake: Callable[[], None]) -> None:
        connection = self._open()[0].raw_connection()
        try:
            cursor = connection.cursor()
            before = None
            while True:
                # A number that SQLite changes when another connection commits; reading it costs microseconds.
                (version,) = cursor.execute("PRAGMA data_version").fetchone()
                if before is not None and version != before:
                    wake()
                before = version
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            connection.close()

    async def _listen(self, wake: Callable[[], None]) -> None:
        import psycopg

        options = self._open()[0].dialect.create_connect_args(self.url)[1]
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(**options, autocommit=True)
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    wake()  # what happened before this is not signalled
                    async for _ in connection.notifies():
                        wake()
            except psycopg.Error:
                await asyncio.sleep(1.0)  # the dispatcher looks once a second in any case

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(4, thread_name_prefix="dispatch-database")
            return self._threads

    def _open(self) -> tuple[Engine, Engine]:
        """Returns the engines for reading and for writing, and upgrades the tables first."""
        with self._lock:
            if self._engines is None:
                engines = self._connect()
                migrate(engines[1])
                self._engines = engines
            return self._engines

    def _connect(self) -> tuple[Engine, Engine]:
        if self.is_sqlite:
            if not self.url.database or self.url.database == ":memory:":
                raise InvalidJob("the dispatcher needs a database that processes can share: sqlite:///PATH")
            Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
            return _sqlite_engine(self.url, "BEGIN"), _sqlite_engine(self.url, "BEGIN IMMEDIATE")
        try:
            engine = create_engine(self.url, pool_pre_ping=True, json_serializer=to_json, json_deserializer=from_json)
        except (ModuleNotFoundError, NoSuchModuleError):
            raise InvalidJob("PostgreSQL needs its driver: pip install 'muster-ml[postgres]'") from None
        return engine, engine


def notify(connection: Connection) -> None:
    """Tells dispatchers that a job has changed, once the transaction is committed. SQLite's files say so themselves."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"NOTIFY {CHANNEL}"))


def migrate(engine: Engine) -> None:
    """Creates or upgrades the tables, in one transaction."""
    with engine.connect() as connection:
        if _applied(connection) == HEAD:
            return
    with engine.connect() as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        if _applied(connection) == HEAD:
            return
        from alembic import command  # half a second to import, and needed only after an upgrade of Muster
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def to_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def from_json(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, (str, bytes)) else value


def _applied(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 (a constant)


def _sqlite_engine(url: URL, begin: str) -> Engine:
    engine = create_engine(
        url, connect_args={"timeout": _BUSY_SECONDS}, json_serializer=to_json, json_deserializer=from_json
    )

    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # otherwise the driver begins transactions itself, and too late
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _parse(given: str | URL) -> URL:
    try:
        url = make_url(given)
    except ArgumentError:
        raise InvalidJob("that is not a database URL; use sqlite:///PATH or postgresql://USER@HOST/NAME") from None
    if url.get_backend_name() == "postgresql" or url.drivername == "postgres":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite":
        return url.set(drivername="sqlite")
    raise InvalidJob(f'"{url.drivername}" is not supported; use sqlite:///PATH or postgresql://USER@HOST/NAME')
