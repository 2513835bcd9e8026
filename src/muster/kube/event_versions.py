"""Events of events.k8s.io/v1: the same objects as Events of the core group, in another form.

They are stored in the core form. Clients of either group see, watch and change the same Events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from muster.kube.errors import Cause, invalid, not_supported, required
from muster.kube.kinds import Column
from muster.kube.objects import Object, namespace_of
from muster.kube.validation import validator

CORE: Final = "v1"
NEWER: Final = "events.k8s.io/v1"
CORE_FIELDS: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields of the newer form that have another name in the core form."""
_NEWER_FIELDS = {core: newer for newer, core in CORE_FIELDS.items()}
_LONGEST_NOTE = 1024
_LONGEST_WORD = 128


def to_core_event(event: Object) -> Object:
    renamed = {CORE_FIELDS.get(field, field): value for field, value in event.items()}
    return {**renamed, "apiVersion": CORE}


def from_core_event(event: Object) -> Object:
    renamed: dict[str, Any] = {_NEWER_FIELDS.get(field, field): value for field, value in event.items()}
    renamed.setdefault("eventTime", None)  # the field is always there; an Event of the core group may have none
    return {**renamed, "apiVersion": NEWER}


def newer_column(column: Column) -> Column:
    """Returns a column of Events for the newer form."""
    show = column.cell
    if show is None:
        field, dot, rest = column.json_path.removeprefix(".").partition(".")
        return replace(column, json_path=f".{_NEWER_FIELDS.get(field, field)}{dot}{rest}")
    return replace(column, cell=lambda event, now: show(to_core_event(event), now))


@validator
def validate_newer_event(event: Object, old: Object | None) -> Iterator[Cause]:
    """The newer group requires what the core group leaves to its clients."""
    about = (event.get("regarding") or {}).get("namespace") or ""
    if about and about != namespace_of(event):
        yield invalid("regarding.namespace", about, "does not match event.namespace")
    if old is not None:
        return
    for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field):
            yield required(field)
        elif field != "eventTime" and len(event[field]) > _LONGEST_WORD:
            yield invalid(field, event[field][:_LONGEST_WORD], f"can have at most {_LONGEST_WORD} characters")
    if event.get("type") not in ("Normal", "Warning"):
        yield not_supported("type", event.get("type") or "", ("Normal", "Warning"))
    if len(event.get("note") or "") > _LONGEST_NOTE:
        yield invalid("note", "", f"can have at most {_LONGEST_NOTE} characters")
