from __future__ import annotations

import pytest

from muster.platform.graphs.context import AvailableModule, Context, retire
from muster.platform.graphs.model import Document
from tests.platform.graphs.samples import graph, node

USING = graph({"name": "a", "kind": "module", "module": {"name": "m", "version": "1"}})


@pytest.mark.parametrize(
    ("before", "retired"),
    [(None, True), (graph(node("a")), True), (USING, False), ({"type": "yaml", "manifest": "x"}, True)],
)
def test_deprecated_modules_can_only_be_kept(before: Document | None, retired: bool) -> None:
    fine, old = AvailableModule("m", "2", "m:2"), AvailableModule("m", "1", "m:1", deprecated=True)
    context = retire(Context(modules={("m", "2"): fine, ("m", "1"): old}), before)
    assert context.modules["m", "2"] == fine
    assert context.modules["m", "1"].retired == retired
