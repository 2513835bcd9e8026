"""Content negotiation: which form of an object a client asks for, and objects in that form (whole, table, metadata)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from muster.kube import tables
from muster.kube.cluster import Listing, PatchType
from muster.kube.errors import BadRequest, NotAcceptable, UnsupportedMediaType
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, version_of

Shape: TypeAlias = Literal["object", "table", "metadata"]

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

_META_SHAPES: dict[str, Shape] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
_ANY = frozenset(("*/*", "application/*"))
_PATCHES: dict[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


class Form(NamedTuple):
    """The form of a response: the object itself, a table of it, or only its metadata; as JSON or YAML."""

    shape: Shape = "object"
    media: str = JSON
    meta_version: str = "v1"


class Clause(NamedTuple):
    """One alternative of an Accept header."""

    media: str
    parameters: dict[str, str]


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> tuple[Clause, ...]:
    """Returns the alternatives, the preferred one first."""
    found: list[tuple[float, int, Clause]] = []
    for position, text in enumerate(accept.split(",")):
        media, *rest = (part.strip() for part in text.split(";"))
        parameters = {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)}
        found.append((-_quality(parameters.pop("q", "1")), position, Clause(media.lower(), parameters)))
    return tuple(clause for weight, _, clause in sorted(found, key=lambda f: f[:2]) if weight < 0)


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """Returns the first alternative that can be served. Protobuf and CBOR cannot; clients that ask for them accept
    JSON."""
    if not accept.strip():
        return Form()
    for media, parameters in parse_accept(accept):
        served = JSON if media in _ANY else media
        if served not in (JSON, YAML):
            continue
        wanted = parameters.get("as")
        if not wanted:
            return Form(media=served)
        shape = _META_SHAPES.get(wanted)
        version = parameters.get("v", "v1")
        if shape and parameters.get("g") == "meta.k8s.io" and version in ("v1", "v1beta1"):
            return Form(shape, served, version)
    raise NotAcceptable(
        f"only the following media types are accepted: {JSON}, {JSON};as=Table;v=v1;g=meta.k8s.io, "
        f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io, {YAML}"
    )


def body_media(content_type: str) -> str:
    """Returns JSON, YAML or PROTOBUF. Raises UnsupportedMediaType for anything else."""
    media = content_type.partition(";")[0].strip().lower()
    if media in ("", JSON, "*/*"):
        return JSON
    if media in (YAML, "application/x-yaml", "text/yaml"):
        return YAML
    if media == PROTOBUF:
        return PROTOBUF
    raise UnsupportedMediaType(
        f'the body of the request was in an unknown format ("{media}"); '
        f"accepted media types include: {JSON}, {YAML}, {PROTOBUF}"
    )


def patch_type(content_type: str) -> PatchType:
    media = content_type.partition(";")[0].strip().lower()
    found = _PATCHES.get(media)
    if found is None:
        raise UnsupportedMediaType(
            f'the body of the request was in an unknown format ("{media}"); use one of: {", ".join(_PATCHES)}'
        )
    return found


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def parse_include(query: dict[str, str]) -> str:
    """Returns how much of each object the rows of a table include."""
    include = query.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise BadRequest(f'includeObject is "{include}"; it must be None, Metadata or Object')
    return include


def shape_object(kind: Kind, obj: Object, form: Form, include: str = "Metadata") -> Object:
    if form.shape == "object":
        return obj
    if form.shape == "metadata":
        return _metadata(obj, form)
    return _table(kind, [obj], form, include, version_of(obj))


def shape_list(kind: Kind, listing: Listing, form: Form, include: str = "Metadata") -> Object:
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


def bookmark_object(kind: Kind, version: str, *, initial_events_end: bool = False) -> Object:
    """Returns the object of a BOOKMARK event. The one that ends the initial events has an annotation."""
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
    shown = tables.build_table(kind, objects, datetime.now(UTC), wide=True)
    wire = tables.table_to_object(shown, resource_version=resource_version, continue_=continue_, include=include)
    return wire if form.meta_version == "v1" else {**wire, "apiVersion": f"meta.k8s.io/{form.meta_version}"}
