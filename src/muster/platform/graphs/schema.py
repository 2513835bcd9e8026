"""The JSON Schema of graph documents (docs/graph.schema.json), made of the description in model.py."""

from __future__ import annotations

from typing import Any

from muster.kube.kinds import Schema
from muster.platform.graphs.model import RANGE, SCHEMA
from muster.platform.graphs.templates import training_kinds


def json_schema() -> dict[str, Any]:
    """The same, as JSON Schema. `x-kinds` lists the kinds of training jobs; the web UI is built from it."""
    exported = _export_schema(SCHEMA)
    exported["properties"]["nodes"]["items"]["properties"]["training"]["x-kinds"] = training_kinds()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A graph document of Muster",
        **exported,
    }


def _export_schema(schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == RANGE:
            found["minimum"], found["maximum"] = value
        if key.startswith("x-") or key == "format":
            continue
        if key == "properties":
            found[key] = {name: _export_schema(sub) for name, sub in value.items()}
        elif key == "items":
            found[key] = _export_schema(value)
        else:
            found[key] = value
    if schema.get("type") == "object":
        found["additionalProperties"] = False
    return found


if __name__ == "__main__":
    import json

    print(json.dumps(json_schema(), indent=2))
