"""What the webhook answers: the same rules and the same words as in the box. Pure."""

from __future__ import annotations

from typing import Any

from muster.embedded.admission import invalid_object
from muster.kube.errors import BadRequest
from muster.kube.kinds import Kind
from muster.kube.objects import Object, is_deleting, name_of, spec_of
from muster.kube.schema import validate
from muster.training.registry import training_kinds

_KINDS: dict[tuple[str, str, str], Kind] = {(kind.group, kind.version, kind.kind): kind for kind in training_kinds()}


def review(asked: Any) -> Object:
    """The AdmissionReview that answers one. Raises BadRequest for what is none."""
    request = asked.get("request") if isinstance(asked, dict) else None
    if not isinstance(request, dict) or not request.get("uid"):
        raise BadRequest("this is not an AdmissionReview with a request")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], **_verdict(request)},
    }


def _verdict(request: Object) -> Object:
    asked = request.get("kind") or {}
    kind = _KINDS.get((asked.get("group", ""), asked.get("version", ""), asked.get("kind", "")))
    new, old = request.get("object"), request.get("oldObject")
    if kind is None:
        named = f"{asked.get('group')}/{asked.get('version')} {asked.get('kind')}"
        return {"allowed": True, "warnings": [f"Muster's webhook was asked about {named}, which it does not know"]}
    if new is None or is_deleting(new):
        return {"allowed": True}
    if old is not None and spec_of(old) == spec_of(new):
        return {"allowed": True}  # what is stored stays usable, whatever it was checked by
    causes = validate(new, kind.schema)
    if not causes and kind.validate is not None:
        causes = kind.validate(new, old)
    if causes:
        status = invalid_object(kind, new, causes).to_status()
        status["details"] |= {"group": kind.group, "kind": kind.kind, "name": name_of(new)}  # for kubectl's words
        return {"allowed": False, "status": status}
    warnings = [f"{cause.field}: {cause.message}" for cause in (kind.warnings(new) if kind.warnings else ())]
    return {"allowed": True, **({"warnings": warnings} if warnings else {})}
