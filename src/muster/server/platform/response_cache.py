"""Caches the responses of lists while nothing changes in the database."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.platform.database.database import Database
from muster.platform.errors import Problem
from muster.platform.permissions import Actor
from muster.server.platform.security import identify

_SECONDS = 2.0
"""Another server may just have started on the same PostgreSQL. As soon as it is known, nothing is cached: a user who
changes something through one server must find it in the lists of the other."""
_CLUSTER_SECONDS = 1.0
"""The largest age of responses that also depend on the cluster."""

LISTS: Mapping[str, float] = {
    "count_runs": _SECONDS,
    "list_audit": _SECONDS,
    "list_categories": _SECONDS,
    "list_clusters": _CLUSTER_SECONDS,
    "list_members": _SECONDS,
    "list_module_versions": _SECONDS,
    "list_modules": _SECONDS,
    "list_reviews": _SECONDS,
    "list_runs": _SECONDS,
    "list_storage": _SECONDS,
    "list_teams": _SECONDS,
    "list_users": _SECONDS,
    "list_versions": _SECONDS,
    "list_workflows": _SECONDS,
}
"""Operations whose responses depend only on the database and the user, with the largest age in seconds."""

_LARGEST = 256 * 1024
_BYTES = 32 * 1024 * 1024

CacheKey: TypeAlias = tuple[str, bool, tuple[tuple[str, str], ...], frozenset[str], str, str, bytes]
"""The parts of the user that permissions depend on, and the request."""


class CachedResponse(NamedTuple):
    writes: int
    until: float
    headers: list[tuple[bytes, bytes]]
    body: bytes


class ResponseCache:
    def __init__(self, app: ASGIApp, database: Database) -> None:
        self._app = app
        self._database = database
        self._kept: OrderedDict[CacheKey, CachedResponse] = OrderedDict()
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith("/api/"):
            await self._app(scope, receive, send)
            return
        try:
            # The user is kept in the scope, where the route finds it.
            asked = _cache_key(await identify(Request(scope)), scope)
        except Problem:
            await self._app(scope, receive, send)
            return
        writes = self._database.writes
        kept = self._kept.get(asked)
        if kept is not None and kept.writes == writes and time.monotonic() < kept.until:
            await send({"type": "http.response.start", "status": 200, "headers": list(kept.headers)})
            await send({"type": "http.response.body", "body": kept.body})
            return
        answer = _Answer(scope, send)
        await self._app(scope, receive, answer)
        body = answer.whole()
        if body is not None and not self._database.is_shared:
            self._keep(asked, CachedResponse(writes, time.monotonic() + answer.seconds, answer.headers, body))

    def _keep(self, asked: CacheKey, kept: CachedResponse) -> None:
        before = self._kept.pop(asked, None)
        self._bytes += len(kept.body) - (len(before.body) if before else 0)
        self._kept[asked] = kept
        while self._bytes > _BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1].body)


class _Answer:
    """Passes a response on and records it, if it may be cached: logs and streams are not."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope, self._send = scope, send
        self._pieces, self._size, self._ended = list[bytes](), 0, False
        self.seconds = 0.0
        self.headers: list[tuple[bytes, bytes]] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # Only now it is known which route it was.
            operation = getattr(self._scope.get("route"), "operation_id", None) or ""
            self.seconds = LISTS.get(operation, 0.0) if message["status"] == 200 else 0.0
            self.headers = list(message["headers"])
        elif self.seconds and message["type"] == "http.response.body":
            self._ended = not message.get("more_body", False)
            self._size += len(message.get("body", b""))
            if self._size <= _LARGEST:
                self._pieces.append(message.get("body", b""))
        await self._send(message)

    def whole(self) -> bytes | None:
        """The body, if it may be cached, is complete and not too large."""
        return b"".join(self._pieces) if self._ended and self._size <= _LARGEST else None


def _cache_key(actor: Actor, scope: Scope) -> CacheKey:
    teams = tuple(sorted(actor.teams.items()))
    return actor.id, actor.admin, teams, actor.scopes, actor.run, scope["path"], scope["query_string"]
