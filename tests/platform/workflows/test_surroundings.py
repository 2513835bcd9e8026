from __future__ import annotations

from importlib import import_module

from muster.platform.graphs.context import Context
from muster.platform.workflows.surroundings import AREAS, merged
from tests.platform.graphs.samples import CONTEXT


def test_what_areas_offer_is_put_together() -> None:
    parts = [Context(clusters=CONTEXT.clusters, roots=CONTEXT.roots), Context(modules=CONTEXT.modules), Context()]
    assert merged(parts) == CONTEXT
    assert merged([]) == Context()


def test_every_area_that_is_named_offers_something() -> None:
    for area in AREAS:
        assert callable(import_module(f"muster.platform.{area}.offered").offered)
