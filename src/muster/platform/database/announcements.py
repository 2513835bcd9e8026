"""What other servers on the same PostgreSQL have changed.

NOTIFY is part of the transaction that changes something: it arrives after the commit, within milliseconds, and never
without it. Polling would need a column whose order is that of commits, which a sequence is not, and would load the
database while nothing changes. NOTIFY's price is that such commits wait for one another, so it is used only for what
browsers follow (runs) and what must take effect at once (rights), and not for every write. It needs a connection of its
own: behind PgBouncer, one in session mode.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from muster.platform.database.database import ACCESS, CHANNEL, RUN, Database

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0
_COLLECT_SECONDS: Final = 0.02
"""Announcements that arrive together cause a single query."""
_ALIVE_SECONDS: Final = 15.0


class Announced(NamedTuple):
    runs: frozenset[str] = frozenset()
    """The ids of runs that changed."""
    access: bool = False
    missed: bool = False
    """Announcements may have been lost: look at everything again."""


async def announcements(database: Database) -> AsyncIterator[Announced]:
    """Yields what other servers announce, without end. With SQLite there are none."""
    if database.dialect != "postgresql":
        await asyncio.Event().wait()
    from psycopg import AsyncConnection, OperationalError

    first = True
    while True:
        try:
            async with await AsyncConnection.connect(**database.connection_arguments, autocommit=True) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                if not first:
                    yield Announced(access=True, missed=True)
                first = False
                while True:
                    said = [each.payload async for each in connection.notifies(timeout=_ALIVE_SECONDS, stop_after=1)]
                    if not said:
                        await connection.execute("SELECT 1")  # notices a connection that is gone
                        continue
                    said += [each.payload async for each in connection.notifies(timeout=_COLLECT_SECONDS)]
                    found = read_announcements(said, database.sender)
                    if found != Announced():
                        yield found
        except OperationalError as error:
            log.warning("changes of other servers cannot be followed: %s", str(error).strip())
            await asyncio.sleep(_AGAIN_SECONDS)


def read_announcements(said: list[str], own: str) -> Announced:
    """Returns what others than the sender `own` have announced."""
    runs, access = set[str](), False
    for each in said:
        sender, _, rest = each.partition(" ")
        subject, _, name = rest.partition(" ")
        if sender == own:
            continue
        if subject == RUN and name:
            runs.add(name)
        access = access or subject == ACCESS
    return Announced(frozenset(runs), access)
