"""Leader election: one of several operators holds a Lease, by the rules of Kubernetes' own components.

The holder renews the lease all the time. Another operator takes it after it has seen no renewal for the duration of
the lease, by its own clock: the clocks of machines are never compared. A holder that cannot renew stops well before
another may begin, and gives the lease back when it stops on purpose. `lease_gate` lets no write through without the
lease, and limits the number of concurrent requests.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from muster.kube.builtin import LEASE
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.kube.objects import Object, micro_timestamp, spec_of
from muster.kube.remote.client import Gate

# Merged from election: One of several operators leads: it holds a Lease, with the rules that Kubernetes' own
# components follow.
#
# Whoever holds the lease renews it all the time. Another one takes it when it has seen no renewal for as long as a
# lease
# lasts, by its own clock: clocks of machines are never compared. A holder that cannot renew stops in time, well
# before
# anybody else may begin, and gives the lease back when it goes on purpose.


log = logging.getLogger(__name__)

_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    name: str
    namespace: str
    identity: str
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    """A holder that could not renew for this long has lost."""
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry_seconds * _JITTER < self.renew_seconds < self.lease_seconds:
            raise ValueError(
                f"a lease of {self.lease_seconds:g} s must be longer than the renew deadline ({self.renew_seconds:g} "
                f"s), and that longer than {_JITTER} times the retry period ({self.retry_seconds:g} s)"
            )


class ObservedLease(NamedTuple):
    """A lease's content, and when it was first seen to be so, by our clock."""

    spec: Object
    since: float


class LeadershipLost(Exception):
    """Somebody else leads, or may from now on."""


def lease_state(
    sighting: ObservedLease, identity: str, now: float, lease_seconds: float
) -> Literal["ours", "free", "theirs"]:
    """Whose the lease is. One that nobody holds, or that was not renewed for as long as it lasts, is free."""
    holder = sighting.spec.get("holderIdentity")
    if holder == identity:
        return "ours"
    lasts = float(sighting.spec.get("leaseDurationSeconds") or lease_seconds)
    return "free" if not holder or now >= sighting.since + lasts else "theirs"


def claim_spec(before: Object | None, settings: ElectionSettings) -> Object:
    """What the lease says once it is ours, or ours again."""
    spec = before or {}
    now = micro_timestamp()
    again = spec.get("holderIdentity") == settings.identity
    return {
        "holderIdentity": settings.identity,
        "leaseDurationSeconds": max(1, round(settings.lease_seconds)),
        "acquireTime": spec.get("acquireTime", now) if again else now,
        "renewTime": now,
        "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if again or before is None else 1),
    }


class Election:
    """`lead(work)` runs `work` whenever this one leads. `holds` is what every write asks: it ends by the clock alone,
    also for a process that was stopped and goes on without having noticed."""

    def __init__(
        self, cluster: Cluster, settings: ElectionSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._lease: Object | None = None
        self._sighting: ObservedLease | None = None
        self._renewed: float | None = None

    @property
    def holds(self) -> bool:
        return self._renewed is not None and self._clock() < self._renewed + self._settings.renew_seconds

    @property
    def overdue(self) -> bool:
        """It should have noticed long ago that it has lost: it is stuck."""
        return self._renewed is not None and self._clock() > self._renewed + 2 * self._settings.lease_seconds

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled, or until `work` ends by itself. A term that is lost cancels `work`; then it waits for the
        next one. The lease is given back at the end."""
        try:
            while True:
                await self.acquire()
                log.info("leads now: %s holds %s", self._settings.identity, self._settings.name)
                try:
                    await self._term(work)
                    return
                except LeadershipLost as lost:
                    log.error("leads no more: %s", lost)
        finally:
            await self.release()

    async def acquire(self) -> None:
        """Waits for the lease."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.renew_seconds):
                    if await self._try():
                        return
            # Not all at once.
            await asyncio.sleep(self._settings.retry_seconds * (1 + random.random() * (_JITTER - 1)))  # noqa: S311

    async def release(self) -> None:
        """Gives the lease back, so that nobody has to wait until it runs out."""
        held, self._renewed = self.holds, None
        if not held:
            return
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._settings.renew_seconds):
                while not await self._give_back():
                    pass

    async def _give_back(self) -> bool:
        """Whether it is no longer ours. A renewal that was cut off may arrive all the same, and come in between."""
        await self._look()
        if self._lease is None or spec_of(self._lease).get("holderIdentity") != self._settings.identity:
            return True
        free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_timestamp()}
        try:
            await self._cluster.update({**self._lease, "spec": {**spec_of(self._lease), **free}})
        except Conflict:
            return False
        return True

    async def _term(self, work: Callable[[], Awaitable[None]]) -> None:
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done() and renewing.done():
                self._renewed = None  # no write from here on, even by those who only clean up
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
        if not working.cancelled():
            working.result()
            return
        renewing.result()

    async def _renew(self) -> None:
        """Until the lease is lost."""
        settings = self._settings
        while True:
            await asyncio.sleep(settings.retry_seconds)
            assert self._renewed is not None
            left = self._renewed + settings.renew_seconds - self._clock()
            renewed = False
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left)):
                    renewed = await self._try()
            if self._sighting is not None and self._sighting.spec.get("holderIdentity") != settings.identity:
                raise LeadershipLost(f"{self._sighting.spec.get('holderIdentity') or 'nobody'} holds {settings.name}")
            if not renewed and not self.holds:
                raise LeadershipLost(f"{settings.name} could not be renewed for {settings.renew_seconds:g} s")

    async def _try(self) -> bool:
        """Takes or renews the lease, if it may be. Whatever keeps it from that is a reason to try again."""
        settings = self._settings
        before = self._clock()  # what counts is when it was asked: the answer may take its time
        try:
            if self._renewed is None or self._lease is None:
                await self._look()
            if self._sighting is not None:
                whose = lease_state(self._sighting, settings.identity, self._clock(), settings.lease_seconds)
                if whose == "theirs":
                    return False
            spec = claim_spec(self._sighting.spec if self._sighting else None, settings)
            if self._lease is None:
                metadata = {"name": settings.name, "namespace": settings.namespace}
                self._see(await self._cluster.create({**_LEASE, "metadata": metadata, "spec": spec}))
            else:
                self._see(await self._cluster.update({**self._lease, "spec": spec}))
        except (Conflict, AlreadyExists, NotFound):
            with suppress(ApiError):
                await self._look()
            return False
        except ApiError as error:
            log.warning("the lease %s/%s: %s", settings.namespace, settings.name, error)
            return False
        self._renewed = before
        return True

    async def _look(self) -> None:
        try:
            self._see(await self._cluster.get(LEASE, self._settings.name, self._settings.namespace))
        except NotFound:
            self._lease = self._sighting = None

    def _see(self, lease: Object) -> None:
        self._lease = lease
        spec = spec_of(lease)
        if self._sighting is None or self._sighting.spec != spec:
            self._sighting = ObservedLease(spec, self._clock())


_LEASE = {"apiVersion": LEASE.api_version, "kind": LEASE.kind}


# Merged from fence: What stands between the controllers and the API server: no write without the lease, and not too
# much at once.


class NotLeading(ApiError):
    """Somebody else may be writing by now."""

    code, reason = 403, "NotLeading"


def lease_gate(may_write: Callable[[], bool], requests: int) -> Gate:
    """Lets writes through only while `may_write` says so, and no more than so many `requests` of any sort at a time."""
    room = asyncio.Semaphore(requests)

    @asynccontextmanager
    async def gate(method: str) -> AsyncIterator[None]:
        async with room:
            if method != "GET" and not may_write():
                raise NotLeading("this operator does not lead any more: nothing is written")
            yield

    return gate
