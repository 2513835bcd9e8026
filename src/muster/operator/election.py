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

log = logging.getLogger(__name__)

_JITTER = 1.2


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    name: str
    namespace: str
    identity: str
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    """A holder that could not renew for this long has lost the lease."""
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.retry_seconds * _JITTER < self.renew_seconds < self.lease_seconds:
            raise ValueError(
                f"a lease of {self.lease_seconds:g} s must be longer than the renew deadline ({self.renew_seconds:g} "
                f"s), and that longer than {_JITTER} times the retry period ({self.retry_seconds:g} s)"
            )


class ObservedLease(NamedTuple):
    """A lease's spec, and when it was first observed, by our clock."""

    spec: Object
    since: float


class LeadershipLost(Exception):
    """Another operator leads, or may lead from now on."""


def lease_state(
    observed: ObservedLease, identity: str, now: float, lease_seconds: float
) -> Literal["ours", "free", "theirs"]:
    """Returns whose the lease is. A lease without a holder, or not renewed for its duration, is free."""
    holder = observed.spec.get("holderIdentity")
    if holder == identity:
        return "ours"
    duration = float(observed.spec.get("leaseDurationSeconds") or lease_seconds)
    return "free" if not holder or now >= observed.since + duration else "theirs"


def claim_spec(before: Object | None, settings: ElectionSettings) -> Object:
    """Returns the lease's spec after we take or renew it."""
    spec = before or {}
    now = micro_timestamp()
    is_renewal = spec.get("holderIdentity") == settings.identity
    return {
        "holderIdentity": settings.identity,
        "leaseDurationSeconds": max(1, round(settings.lease_seconds)),
        "acquireTime": spec.get("acquireTime", now) if is_renewal else now,
        "renewTime": now,
        "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if is_renewal or before is None else 1),
    }


class Election:
    """`lead(work)` runs `work` while this operator leads. Every write checks `holds`, which depends on the clock alone,
    so it also ends for a process that was stopped and resumed."""

    def __init__(
        self, cluster: Cluster, settings: ElectionSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._lease: Object | None = None
        self._observed: ObservedLease | None = None
        self._renewed: float | None = None

    @property
    def holds(self) -> bool:
        return self._renewed is not None and self._clock() < self._renewed + self._settings.renew_seconds

    @property
    def overdue(self) -> bool:
        """The loss should have been noticed long ago: the process is stuck."""
        return self._renewed is not None and self._clock() > self._renewed + 2 * self._settings.lease_seconds

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs until cancelled, or until `work` ends by itself. Losing the lease cancels `work` and waits for the next
        term. The lease is given back at the end."""
        try:
            while True:
                await self.acquire()
                log.info("leading: %s holds %s", self._settings.identity, self._settings.name)
                try:
                    await self._term(work)
                    return
                except LeadershipLost as lost:
                    log.error("no longer leading: %s", lost)
        finally:
            await self.release()

    async def acquire(self) -> None:
        """Waits for the lease."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.renew_seconds):
                    if await self._try_acquire():
                        return
            # Jitter, so that operators do not try all at once.
            await asyncio.sleep(self._settings.retry_seconds * (1 + random.random() * (_JITTER - 1)))  # noqa: S311

    async def release(self) -> None:
        """Gives the lease back, so that the next leader need not wait until it expires."""
        held, self._renewed = self.holds, None
        if not held:
            return
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._settings.renew_seconds):
                while not await self._try_release():
                    pass

    async def _try_release(self) -> bool:
        """Returns whether the lease is no longer ours. A cancelled renewal may still arrive in between."""
        await self._read_lease()
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
                self._renewed = None  # no writes from here on, not even by cleanup
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
        if not working.cancelled():
            working.result()
            return
        renewing.result()

    async def _renew(self) -> None:
        """Renews until the lease is lost."""
        settings = self._settings
        while True:
            await asyncio.sleep(settings.retry_seconds)
            assert self._renewed is not None
            left = self._renewed + settings.renew_seconds - self._clock()
            renewed = False
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left)):
                    renewed = await self._try_acquire()
            if self._observed is not None and self._observed.spec.get("holderIdentity") != settings.identity:
                raise LeadershipLost(
                    f"{self._observed.spec.get('holderIdentity') or 'no operator'} holds {settings.name}"
                )
            if not renewed and not self.holds:
                raise LeadershipLost(f"{settings.name} could not be renewed for {settings.renew_seconds:g} s")

    async def _try_acquire(self) -> bool:
        """Takes or renews the lease if possible. Any failure is a reason to try again."""
        settings = self._settings
        before = self._clock()  # the time of the request counts, because the response may take long
        try:
            if self._renewed is None or self._lease is None:
                await self._read_lease()
            if self._observed is not None:
                whose = lease_state(self._observed, settings.identity, self._clock(), settings.lease_seconds)
                if whose == "theirs":
                    return False
            spec = claim_spec(self._observed.spec if self._observed else None, settings)
            if self._lease is None:
                metadata = {"name": settings.name, "namespace": settings.namespace}
                self._remember(await self._cluster.create({**_LEASE, "metadata": metadata, "spec": spec}))
            else:
                self._remember(await self._cluster.update({**self._lease, "spec": spec}))
        except (Conflict, AlreadyExists, NotFound):
            with suppress(ApiError):
                await self._read_lease()
            return False
        except ApiError as error:
            log.warning("lease %s/%s: %s", settings.namespace, settings.name, error)
            return False
        self._renewed = before
        return True

    async def _read_lease(self) -> None:
        try:
            self._remember(await self._cluster.get(LEASE, self._settings.name, self._settings.namespace))
        except NotFound:
            self._lease = self._observed = None

    def _remember(self, lease: Object) -> None:
        self._lease = lease
        spec = spec_of(lease)
        if self._observed is None or self._observed.spec != spec:
            self._observed = ObservedLease(spec, self._clock())


_LEASE = {"apiVersion": LEASE.api_version, "kind": LEASE.kind}


class NotLeading(ApiError):
    """Another operator may be writing by now."""

    code, reason = 403, "NotLeading"


def lease_gate(may_write: Callable[[], bool], requests: int) -> Gate:
    """Lets writes through only while `may_write` returns True, and at most `requests` requests at a time."""
    room = asyncio.Semaphore(requests)

    @asynccontextmanager
    async def gate(method: str) -> AsyncIterator[None]:
        async with room:
            if method != "GET" and not may_write():
                raise NotLeading("this operator no longer leads, so it must not write")
            yield

    return gate
