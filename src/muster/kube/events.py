"""Kubernetes Events: reads both forms that Kubernetes writes, and records new ones, counted when they happen again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.kube.builtin import EVENT
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of, namespace_of, parse_time, timestamp, uid_of, version_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sort_events(events: Iterable[Object]) -> list[Object]:
    return sorted(events, key=last_event_time)


def last_event_time(event: Mapping[str, Any]) -> datetime:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    text = text or meta(event).get("creationTimestamp")
    return parse_time(text) if text else _EPOCH


def involved_object(event: Mapping[str, Any]) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(involved.get('kind') or '').lower()}/{involved.get('name') or ''}"


def event_source(event: Mapping[str, Any]) -> str:
    old = (event.get("source") or {}).get("component")
    return str(old or event.get("reportingComponent") or event.get("reportingController") or "")


def event_message(event: Mapping[str, Any]) -> str:
    return " ".join(str(event.get("message") or event.get("note") or "").split())


def event_selector(kind: Kind, obj: Object) -> str:
    """Returns the field selector of an object's events. A node agent writes the node's name as its uid."""
    parts = {"involvedObject.kind": kind.kind, "involvedObject.name": name_of(obj)}
    if kind.namespaced:
        parts["involvedObject.namespace"] = namespace_of(obj)
    if kind.kind != "Node" and uid_of(obj):
        parts["involvedObject.uid"] = uid_of(obj)
    return ",".join(f"{field}={value}" for field, value in parts.items())


# Records Kubernetes Events: one object per thing that happened, counted when it happens
# again.


Severity: TypeAlias = Literal["Normal", "Warning"]

log = logging.getLogger(__name__)

_MOST_RECORDS = 10_000
_LONGEST_MESSAGE = 1024
_MOST_SIMILAR, _SIMILAR_SECONDS = 10, 600.0
"""Events about a Pod with the same reason and more different messages than this become one event, as in Kubernetes. A
Pod writes some of the messages itself."""
_BATCH_SECONDS = 0.1
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

    __slots__ = ("about", "count", "first", "more_metadata", "name", "stored")

    def __init__(self, about: Object, first: str, annotations: Mapping[str, str] | None) -> None:
        self.more_metadata = {"annotations": dict(annotations)} if annotations else {}
        self.about = _reference(about)  # a reference, so that the object itself is not kept in memory
        self.first = first
        self.name = f"{name_of(about)[:200]}.{next(_names):x}"
        self.count = 0
        self.stored = 0

    @property
    def namespace(self) -> str:
        """Events about cluster-scoped objects are in `default`, as in Kubernetes."""
        return self.about["namespace"] or "default"


class _SimilarEvents:
    """How many different messages the events of one Pod with the same reason had, and since when."""

    __slots__ = ("count", "since")

    def __init__(self, since: float) -> None:
        self.count = 0
        self.since = since


class EventRecorder:
    """`event()` returns at once. `run()` stores what was recorded; `flush()` waits until everything is stored."""

    def __init__(self, cluster: Cluster, component: str) -> None:
        self._cluster = cluster
        self._component = component
        self._records: OrderedDict[_EventKey, _Record] = OrderedDict()
        self._dirty: dict[_EventKey, _Record] = {}
        self._similar: OrderedDict[tuple[str, Severity, str], _SimilarEvents] = OrderedDict()
        self._wake = asyncio.Event()
        self._storing = asyncio.Lock()

    def event(
        self, about: Object, type: Severity, reason: str, message: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        key = _EventKey(uid_of(about) or name_of(about), type, reason, message[:_LONGEST_MESSAGE])
        record = self._records.get(key)
        if record is None and about.get("kind") == "Pod":
            key = self._combine(key)
            record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record(about, timestamp(), annotations)
            if len(self._records) > _MOST_RECORDS:
                self._records.popitem(last=False)
        record.count += 1
        self._dirty[key] = record
        self._wake.set()

    def _combine(self, key: _EventKey) -> _EventKey:
        """Returns the key of an event with a new message: one for all, if there were too many."""
        group = key[:3]
        similar = self._similar.get(group)
        now = time.monotonic()
        if similar is None or now - similar.since > _SIMILAR_SECONDS:
            similar = self._similar[group] = _SimilarEvents(now)
            if len(self._similar) > _MOST_RECORDS:
                self._similar.popitem(last=False)
        similar.count += 1
        if similar.count <= _MOST_SIMILAR:
            return key
        return key._replace(message="(combined from similar events): the messages differ every time")

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
            "metadata": {"name": record.name, "namespace": record.namespace, **record.more_metadata},
            "involvedObject": record.about,
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
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
