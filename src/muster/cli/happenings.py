"""Events as rows: when, how often, what, to whom. Pure; both forms in which Kubernetes writes events are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from muster.cli.sections import Grid
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of, namespace_of, parse_time, uid_of
from muster.kube.tables import human_duration

HEADERS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row(event: Object, now: datetime) -> tuple[str, str, str, str, str]:
    """One line of `muster events`."""
    return (
        seen(event, now),
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        about(event),
        message(event),
    )


def grid(events: Iterable[Object], now: datetime) -> Grid:
    """The table at the end of `describe`."""
    rows = [
        (event.get("type") or "", event.get("reason") or "", seen(event, now), source(event), message(event))
        for event in in_order(events)
    ]
    return Grid(("Type", "Reason", "Age", "From", "Message"), rows)


def in_order(events: Iterable[Object]) -> list[Object]:
    return sorted(events, key=last_time)


def last_time(event: Mapping[str, Any]) -> datetime:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    text = text or meta(event).get("creationTimestamp")
    return parse_time(text) if text else _EPOCH


def seen(event: Mapping[str, Any], now: datetime) -> str:
    """`3s`, or `3s (x4 over 2m)` for what happened again."""
    last = last_time(event)
    ago = human_duration((now - last).total_seconds())
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    first = event.get("firstTimestamp") or event.get("eventTime")
    if count <= 1 or not first:
        return ago
    return f"{ago} (x{count} over {human_duration((now - parse_time(first)).total_seconds())})"


def about(event: Mapping[str, Any]) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(involved.get('kind') or '').lower()}/{involved.get('name') or ''}"


def source(event: Mapping[str, Any]) -> str:
    old = (event.get("source") or {}).get("component")
    return str(old or event.get("reportingComponent") or event.get("reportingController") or "")


def message(event: Mapping[str, Any]) -> str:
    return " ".join(str(event.get("message") or event.get("note") or "").split())


def selector(kind: Kind, obj: Object) -> str:
    """The field selector of an object's own events. The agent of a node writes the node's name as its uid."""
    parts = {"involvedObject.kind": kind.kind, "involvedObject.name": name_of(obj)}
    if kind.namespaced:
        parts["involvedObject.namespace"] = namespace_of(obj)
    if kind.kind != "Node" and uid_of(obj):
        parts["involvedObject.uid"] = uid_of(obj)
    return ",".join(f"{field}={value}" for field, value in parts.items())
