"""Jobs of the dispatcher from Python."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.dispatch.testing import FakeAdapter
from muster.platform.database.database import Database, sqlite_url
from muster.platform.users.credentials import local_token
from muster.sdk import Muster, PlatformError
from tests.server.platform.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    database = await Database.open(sqlite_url(tmp_path / "platform.db"), survives_power_cut=False)
    async with serving(database, tmp_path / "home", adapters=[FakeAdapter("cluster")]) as running:
        yield running
    await asyncio.to_thread(database.close)


async def test_a_job_is_submitted_listed_changed_and_deleted(served: Served) -> None:
    def script() -> None:
        muster = Muster(served.url, local_token(served.folder))
        assert [adapter.name for adapter in muster.dispatch.adapters()] == ["cluster"]
        made = muster.dispatch.submit("train", image="python:3.11", command=["true"], key="order-1", priority=3)
        assert muster.dispatch.submit("train", image="python:3.11", command=["true"], key="order-1").id == made.id
        assert [job.id for job in muster.dispatch.list(states=["waiting"], adapters=["cluster"])] == [made.id]
        assert muster.dispatch.set_priority(made.id, 5).priority == 5
        found = muster.dispatch.get(made.id)
        assert (found.key, found.args["image"], [event.state for event in found.events]) == (
            "order-1", "python:3.11", ["waiting"],
        )  # fmt: skip
        assert muster.dispatch.log(made.id) == ""
        with pytest.raises(TimeoutError, match="is still waiting"):
            muster.dispatch.wait(made.id, timeout=0)
        assert muster.dispatch.cancel(made.id).state == "cancelled"
        assert muster.dispatch.wait(made.id).state == "cancelled"
        assert muster.dispatch.restart(made.id).state == "waiting"
        with pytest.raises(PlatformError, match="not unclear"):
            muster.dispatch.resolve(made.id, "again")
        muster.dispatch.cancel(made.id)
        muster.dispatch.delete(made.id)
        assert list(muster.dispatch.list()) == []

    await asyncio.to_thread(script)
