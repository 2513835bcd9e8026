"""What passes the fence between the controllers and the API server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from muster.operator.fence import NotLeading, fence


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_is_written_without_the_lease(method: str) -> None:
    leads = True
    gate = fence(lambda: leads, requests=1)
    async with gate(method):
        pass
    leads = False
    with pytest.raises(NotLeading, match="nothing is written"):
        async with gate(method):
            pass
    async with gate("GET"):
        pass  # reading is free; and who was refused holds no place


async def test_a_lease_that_was_lost_while_waiting_for_a_place_counts() -> None:
    leads = True
    gate = fence(lambda: leads, requests=1)

    async def write() -> None:
        async with gate("POST"):
            raise AssertionError("written")

    async with gate("POST"):
        waiting = asyncio.create_task(write())
        await asyncio.sleep(0)
        leads = False
    with pytest.raises(NotLeading):
        await waiting


async def test_no_more_at_a_time_than_there_are_places() -> None:
    gate = fence(lambda: True, requests=2)
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(gate("GET"))
        third = asyncio.ensure_future(gate("GET").__aenter__())
        await asyncio.sleep(0)
        assert not third.done()
    await third
