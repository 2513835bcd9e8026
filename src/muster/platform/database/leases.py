"""Leases: work that only one of the servers on a PostgreSQL may do at a time.

A lease is a row with a name, its holder, and the time until which it is valid. A server renews all its leases with one
statement every two seconds. When it is killed, another server takes them after ten. Times are those of the database, so
the clocks of servers are never compared.

A server that was paused may not know that it has lost a lease. So every transaction that it writes under a lease first
checks its row, and locks it: another server takes the lease before the transaction, which then fails, or after it.

With SQLite there is one server. Leases then cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    and_,
    cast,
    delete,
    extract,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from muster.platform.database.database import FENCE, Database, Fence
from muster.platform.database.tables import leases
from muster.platform.errors import UnavailableProblem

log = logging.getLogger(__name__)

T = TypeVar("T")

LEASE_SECONDS: Final = 10.0
_RENEW_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 1.0
"""How often a server that stands by tries to take a lease."""
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5
_FORGET_SECONDS: Final = 60.0
"""Leases that a killed server left are deleted so long after they ended."""
_SERVER: Final = "server/"
"""Every server has a lease of its own name, by which the others know that it runs."""

_NOW: Final = cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
"""By the clock of PostgreSQL, in microseconds, as times are stored."""


class LeaseLost(UnavailableProblem):
    """Another server may be doing the same by now. Nothing was written."""


@dataclass(slots=True)
class HeldLease:
    name: str
    is_given_back: bool = False


class Leases:
    """The leases of one server. `run()` renews them until it is cancelled."""

    def __init__(self, database: Database, holder: str = "") -> None:
        self.holder = holder or f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._database = database
        self._shared = database.dialect == "postgresql"
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._led: dict[str, asyncio.Event] = {}
        """The leases of `lead`, with an event that is set when one is lost."""

    async def run(self) -> None:
        if not self._shared:
            await asyncio.Event().wait()
        try:
            await self._take(_SERVER + self.holder)
            renewed = forgot = time.monotonic()
            while True:
                begun, led = time.monotonic(), set(self._led)
                try:
                    kept = set(await self._execute(self._renewal()))
                    renewed = begun
                    if _SERVER + self.holder not in kept:
                        await self._take(_SERVER + self.holder)
                    self._database.is_shared = (await self._execute(_live_servers()))[0] > 1
                    self._drop(led - kept)
                    if begun - forgot > _FORGET_SECONDS:
                        await self._execute(delete(leases).where(leases.c.until < _after(-_FORGET_SECONDS)))
                        forgot = begun
                except DBAPIError as error:
                    log.warning("leases cannot be renewed: %s", error.orig)
                    if time.monotonic() - renewed > LEASE_SECONDS:
                        self._drop(led)
                await asyncio.sleep(_RENEW_SECONDS)
        finally:
            # The others need not wait until the leases end.
            with suppress(Exception):
                await self._execute(delete(leases).where(leases.c.holder == self.holder))

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Waits until no other task, and no other server, holds the lease, and holds it for the block. Transactions of
        the block raise LeaseLost once it is lost."""
        async with self._lock(name):
            if not self._shared:
                yield
                return
            wait = _FIRST_WAIT
            while not await self._take(name):
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            async with self._fenced(HeldLease(name)):
                yield

    @asynccontextmanager
    async def hold_new(self, name: str, store: Callable[[Connection], T]) -> AsyncIterator[tuple[T, HeldLease]]:
        """As `hold`, for work that no other server knows before `store` has stored it: one transaction stores it and
        takes the lease."""
        held = HeldLease(name)

        def store_and_take(connection: Connection) -> T:
            if self._shared:
                connection.execute(insert(leases).values(name=name, holder=self.holder, until=_after(LEASE_SECONDS)))
            return store(connection)

        async with self._lock(name):
            stored = await self._database.write(store_and_take)
            if not self._shared:
                yield stored, held
                return
            async with self._fenced(held):
                yield stored, held

    async def lead(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `work` whenever this server holds the lease, until it is cancelled. If the lease is lost, `work` is
        cancelled."""
        if not self._shared:
            await work()
            return
        while True:
            while not await self._try_to_lead(name):  # noqa: ASYNC110 (another process gives it back)
                await asyncio.sleep(_RETRY_SECONDS)
            log.info("this server, %s, is in charge of the %s", self.holder, name)
            lost = self._led[name] = asyncio.Event()
            token = FENCE.set(self._fence(name))
            working, losing = asyncio.create_task(work()), asyncio.create_task(lost.wait())
            FENCE.reset(token)
            try:
                await asyncio.wait([working, losing], return_when=asyncio.FIRST_COMPLETED)
                if not lost.is_set():
                    await working  # it ended by itself, usually with an error
                log.warning("this server, %s, has lost the lease of the %s", self.holder, name)
            finally:
                self._led.pop(name, None)
                for task in (working, losing):
                    task.cancel()
                await asyncio.gather(working, losing, return_exceptions=True)
                with suppress(DBAPIError):
                    await asyncio.shield(self._give_back(name))

    def leads(self, name: str) -> bool:
        return not self._shared or name in self._led

    async def _try_to_lead(self, name: str) -> bool:
        try:
            return await self._take(name)
        except DBAPIError as error:
            log.warning("the lease of the %s cannot be taken: %s", name, error.orig)
            return False

    def _lock(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    @asynccontextmanager
    async def _fenced(self, held: HeldLease) -> AsyncIterator[None]:
        """Gives the lease back at the end."""
        token = FENCE.set(self._fence(held.name))
        try:
            yield
        finally:
            FENCE.reset(token)
            if not held.is_given_back:
                # The task may have been cancelled. If this does not arrive, the lease ends by itself.
                with suppress(DBAPIError):
                    await asyncio.shield(self._give_back(held.name))

    async def write_last(self, held: HeldLease, function: Callable[[Connection], T]) -> T:
        """Writes, and gives the lease back in the same transaction."""

        def write(connection: Connection) -> T:
            result = function(connection)
            if self._shared:
                connection.execute(delete(leases).where(self._own(held.name)))
            return result

        result = await self._database.write(write)
        held.is_given_back = True
        return result

    def _drop(self, names: set[str]) -> None:
        for name in names & self._led.keys():
            self._led[name].set()

    def _fence(self, name: str) -> Fence:
        """Returns what checks this lease, and those under which the current task works already."""
        outer = FENCE.get()

        def check(connection: Connection) -> None:
            if outer is not None:
                outer(connection)
            if (
                connection.execute(select(leases.c.name).where(self._own(name)).with_for_update(read=True)).first()
                is None
            ):
                raise LeaseLost(f"another server has taken over {name}; try again")

        return check

    def _own(self, name: str) -> ColumnElement[bool]:
        return and_(leases.c.name == name, leases.c.holder == self.holder)

    async def _take(self, name: str) -> bool:
        new = insert(leases).values(name=name, holder=self.holder, until=_after(LEASE_SECONDS))
        taken = new.on_conflict_do_update(
            index_elements=["name"],
            set_={"holder": new.excluded.holder, "until": new.excluded.until},
            where=or_(leases.c.holder == self.holder, leases.c.until < _NOW),
        )
        return bool(await self._execute(taken.returning(leases.c.name)))

    def _renewal(self) -> Executable:
        mine = update(leases).where(leases.c.holder == self.holder)
        return mine.values(until=_after(LEASE_SECONDS)).returning(leases.c.name)

    async def _give_back(self, name: str) -> None:
        await self._execute(delete(leases).where(self._own(name)))

    async def _execute(self, statement: Executable) -> list[Any]:
        def execute(connection: Connection) -> list[Any]:
            found = connection.execute(statement)
            return list(found.scalars()) if found.returns_rows else []

        return await self._database.autocommit(execute)


def _live_servers() -> Executable:
    return select(func.count()).where(leases.c.name.startswith(_SERVER), leases.c.until > _NOW)


def _after(seconds: float) -> ColumnElement[Any]:
    return _NOW + round(seconds * 1_000_000)
