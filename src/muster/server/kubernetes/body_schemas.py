"""The types of request bodies that are not stored objects: DeleteOptions, reviews, Binding, Eviction, TokenRequest and
Scale. Handlers may rely on them."""

from __future__ import annotations

from typing import Any, Final

from muster.kube.errors import BadRequest
from muster.kube.kinds import Schema
from muster.kube.objects import Object
from muster.kube.schema import BOOLEAN, INT64, STRING, STRINGS, TIME, list_of, map_of, obj, of
from muster.kube.schema_validation import validate

_MOST_CAUSES = 20

_METADATA: Final = obj({
    **of(STRING, "name namespace uid resourceVersion generateName"),
    "creationTimestamp": TIME,
}, keep_unknown=True)  # fmt: skip

DELETE_OPTIONS: Final = obj({
    **of(STRING, "propagationPolicy apiVersion kind"),
    "gracePeriodSeconds": INT64,
    "orphanDependents": BOOLEAN,
    "dryRun": STRINGS,
    "preconditions": obj(of(STRING, "uid resourceVersion"), keep_unknown=True),
}, keep_unknown=True)  # fmt: skip

BINDING: Final = obj({
    "metadata": _METADATA,
    "target": obj(of(STRING, "kind name apiVersion namespace uid"), keep_unknown=True),
}, keep_unknown=True)  # fmt: skip

EVICTION: Final = obj({"metadata": _METADATA, "deleteOptions": DELETE_OPTIONS}, keep_unknown=True)

TOKEN_REQUEST: Final = obj({
    "metadata": _METADATA,
    "spec": obj({
        "audiences": STRINGS,
        "expirationSeconds": INT64,
        "boundObjectRef": obj(of(STRING, "kind name apiVersion uid"), keep_unknown=True),
    }, keep_unknown=True),
}, keep_unknown=True)  # fmt: skip

SCALE: Final = obj({
    "metadata": _METADATA,
    "spec": obj({"replicas": INT64}, keep_unknown=True),
}, keep_unknown=True)  # fmt: skip

REVIEW: Final = obj({
    "metadata": _METADATA,
    "spec": obj({
        **of(STRING, "user token namespace uid"),
        **of(STRINGS, "groups audiences"),
        "resourceAttributes": obj(
            of(STRING, "verb group version resource subresource namespace name"), keep_unknown=True
        ),
        "nonResourceAttributes": obj(of(STRING, "verb path"), keep_unknown=True),
        "extra": map_of(list_of(STRING)),
    }, keep_unknown=True),
}, keep_unknown=True)  # fmt: skip


def check_body(body: Any, schema: Schema, name: str) -> Object:
    """Returns the body. Raises BadRequest if a field has another type than in the schema."""
    causes = validate(body, schema)
    if causes:
        wrong = "; ".join(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes[:5])
        raise BadRequest(f"the request is not a valid {name}: {wrong}", causes=causes[:_MOST_CAUSES])
    found: Object = body
    return found
