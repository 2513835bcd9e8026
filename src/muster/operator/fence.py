"""What stands between the controllers and the API server: no write without the lease, and not too much at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from muster.kube.errors import ApiError
from muster.kube.remote.client import Gate


class NotLeading(ApiError):
    """Somebody else may be writing by now."""

    code, reason = 403, "NotLeading"


def fence(may_write: Callable[[], bool], requests: int) -> Gate:
    """Lets writes through only while `may_write` says so, and no more than so many `requests` of any sort at a time."""
    room = asyncio.Semaphore(requests)

    @asynccontextmanager
    async def gate(method: str) -> AsyncIterator[None]:
        async with room:
            if method != "GET" and not may_write():
                raise NotLeading("this operator does not lead any more: nothing is written")
            yield

    return gate
