"""Leader election, and the gate between the controllers and the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import LEASE, new_catalogue
from muster.kube.cluster import Cluster
from muster.kube.errors import Unavailable
from muster.kube.objects import Object, spec_of
from muster.operator.election import (
    Election,
    ElectionSettings,
    NotLeading,
    ObservedLease,
    claim_spec,
    lease_gate,
    lease_state,
)
from tests.embedded.waiting import wait_for

SETTINGS = ElectionSettings(
    "lease", "default", "me", lease_seconds=15.0, renew_seconds=0.5, retry_seconds=0.02
)  # fmt: skip


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        yield cluster


async def held_by(cluster: Cluster) -> str:
    return str(spec_of(await cluster.get(LEASE, "lease", "default"))["holderIdentity"])


async def attempt(election: Election) -> bool:
    """Returns whether one more attempt takes the lease."""
    try:
        async with asyncio.timeout(0.2):
            await election.acquire()
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    ("spec", "seconds", "whose"),
    [
        ({"holderIdentity": "me", "leaseDurationSeconds": 15}, 100, "ours"),
        ({"holderIdentity": "", "leaseDurationSeconds": 15}, 0, "free"),
        ({}, 0, "free"),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 14.9, "theirs"),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 15, "free"),
        ({"holderIdentity": "other", "leaseDurationSeconds": 60}, 15, "theirs"),
        ({"holderIdentity": "other"}, 9.9, "theirs"),
        ({"holderIdentity": "other"}, 10, "free"),
    ],
)
def test_who_holds_a_lease(spec: dict[str, Any], seconds: float, whose: str) -> None:
    assert lease_state(ObservedLease(spec, 100.0), "me", 100.0 + seconds, 10.0) == whose


def test_a_claim_counts_the_times_that_the_lease_went_to_another() -> None:
    first = claim_spec(None, SETTINGS)
    assert (first["leaseTransitions"], first["leaseDurationSeconds"], first["holderIdentity"]) == (0, 15, "me")
    again = claim_spec({**first, "acquireTime": "before"}, SETTINGS)
    assert (again["leaseTransitions"], again["acquireTime"]) == (0, "before")
    other = claim_spec({**first, "acquireTime": "before"}, replace(SETTINGS, identity="other"))
    assert (other["leaseTransitions"], other["holderIdentity"]) == (1, "other")
    assert other["acquireTime"] == other["renewTime"]


@pytest.mark.parametrize(("lease", "renew", "retry"), [(10, 10, 2), (15, 2, 2), (15, 2.4, 2)])
def test_times_that_make_no_sense_are_refused(lease: float, renew: float, retry: float) -> None:
    with pytest.raises(ValueError, match="must be longer than"):
        ElectionSettings("lease", "default", "me", lease, renew, retry)


async def test_the_second_waits_until_the_first_has_not_renewed_for_as_long_as_a_lease_lasts(
    cluster: EmbeddedCluster,
) -> None:
    clock = Clock()
    first = Election(cluster, SETTINGS, clock)
    second = Election(cluster, replace(SETTINGS, identity="second"), clock)
    assert await attempt(first) and first.holds
    assert not await attempt(second) and not second.holds

    clock.now += 14.0
    assert not first.holds, "it could not renew in time, so it must not write, long before another process may"
    assert not await attempt(second)
    await first.acquire()
    clock.now += 14.0
    assert not await attempt(second), "it was renewed since"
    clock.now += 15.1
    assert await attempt(second)
    assert await held_by(cluster) == "second"
    assert not await attempt(first)


async def test_a_lease_that_was_given_back_is_taken_at_once(cluster: EmbeddedCluster) -> None:
    first, second = Election(cluster, SETTINGS), Election(cluster, replace(SETTINGS, identity="second"))
    await first.acquire()
    await first.release()
    assert not first.holds and await held_by(cluster) == ""
    assert await attempt(second)
    await first.release()
    assert await held_by(cluster) == "second", "only the holder can give it back"


async def test_work_ends_when_another_process_holds_the_lease(cluster: EmbeddedCluster) -> None:
    election = Election(cluster, SETTINGS)
    begun, ended = asyncio.Event(), asyncio.Event()
    held_at_the_end: list[bool] = []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            held_at_the_end.append(election.holds)
            ended.set()

    leading = asyncio.create_task(election.lead(work))
    async with asyncio.timeout(10):
        await begun.wait()
        thief = {"holderIdentity": "thief", "leaseDurationSeconds": 15}
        await cluster.patch(LEASE, "lease", "default", {"spec": thief})
        await ended.wait()
    assert held_at_the_end == [False], "no write, not even while cleaning up"
    begun.clear()
    await cluster.patch(LEASE, "lease", "default", {"spec": {"holderIdentity": ""}})
    async with asyncio.timeout(10):
        await begun.wait()  # its next term
    leading.cancel()
    await asyncio.wait([leading])
    assert await held_by(cluster) == "", "given back"


async def test_work_ends_when_the_lease_cannot_be_renewed(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut_off(*_: object, **__: object) -> Object:
        raise Unavailable("cut off")

    election = Election(cluster, SETTINGS)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    leading = asyncio.create_task(election.lead(work))
    async with asyncio.timeout(10):
        await begun.wait()
        with monkeypatch.context() as away:
            away.setattr(cluster, "update", cut_off)
            await ended.wait()
            assert not election.holds
            begun.clear()
        await begun.wait()
    leading.cancel()
    await asyncio.wait([leading])


async def test_the_lease_is_given_back_when_work_is_done(cluster: EmbeddedCluster) -> None:
    async def work() -> None:
        assert await held_by(cluster) == "me"

    async with asyncio.timeout(10):
        await Election(cluster, SETTINGS).lead(work)
    await wait_for(cluster, LEASE, "lease", lambda lease: spec_of(lease)["holderIdentity"] == "")


async def test_errors_of_the_work_are_raised(cluster: EmbeddedCluster) -> None:
    async def work() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await Election(cluster, SETTINGS).lead(work)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_is_written_without_the_lease(method: str) -> None:
    leads = True
    gate = lease_gate(lambda: leads, requests=1)
    async with gate(method):
        pass
    leads = False
    with pytest.raises(NotLeading, match="must not write"):
        async with gate(method):
            pass
    async with gate("GET"):
        pass  # reads are allowed, and a rejected write holds no slot


async def test_a_lease_that_was_lost_while_waiting_for_a_place_counts() -> None:
    leads = True
    gate = lease_gate(lambda: leads, requests=1)

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
    gate = lease_gate(lambda: True, requests=2)
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(gate("GET"))
        third = asyncio.ensure_future(gate("GET").__aenter__())
        await asyncio.sleep(0)
        assert not third.done()
    await third
