"""Values of parameters: whatever a manifest has, as the text Argo makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from muster.workflows.expressions.gojson import to_json

ABSENT = "__argo-internal.absent-optional-output__"
"""An argument that is but a reference to an output nobody made: as if it had not been given."""
_PARAMETER_FIELDS = ("name", "default", "value", "valueFrom", "globalName", "enum", "description")


def text_of(value: Any) -> str:
    """`3`, `true` and lists as JSON, a text as it is."""
    return value if isinstance(value, str) else to_json(value)


def parameters_json(parameters: Iterable[Mapping[str, Any]]) -> str:
    """What `{{workflow.parameters}}` and `{{inputs.parameters}}` stand for."""
    listed = [_parameter(p) for p in parameters]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":")) if listed else "null"


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {f: parameter[f] for f in _PARAMETER_FIELDS if parameter.get(f) is not None}
    for field in ("default", "value"):
        if field in out:
            out[field] = text_of(out[field])
    return out
