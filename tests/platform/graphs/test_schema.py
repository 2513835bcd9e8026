from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.kube.schema_validation import validate
from muster.platform.graphs.model import SCHEMA
from muster.platform.graphs.schema import json_schema
from tests.platform.graphs.samples import graph, node, seed_example, training

DOCS = Path(__file__).parents[3] / "docs"


def test_the_published_schema_is_current() -> None:
    """To update it: python -m muster.platform.graphs.schema > docs/graph.schema.json"""
    assert json.loads((DOCS / "graph.schema.json").read_text()) == json_schema()


def test_every_field_has_a_description() -> None:
    silent = [path for path, field in _fields(json_schema(), "") if not field.get("description")]
    assert silent == []


@pytest.mark.parametrize(
    "document",
    [
        seed_example(),
        graph(training("a", "JAXJob", ("Worker", 1))),
        graph(node("a", position={"x": 1, "y": 2.5})),
    ],
)
def test_fits(document: Any) -> None:
    assert validate(document, SCHEMA) == []


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", field
        yield from _fields(field, f"{path}.{name}")
        yield from _fields(field.get("items") or {}, f"{path}.{name}[]")
