"""Deletes Events that are older than the settings allow."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from muster.kube.builtin import EVENT
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Object, meta, name_of, namespace_of, parse_time, uid_of


def is_expired(event: Object, now: datetime, keep: timedelta) -> bool:
    """Whether an event last happened longer ago than `keep`."""
    last = event.get("lastTimestamp") or event.get("eventTime") or meta(event).get("creationTimestamp")
    return last is not None and now - parse_time(last) > keep


class EventExpiry:
    def __init__(self, cluster: Cluster, keep: timedelta = timedelta(hours=24), every: float = 300.0) -> None:
        self._cluster = cluster
        self._keep = keep
        self._every = every

    async def run(self) -> None:
        while True:
            await self.delete_expired(datetime.now(UTC))
            await asyncio.sleep(self._every)

    async def delete_expired(self, now: datetime) -> int:
        events = (await self._cluster.list(EVENT)).items
        old = [e for e in events if is_expired(e, now, self._keep)]
        for event in old:
            try:
                await self._cluster.delete(EVENT, name_of(event), namespace_of(event), uid=uid_of(event))
            except NotFound:
                continue
        return len(old)
