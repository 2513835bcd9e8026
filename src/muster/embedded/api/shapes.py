"""An object, a list or an event in the form that was asked for: itself, a table, or its metadata only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from muster.embedded.api.negotiation import Form
from muster.kube import tables
from muster.kube.cluster import Listing
from muster.kube.errors import BadRequest
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, version_of

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def include_of(query: dict[str, str]) -> str:
    """How much of each object a table's rows carry."""
    include = query.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise BadRequest(f'includeObject is "{include}"; it must be None, Metadata or Object')
    return include


def one(kind: Kind, obj: Object, form: Form, include: str = "Metadata") -> Object:
    if form.shape == "object":
        return obj
    if form.shape == "metadata":
        return _metadata(obj, form)
    return _table(kind, [obj], form, include, version_of(obj))


def many(kind: Kind, listing: Listing, form: Form, include: str = "Metadata") -> Object:
    if form.shape == "table":
        return _table(kind, listing.items, form, include, listing.resource_version, listing.continue_)
    metadata: dict[str, Any] = {"resourceVersion": listing.resource_version}
    if listing.continue_:
        metadata["continue"] = listing.continue_
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    if form.shape == "metadata":
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.meta_version}",
            "metadata": metadata,
            "items": [_metadata(obj, form) for obj in listing.items],
        }
    return {
        "kind": f"{kind.kind}List",
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "items": listing.items,
    }


def bookmark(kind: Kind, version: str, *, initial_events_end: bool = False) -> Object:
    """The object of a BOOKMARK event; the one that ends the initial events is marked as such."""
    metadata: dict[str, Any] = {"resourceVersion": version, "creationTimestamp": None}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}


def _metadata(obj: Object, form: Form) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{form.meta_version}",
        "metadata": meta(obj),
    }


def _table(
    kind: Kind, objects: list[Object], form: Form, include: str, resource_version: str, continue_: str = ""
) -> Object:
    shown = tables.table(kind, objects, datetime.now(UTC), wide=True)
    wire = tables.to_wire(shown, resource_version=resource_version, continue_=continue_, include=include)
    return wire if form.meta_version == "v1" else {**wire, "apiVersion": f"meta.k8s.io/{form.meta_version}"}
