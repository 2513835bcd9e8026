"""Reads Event objects in both forms that Kubernetes writes: the time, the object and the source. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of, namespace_of, parse_time, uid_of

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
