"""Reads and writes in transactions, off the event loop.

database = await Database.open("sqlite:////home/me/box/platform.db")
users = await database.read(lambda connection: connection.execute(select(...)).all())
await database.write(lambda connection: connection.execute(insert(...)))

What is given to `write` runs in one transaction: it is kept as a whole when `write` returns, or not at all. It may be
run more than once (PostgreSQL asks for that when two collide), so it does nothing but talk to the connection.
"""

from __future__ import annotations

import ast
import asyncio
import logging
import random
import re
import secrets
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import orjson
from sqlalchemy import Connection, Delete, Engine, Update, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    InvalidatePoolError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from muster.kube.budgets import Budgets
from muster.kube.encryption import KEY_FILE, EncryptionError, KeyRing
from muster.platform.database.encrypted_columns import (
    COLUMNS,
    KEYS,
    check_keys,
    finish_resealing,
    needs_resealing,
    reseal_some,
)
from muster.platform.database.tables import ACCESS_TABLES
from muster.platform.quotas import BUDGETS

# Upgrades the tables to what this release needs. migrations/README.md says how to add a
# migration.


MIGRATIONS = Path(__file__).parent / "migrations"
_NAME = re.compile(r"([a-z]+)_(\d{4})")
_DEPENDS_ON = re.compile(r"^depends_on(?:: [^=]+)? = (.+)$", re.MULTILINE)
_LOCK = 0x6D7573746572
"""The advisory lock of servers that share a PostgreSQL: one upgrades, the others wait."""


def migrate(engine: Engine) -> None:
    """Applies all missing migrations in one transaction. After a crash nothing has changed."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        # Alembic takes half a second to import, and is needed only after an upgrade of Muster.
        if _applied_revisions(connection) != expected_heads(MIGRATIONS / "versions"):
            _upgrade(connection)


def expected_heads(folder: Path) -> set[str]:
    """The versions that Alembic stores after all migrations: the last of every area, unless a migration of another area
    depends on it."""
    steps = list(folder.glob("*.py"))
    needed = {need for step in steps for need in _needs(step.read_text())}
    return latest_per_area(step.stem for step in steps) - needed


def latest_per_area(names: Iterable[str]) -> set[str]:
    """The last migration of every area: of users_0001, users_0002 and runs_0001, it is users_0002 and runs_0001."""
    last: dict[str, str] = {}
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name}.py: a migration must be named AREA_NNNN, as in users_0001")
        last[match[1]] = name
    return set(last.values())


def _needs(step: str) -> tuple[str, ...]:
    """What a migration depends on, read without running it: Alembic is not imported yet."""
    found = _DEPENDS_ON.search(step)
    return tuple(ast.literal_eval(found[1]) or ()) if found else ()


def _applied_revisions(connection: Connection) -> set[str]:
    if not inspect(connection).has_table("alembic_version"):
        return set()
    return set(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "heads")


class AccessChanges:
    """Says that rights have changed: an account, its sessions, tokens or teams were edited or deleted by this process.
    It is noticed where statements are executed, so that no function can forget to say it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._next = asyncio.Event()
        self.number = 0
        """How often it has happened."""

    async def next(self) -> None:
        """Waits for the next change."""
        await self._next.wait()

    def announce(self) -> None:
        """May be called on any thread."""
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        self.number += 1
        ready, self._next = self._next, asyncio.Event()
        ready.set()


_CHANGED = "access changed"
_SENDER = "sender"
CHANNEL = "muster"
"""Of PostgreSQL's NOTIFY."""
ACCESS, RUN = "access", "run"
"""What is announced."""


def _note_access_change(connection: Connection, statement: Any, *more: Any) -> None:
    if isinstance(statement, (Update, Delete)) and getattr(statement.table, "name", "") in ACCESS_TABLES:
        *_, result = more
        if result.rowcount:  # -1 if it is not known
            connection.info[_CHANGED] = True


T = TypeVar("T")

Fence: TypeAlias = Callable[[Connection], None]
FENCE: ContextVar[Fence | None] = ContextVar("fence", default=None)
"""What a transaction that writes checks first; see `leases.py`. Tasks inherit it from the task that creates them."""

_READERS = 4
_SERVER_THREADS = 8
_BUSY_SECONDS = 15.0
_USED = "used"
_IDLE_SECONDS = 30.0
"""A connection that was not used for this long is tested before it is used again."""
_ATTEMPTS = 12
_ATTEMPTS_SIDE_BY_SIDE = 3
_TRY_AGAIN = {"40001", "40P01"}
"""What PostgreSQL calls a transaction that lost against another one, and a deadlock."""

Access = Literal["read", "write"]


def is_disconnected(error: BaseException) -> bool:
    """Whether a connection broke or could not be made, as while PostgreSQL restarts. A write may have been kept or
    not."""
    return isinstance(error, DBAPIError) and (
        error.connection_invalidated or isinstance(error, (InterfaceError, OperationalError))
    )


class DatabaseError(Exception):
    """The database cannot be used. The message says what to do."""


class Turns:
    """Lets transactions of this process run side by side, or one of them alone.

    Of two transactions that conflict, PostgreSQL keeps the one that commits first. When many are written at once, one
    may lose every time; alone, it wins against all of its own process.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._permits = threading.Semaphore(most)
        self._alone = threading.Lock()

    @contextmanager
    def take(self, *, alone: bool) -> Iterator[None]:
        count = self._most if alone else 1
        # One at a time collects all permits: two would wait for each other.
        with self._alone if alone else nullcontext():
            for _ in range(count):
                self._permits.acquire()
            try:
                yield
            finally:
                self._permits.release(count)


class Database:
    """Use `open`."""

    def __init__(self, readers: Engine, writers: Engine, reading: ThreadPoolExecutor, writing: ThreadPoolExecutor):
        self._readers, self._writers = readers, writers
        self._reading, self._writing = reading, writing
        self._counting = threading.Lock()
        self._turns = Turns(_SERVER_THREADS)
        self.access_changes = AccessChanges()
        event.listen(writers, "after_execute", _note_access_change)
        self.writes = 0
        """The number of transactions this process has written. What was read before may be outdated after."""
        self.is_shared = False
        """Whether other servers use the database, too: then what was read may be outdated at any time."""
        self.sender = secrets.token_hex(8)
        """Tells announcements of this process from those of others."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        keys: KeyRing | None = None,
        budgets: Budgets | None = None,
        survives_power_cut: bool = True,
    ) -> Database:
        """Creates or upgrades the tables first. `url` is sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME. `keys`
        encrypt secrets; without them there is a key beside the file of a SQLite."""
        parsed = _parse_url(url)
        try:
            ring = keys or _own_keys(parsed)
            database = _connect(parsed, survives_power_cut, {KEYS: ring, BUDGETS: budgets})
        except EncryptionError as error:
            raise DatabaseError(str(error)) from None
        try:
            await asyncio.get_running_loop().run_in_executor(database._writing, migrate, database._writers)
            await database.read(check_keys)
            ring.ensure()
            await database.tidy()
        except EncryptionError as error:
            database.close()
            shown = parsed.render_as_string(hide_password=True)
            raise DatabaseError(f"the database {shown} cannot be used: {error}") from None
        except DBAPIError as error:
            database.close()
            shown = make_url(url).render_as_string(hide_password=True)
            raise DatabaseError(f"the database {shown} cannot be used: {str(error.orig).strip()}") from None
        except BaseException:
            database.close()
            raise
        return database

    @property
    def url(self) -> str:
        """With its password, for others that use the same database."""
        return self._writers.url.render_as_string(hide_password=False)

    @property
    def connection_arguments(self) -> dict[str, Any]:
        """For a connection of one's own, without SQLAlchemy."""
        return dict(self._writers.dialect.create_connect_args(self._writers.url)[1])

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._writers.dialect.name

    async def read(self, function: Callable[[Connection], T]) -> T:
        """What the function finds, in one snapshot. It cannot write."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._in_transaction, function, "read")

    async def write(self, function: Callable[[Connection], T]) -> T:
        """Raises LeaseLost if the current task works under a lease that another server has taken."""
        fence = FENCE.get()

        def fenced(connection: Connection) -> T:
            if fence is not None:
                fence(connection)
            return function(connection)

        return await asyncio.get_running_loop().run_in_executor(self._writing, self._in_transaction, fenced, "write")

    async def autocommit(self, function: Callable[[Connection], T]) -> T:
        """Executes single statements that are atomic by themselves. They do not count as writes."""

        def execute() -> T:
            with self._writers.connect() as connection:
                return function(connection.execution_options(isolation_level="AUTOCOMMIT"))

        return await asyncio.get_running_loop().run_in_executor(self._writing, execute)

    def note_other_server(self, *, access: bool) -> None:
        """Another server has written something: what was read may be outdated. `access`: rights have changed."""
        with self._counting:
            self.writes += 1
        if access:
            self.access_changes.announce()

    async def tidy(self) -> None:
        """Updates SQLite's statistics, on which its query plans depend. PostgreSQL does this itself."""
        if self.dialect == "sqlite":
            await self.write(_analyze)

    async def reseal(self) -> None:
        """Encrypts secrets that an older release wrote, or that have an older key; see `encrypted_columns.py`. It may
        be interrupted at any time; the next start continues."""
        if not await self.read(needs_resealing):
            return
        for column in COLUMNS:
            after = ""
            while after := await self.write(partial(reseal_some, column=column, after=after)):
                pass
        if self.dialect == "sqlite":
            # Pages that were freed or replaced still have the plain text.
            await asyncio.get_running_loop().run_in_executor(self._writing, self._vacuum)
        await self.write(finish_resealing)

    def _vacuum(self) -> None:
        with self._writers.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute("VACUUM")
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Waits for transactions that are running."""
        for pool in {self._reading, self._writing}:
            pool.shutdown()
        for engine in {self._readers, self._writers}:
            engine.dispose()

    def _in_transaction(self, function: Callable[[Connection], T], access: Access) -> T:
        engine = self._writers if access == "write" else self._readers
        for attempt in range(1, _ATTEMPTS + 1):
            alone = attempt > _ATTEMPTS_SIDE_BY_SIDE
            turn = self._turns.take(alone=alone) if access == "write" else nullcontext()
            try:
                with turn, engine.connect() as connection:
                    _isolate(connection, access)
                    connection.info.pop(_CHANGED, None)
                    connection.info[_SENDER] = self.sender
                    with connection.begin():
                        answer = function(connection)
                        if connection.info.get(_CHANGED):
                            announce(connection, ACCESS)
                    changed = connection.info.pop(_CHANGED, False)
                break
            except DBAPIError as error:
                if attempt == _ATTEMPTS or getattr(error.orig, "sqlstate", None) not in _TRY_AGAIN:
                    raise
                time.sleep(random.uniform(0, 0.002 * 2**attempt))  # noqa: S311 (it is no secret)
        if access == "write":
            with self._counting:
                self.writes += 1
            if changed:
                self.access_changes.announce()
        return answer


def announce(connection: Connection, subject: str, name: str = "") -> None:
    """Tells other servers on the same PostgreSQL, when the transaction is committed, that something has changed: the
    rights of users, or the run of this id. `announcements.py` receives it."""
    if connection.dialect.name == "postgresql":
        said = f"{connection.info.get(_SENDER, '')} {subject} {name}"
        connection.execute(text("SELECT pg_notify(:channel, :said)"), {"channel": CHANNEL, "said": said})


def sqlite_url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        # Not its text: it may have a password.
        raise DatabaseError(
            "what is set as the database (MUSTER_DATABASE, or `database` in the settings) is not a URL; use "
            "sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME"
        ) from None
    if parsed.drivername in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in {"sqlite", "postgresql+psycopg"}:
        raise DatabaseError(
            f'"{parsed.drivername}" is not supported; use sqlite:///PATH or postgresql://USER@HOST/NAME'
        )
    return parsed


def _own_keys(url: URL) -> KeyRing:
    if url.drivername == "sqlite" and url.database:
        return KeyRing.load(Path(url.database).with_name(KEY_FILE))
    return KeyRing(None, (), source="the settings")


def _connect(url: URL, survives_power_cut: bool, options: Mapping[str, Any]) -> Database:
    if url.drivername == "sqlite":
        return _sqlite(url, survives_power_cut, options)
    try:
        engine = create_engine(
            url,
            pool_size=_SERVER_THREADS,
            execution_options=dict(options),
            json_serializer=_to_json,
            json_deserializer=_from_json,
        )
    except (ModuleNotFoundError, NoSuchModuleError):
        raise DatabaseError("PostgreSQL needs its driver: pip install 'muster-ml[postgres]'") from None
    _replace_lost_connections(engine)
    logging.getLogger("psycopg").addFilter(_is_news)
    pool = ThreadPoolExecutor(_SERVER_THREADS, thread_name_prefix="database")
    return Database(engine, engine, pool, pool)


def _replace_lost_connections(engine: Engine) -> None:
    """Makes the pool check a connection before it is used. SQLAlchemy's own check (pool_pre_ping) asks PostgreSQL every
    time: as many transactions again. A connection that PostgreSQL has closed can be read from, which the kernel knows.
    Only one that something between us may have dropped, because it was not used for a while, has to be asked."""

    def checked_in(_: Any, record: ConnectionPoolEntry) -> None:
        record.info[_USED] = time.monotonic()

    def checked_out(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
        used = record.info.get(_USED)
        if used is None:
            return  # it is new
        try:
            if time.monotonic() - used > _IDLE_SECONDS or _is_readable(connection.fileno()):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error:
            record.info.pop(_USED)
            raise InvalidatePoolError from None  # all others are as old: the pool connects anew

    event.listen(engine, "checkin", checked_in)
    event.listen(engine, "checkout", checked_out)


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _is_news(record: logging.LogRecord) -> bool:
    """False for the warning about the rest of a transaction that lost against another one and is tried again."""
    return "pipeline aborted" not in record.getMessage()


def _sqlite(url: URL, survives_power_cut: bool, options: Mapping[str, Any]) -> Database:
    """One thread writes, so no writer waits inside SQLite. Readers see the last commit."""
    if not url.database or url.database == ":memory:":
        raise DatabaseError("SQLite needs a file: sqlite:///PATH")
    path = Path(url.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError as error:
        raise DatabaseError(f"the database {path} cannot be used: {error.strerror}") from None
    pragmas = ["journal_mode=WAL", f"synchronous={'FULL' if survives_power_cut else 'NORMAL'}", "foreign_keys=ON"]
    writers = _sqlite_engine(url, 1, "BEGIN IMMEDIATE", pragmas, options)
    readers = _sqlite_engine(url, _READERS, "BEGIN", ["query_only=ON"], options)
    return Database(
        readers,
        writers,
        ThreadPoolExecutor(_READERS, thread_name_prefix="database-read"),
        ThreadPoolExecutor(1, thread_name_prefix="database-write"),
    )


def _sqlite_engine(url: URL, size: int, begin: str, pragmas: list[str], options: Mapping[str, Any]) -> Engine:
    engine = create_engine(
        url,
        pool_size=size,
        max_overflow=0,
        connect_args={"timeout": _BUSY_SECONDS},
        execution_options=dict(options),
        json_serializer=_to_json,
        json_deserializer=_from_json,
    )

    def connected(connection: Any, _: Any) -> None:
        # Otherwise the driver begins transactions itself, and none around changes to tables.
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _analyze(connection: Connection) -> None:
    connection.exec_driver_sql("PRAGMA analysis_limit=400")
    connection.exec_driver_sql("ANALYZE")


def _isolate(connection: Connection, access: Access) -> None:
    if connection.dialect.name != "postgresql":
        return
    if access == "write":
        connection.execution_options(isolation_level="SERIALIZABLE")
    else:
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _from_json(value: Any) -> Any:
    # SQLite gives a number that was written as text back as a number.
    return orjson.loads(value) if isinstance(value, (str, bytes)) else value
