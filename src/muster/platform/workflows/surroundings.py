"""What graphs may refer to: gathered from the areas of the platform that have it.

An area offers something by a module `muster.platform.AREA.offered` with

    def offered(connection: Connection, actor: Actor, document: Document) -> Context: ...

that answers everything there is of its kind, with `usable` saying whether the actor may use it, and by its name in
AREAS. Of modules, of which there may be thousands, those that the document names and those of the same names will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from sqlalchemy import Connection

from muster.platform.graphs.context import Context
from muster.platform.graphs.model import Document
from muster.platform.permissions import Actor

AREAS: tuple[str, ...] = (
    "resources",
    "modules",
)
"""Packages of muster.platform, one a line."""


def graph_context(connection: Connection, actor: Actor, document: Document) -> Context:
    """A `Look`: what a document is checked against and compiled with."""
    modules = (import_module(f"muster.platform.{area}.offered") for area in AREAS)
    return merged(module.offered(connection, actor, document) for module in modules)


def merged(contexts: Iterable[Context]) -> Context:
    whole = Context({}, {}, {})
    for each in contexts:
        whole = Context(
            {**whole.clusters, **each.clusters}, {**whole.roots, **each.roots}, {**whole.modules, **each.modules}
        )
    return whole
