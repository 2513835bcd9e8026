"""Parses every condition and expression in the manifests of Argo's own tests. Skipped if the folder is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.workflows.lang import depends
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.expr.parser import parse
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.tags import find_tags, find_tags_in, substitute

ROOT = Path(os.environ.get("MUSTER_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")
FILES = sorted((ROOT / "argo").rglob("*.yaml"))
EXPRESSIONS = ("expression", "fromExpression")


def fields(value: Any) -> Iterator[tuple[str, str]]:
    """Yields every field with a string, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                yield key, inner
            yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)


def as_word(text: str) -> str:
    """Returns the text with a word in place of every tag."""
    names = {tag.path: "word" for tag in find_tags(text) if not tag.is_expression}
    expressions = {tag.text for tag in find_tags(text) if tag.is_expression}
    for expression in expressions:
        text = text.replace(f"{{{{={expression}}}}}", "true")
    found = substitute(text, names)
    assert isinstance(found, str)
    return found


@pytest.mark.skipif(not FILES, reason="the conformance manifests are not here (set MUSTER_CONFORMANCE)")
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_expression_can_be_parsed(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        for tag in find_tags_in((document or {}).get("spec")):
            if tag.is_expression:
                parse(tag.text)
        for key, text in fields(document):
            if key == "depends":
                assert depends.tasks(depends.parse(text))
            elif key in EXPRESSIONS:
                parse(as_word(text))
            elif key == "when":
                try:
                    assert evaluate_when(as_word(text)) in (True, False)
                except ExpressionError as error:
                    # The word may stand for a number, with which a string cannot be compared.
                    assert "it is not a number" in error.message
