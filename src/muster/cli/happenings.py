"""Events as rows: when, how often, what, to whom. Pure; both forms in which Kubernetes writes events are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from muster.cli.sections import Grid
from muster.kube.happenings import about, in_order, last_time, message, source
from muster.kube.objects import Object, parse_time
from muster.kube.tables import human_duration

HEADERS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


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


def seen(event: Mapping[str, Any], now: datetime) -> str:
    """`3s`, or `3s (x4 over 2m)` for what happened again."""
    last = last_time(event)
    ago = human_duration((now - last).total_seconds())
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    first = event.get("firstTimestamp") or event.get("eventTime")
    if count <= 1 or not first:
        return ago
    return f"{ago} (x{count} over {human_duration((now - parse_time(first)).total_seconds())})"
