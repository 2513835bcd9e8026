"""Who is behind a cookie or a token."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from muster.platform.database.database import Database
from muster.platform.rules import Actor
from muster.platform.users.credentials import hashed
from muster.platform.users.sessions import session_actor, touch_session
from muster.platform.users.tokens import token_actor, touch_token

_KEPT = 1000
_SECONDS = 5.0
"""How late a server that shares the database may learn that somebody lost their rights. This one knows at once."""


class Identities:
    """Asks the database, but not again for what it has just been asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[str, tuple[Actor, int, float]] = OrderedDict()

    async def of_session(self, secret: str, address: str) -> Actor | None:
        return await self._of(secret, address, session_actor, touch_session)

    async def of_token(self, secret: str, address: str) -> Actor | None:
        return await self._of(secret, address, token_actor, touch_token)

    async def _of(
        self,
        secret: str,
        address: str,
        find: Callable[[Connection, str, str], tuple[Actor, bool] | None],
        touch: Callable[[Connection, str], None],
    ) -> Actor | None:
        key, writes = f"{find.__name__} {hashed(secret)}", self._database.writes
        known = self._known.get(key)
        if known is not None and known[1] == writes and time.monotonic() < known[2]:
            return known[0] if known[0].address == address else replace(known[0], address=address)
        found = await self._database.read(lambda connection: find(connection, secret, address))
        if found is None:
            return None
        actor, stale = found
        if stale:
            await self._database.write(lambda connection: touch(connection, actor.credential))
        self._known[key] = (actor, writes, time.monotonic() + _SECONDS)
        self._known.move_to_end(key)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return actor
