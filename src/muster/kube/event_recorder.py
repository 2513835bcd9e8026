"""Records Kubernetes Events: one object per thing that happened, counted when it happens again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from typing import Literal, NamedTuple, TypeAlias

from muster.kube.builtin import EVENT
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.objects import Object, name_of, namespace_of, timestamp, uid_of, version_of

Severity: TypeAlias = Literal["Normal", "Warning"]

log = logging.getLogger(__name__)

_MOST_RECORDS = 10_000
_BATCH_SECONDS = 0.05
"""Seconds for which events are collected. Storing them together is cheaper."""
_names = itertools.count(time.time_ns())


class _EventKey(NamedTuple):
    """Events that are equal in these fields are one Event object with a higher count."""

    uid: str
    type: Severity
    reason: str
    message: str


class _Record:
    """The Event object that an event is stored as, and how much of its count is stored."""

    __slots__ = ("about", "count", "first", "name", "stored")

    def __init__(self, about: Object, first: str) -> None:
        self.about = _reference(about)  # a reference, so that the object itself is not kept in memory
        self.first = first
        self.name = f"{name_of(about)[:200]}.{next(_names):x}"
        self.count = 0
        self.stored = 0

    @property
    def namespace(self) -> str:
        """Events about cluster-scoped objects are in `default`, as in Kubernetes."""
        return self.about["namespace"] or "default"


class EventRecorder:
    """`event()` returns at once. `run()` stores what was recorded; `flush()` waits until everything is stored."""

    def __init__(self, cluster: Cluster, component: str) -> None:
        self._cluster = cluster
        self._component = component
        self._records: OrderedDict[_EventKey, _Record] = OrderedDict()
        self._dirty: dict[_EventKey, _Record] = {}
        self._wake = asyncio.Event()
        self._storing = asyncio.Lock()

    def event(self, about: Object, type: Severity, reason: str, message: str) -> None:
        key = _EventKey(uid_of(about) or name_of(about), type, reason, message)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record(about, timestamp())
            if len(self._records) > _MOST_RECORDS:
                self._records.popitem(last=False)
        record.count += 1
        self._dirty[key] = record
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(_BATCH_SECONDS)
            self._wake.clear()
            await self.flush()

    async def flush(self) -> None:
        async with self._storing:
            while self._dirty:
                batch, self._dirty = self._dirty, {}
                await asyncio.gather(*(self._store(h, r) for h, r in batch.items()))

    async def _store(self, key: _EventKey, record: _Record) -> None:
        count = record.count
        try:
            if record.stored:
                change = {"count": count, "lastTimestamp": timestamp()}
                try:
                    await self._cluster.patch(EVENT, record.name, record.namespace, change)
                except NotFound:  # it has expired since
                    await self._cluster.create(self._event_object(key, record, count))
            else:
                await self._cluster.create(self._event_object(key, record, count))
            record.stored = count
        except ApiError as error:
            # Events are best effort: a namespace that is being deleted, or a full disk, must not stop the work.
            log.debug("event %s for %s was not stored: %s", key.reason, record.about["name"], error)

    def _event_object(self, key: _EventKey, record: _Record, count: int) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": record.name, "namespace": record.namespace},
            "involvedObject": record.about,
            "type": key.type,
            "reason": key.reason,
            "message": key.message[:1024],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": record.first,
            "lastTimestamp": timestamp(),
            "count": count,
        }


def _reference(about: Object) -> dict[str, str]:
    return {
        "apiVersion": about.get("apiVersion", ""),
        "kind": about.get("kind", ""),
        "name": name_of(about),
        "namespace": namespace_of(about),
        "uid": uid_of(about),
        "resourceVersion": version_of(about),
    }
