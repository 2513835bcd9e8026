"""Which form of an answer a client asks for, and what its body is written in."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from muster.kube.cluster import PatchType
from muster.kube.errors import NotAcceptable, UnsupportedMediaType

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
    """How to answer: the object itself, a table of it, or its metadata only; as JSON or YAML."""

    shape: Shape = "object"
    media: str = JSON
    meta_version: str = "v1"


class Clause(NamedTuple):
    """One of the alternatives in an Accept header."""

    media: str
    parameters: dict[str, str]


@lru_cache(maxsize=256)
def clauses_of(accept: str) -> tuple[Clause, ...]:
    """The alternatives, the most wanted first."""
    found: list[tuple[float, int, Clause]] = []
    for position, text in enumerate(accept.split(",")):
        media, *rest = (part.strip() for part in text.split(";"))
        parameters = {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)}
        found.append((-_quality(parameters.pop("q", "1")), position, Clause(media.lower(), parameters)))
    return tuple(clause for weight, _, clause in sorted(found, key=lambda f: f[:2]) if weight < 0)


@lru_cache(maxsize=256)
def form_of(accept: str) -> Form:
    """The first alternative that can be served. Protobuf and CBOR cannot, but whoever asks for them takes JSON too."""
    if not accept.strip():
        return Form()
    for media, parameters in clauses_of(accept):
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
    """JSON, YAML or protobuf. Raises UnsupportedMediaType for anything else."""
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
            f'the body of the request was in an unknown format ("{media}"); a patch is one of: {", ".join(_PATCHES)}'
        )
    return found


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
