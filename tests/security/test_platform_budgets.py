"""What a member can make grow in the platform has a limit, and the error names its setting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.kube.budgets import Budgets
from muster.kube.encryption import KEY_FILE, KeyRing
from muster.platform.database.database import Database
from muster.platform.quotas import RequestRates
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client, Served, serving

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

SMALL = Budgets(
    user_workflows=2, workflow_versions=2, user_modules=1, module_versions=2, user_tokens=2, user_sessions=2,
)  # fmt: skip


@pytest.fixture
async def served(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    keys = KeyRing.load(tmp_path / KEY_FILE)
    database = await Database.open(database_url, keys=keys, budgets=SMALL, survives_power_cut=False)
    try:
        async with serving(database, tmp_path / "home") as running:
            yield running
    finally:
        database.close()


async def refused(client: Client, path: str, body: object, setting: str) -> None:
    problem = (await client("POST", path, body)).refused(409)
    assert problem["code"] == "budget.count"
    assert f"budgets.{setting}" in problem["detail"]


async def test_workflows_and_versions(served: Served) -> None:
    """A member stores workflows and versions until the disk is full"""
    ann, bob = await served.user("ann"), await served.user("bob")
    version = {"document": graph(node("a"))}
    for name in ("one", "two"):
        await ann.post("workflows", {"name": name, "version": version})
    await refused(ann, "workflows", {"name": "three", "version": version}, "userWorkflows")
    await bob.post("workflows", {"name": "three", "version": version})
    await ann.post("workflows/one/versions", version)
    await refused(ann, "workflows/one/versions", version, "workflowVersions")


async def test_copies(served: Served) -> None:
    """A member gets around the limit of workflows by copying versions into new ones"""
    ann, bob = await served.user("ann"), await served.user("bob")
    version = {"document": graph(node("a"))}
    await bob.post("workflows", {"name": "source", "version": version})
    for name in ("one", "two"):
        await ann.post("workflows", {"name": name, "version": version})
    await refused(ann, "workflows/source/versions/1/copy", {"workflow": {"name": "three"}}, "userWorkflows")
    await ann.post("workflows/source/versions/1/copy", {"into": "one"})
    await refused(ann, "workflows/source/versions/1/copy", {"into": "one"}, "workflowVersions")


async def test_modules(served: Served) -> None:
    """A member has modules built until the disk is full"""
    await served.admin.post("categories", {"name": "c"})
    ann = await served.user("ann")
    source = {"category": "c", "git_url": "https://git.example/x.git", "git_ref": "main"}
    await ann.post("modules", {"name": "m", **source})
    await refused(ann, "modules", {"name": "n", **source}, "userModules")
    await ann.post("modules/m/build")
    await refused(ann, "modules/m/build", None, "moduleVersions")


async def test_tokens(served: Served) -> None:
    """A member creates tokens without end"""
    ann = await served.user("ann")
    first = await ann.post("tokens", {"name": "one"})
    await ann.post("tokens", {"name": "two"})
    await refused(ann, "tokens", {"name": "three"}, "userTokens")
    (await ann("DELETE", f"tokens/{first['token']['id']}")).ok()
    await ann.post("tokens", {"name": "three"})


async def test_sessions(served: Served) -> None:
    """A member logs in without end: the session that was not used for the longest time ends"""
    first = await served.user("ann")
    second, third = await served.log_in("ann"), await served.log_in("ann")
    (await first("GET", "session")).refused(401)
    for browser in (second, third):
        await browser.get("session")


async def test_requests(served: Served) -> None:
    """A member sends requests faster than others can get a turn"""
    ann, bob = await served.user("ann"), await served.user("bob")
    served.platform.rates = RequestRates(1)
    replies = [await ann("GET", "teams") for _ in range(40)]
    limited = [reply for reply in replies if reply.status == 429]
    assert limited
    assert "budgets.userRequestsPerSecond" in limited[0].body["detail"]
    assert int(limited[0].headers["Retry-After"]) >= 1
    await bob.get("teams")


@pytest.mark.usefixtures("database_url")
async def test_rates() -> None:
    """A member waits and then sends a burst that is larger than the limit"""
    rates = RequestRates(10)
    assert [rates.take("ann", 1000.0) for _ in range(300)].count(0.0) == 100
    assert [rates.take("ann", 1001.0) for _ in range(300)].count(0.0) == 10
    assert [rates.take("ann", 9999.0) for _ in range(300)].count(0.0) == 100
    assert rates.take("bob", 9999.0) == 0.0
