"""What graphs may refer to of modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, or_, select

from muster.platform.database.tables import module_versions, modules
from muster.platform.graphs.context import AvailableModule, Context
from muster.platform.graphs.model import Document, Variable
from muster.platform.modules.modules import PUBLIC, USABLE_BY_ITS_OWNER, usable_states
from muster.platform.modules.versions import VERSION_COLUMNS, ModuleVersion, read_version
from muster.platform.permissions import Actor, visible

_SUGGESTED = 50


def offered(connection: Connection, actor: Actor, document: Document) -> Context:
    """All versions, as far as the actor may see them, of the modules that the document names; if one of them is not
    there, some others as well, so that something can be suggested."""
    names = {str(module.get("name")) for module in _references(document)}
    found = _found(connection, actor, names) if names else {}
    if names - {name for name, _ in found}:
        found = {**_suggestions(connection, actor), **found}
    return Context(modules=found)


def as_offered(name: str, version: ModuleVersion, *, usable: bool) -> AvailableModule:
    """How a version runs: its image with the image's own entry point, or its folder with the command."""
    own = {variable.name for variable in version.source.env}
    of_image = (Variable(name, value) for name, value in version.image_env.items() if name not in own)
    return AvailableModule(
        name=name,
        version=str(version.number),
        image=version.image,
        entrypoint=version.entrypoint if version.folder else (),
        inputs=tuple(given.name for given in version.source.inputs),
        outputs=version.source.outputs,
        env=(*of_image, *version.source.env),
        folder=version.folder,
        working_dir=version.working_dir,
        usable=usable,
        deprecated=version.state == "deprecated",
    )


def _found(connection: Connection, actor: Actor, names: set[str]) -> dict[tuple[str, str], AvailableModule]:
    sees_all = visible(actor, "module", owner=modules.c.owner_id, team=modules.c.team_id, action="inspect")
    query = _QUERY.where(
        modules.c.name.in_(names),
        module_versions.c.state.not_in(["building", "build failed"]),
        or_(module_versions.c.state.in_(PUBLIC), sees_all),
    )
    offers = {}
    for row in connection.execute(query):
        version = read_version(row)
        # A deprecated version goes on running where it is pinned already.
        usable = version.state in PUBLIC or (row.owner_id == actor.id and version.state in USABLE_BY_ITS_OWNER)
        offers[row.module_name, str(version.number)] = as_offered(row.module_name, version, usable=usable)
    return offers


def _suggestions(connection: Connection, actor: Actor) -> dict[tuple[str, str], AvailableModule]:
    query = _QUERY.where(usable_states(actor, modules.c.owner_id)).order_by(modules.c.updated.desc()).limit(_SUGGESTED)
    return {
        (row.module_name, str(row.number)): as_offered(row.module_name, read_version(row), usable=True)
        for row in connection.execute(query)
    }


def _references(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a document that may be wrong in any way."""
    nodes = document.get("nodes")
    found = (node.get("module") for node in nodes if isinstance(node, dict)) if isinstance(nodes, list) else ()
    return [module for module in found if isinstance(module, dict)]


_QUERY = select(
    *VERSION_COLUMNS, modules.c.name.label("module_name"), modules.c.owner_id, modules.c.owner_id.label("author_name")
).join(modules, modules.c.id == module_versions.c.module_id)
