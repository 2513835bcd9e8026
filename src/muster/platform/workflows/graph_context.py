"""What a graph may refer to: virtual clusters, storage roots and modules, and which of them the user may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, or_, select

from muster.platform.database.tables import module_versions, modules
from muster.platform.graphs.context import AvailableCluster, AvailableModule, AvailableRoot, Context
from muster.platform.graphs.model import Document, Variable
from muster.platform.modules.modules import PUBLIC, USABLE_BY_ITS_OWNER, usable_states
from muster.platform.modules.versions import VERSION_COLUMNS, StoredModuleVersion, read_version
from muster.platform.permissions import Actor, may, visible
from muster.platform.records.resources import QueueSystem
from muster.platform.resources.resources import all_clusters, all_roots


def available_clusters(
    connection: Connection, actor: Actor, system: QueueSystem = "embedded"
) -> dict[str, AvailableCluster]:
    """By name. `usable` says whether the actor may use it. `system` is what their queues belong to."""
    return {
        cluster.name: AvailableCluster(
            cluster.name,
            cluster.sku,
            cluster.node_selector,
            cluster.queue_in(system),
            bool(may(actor, "use", cluster.subject)),
            cluster.tolerations,
            system,
        )
        for cluster in all_clusters(connection)
    }


def available_roots(connection: Connection, actor: Actor) -> dict[str, AvailableRoot]:
    return {
        root.name: AvailableRoot(
            root.name, root.path, root.claim, root.host_path, root.read_only, bool(may(actor, "use", root.subject))
        )
        for root in all_roots(connection)
    }


def resource_context(connection: Connection, actor: Actor, system: QueueSystem = "embedded") -> Context:
    return Context(available_clusters(connection, actor, system), available_roots(connection, actor))


_SUGGESTED = 50


def module_context(connection: Connection, actor: Actor, document: Document) -> Context:
    """The versions of the modules in the document that the actor may see. If one is missing, also others as
    suggestions."""
    names = {str(module.get("name")) for module in _references(document)}
    found = _find_modules(connection, actor, names) if names else {}
    if names - {name for name, _ in found}:
        found = {**_suggestions(connection, actor), **found}
    return Context(modules=found)


def available_module(name: str, version: StoredModuleVersion, *, usable: bool) -> AvailableModule:
    """How a version runs: as its image, or as a folder. The command is named in both cases: Argo would ask the registry
    for the entry point of an image."""
    own = {variable.name for variable in version.source.env}
    of_image = (Variable(name, value) for name, value in version.image_env.items() if name not in own)
    return AvailableModule(
        name=name,
        version=str(version.number),
        image=version.image,
        entrypoint=version.entrypoint,
        inputs=tuple(given.name for given in version.source.inputs),
        outputs=version.source.outputs,
        env=(*of_image, *version.source.env),
        folder=version.folder,
        working_dir=version.working_dir,
        usable=usable,
        deprecated=version.state == "deprecated",
    )


def _find_modules(connection: Connection, actor: Actor, names: set[str]) -> dict[tuple[str, str], AvailableModule]:
    sees_all = visible(actor, "module", owner=modules.c.owner_id, team=modules.c.team_id, action="inspect")
    query = _QUERY.where(
        modules.c.name.in_(names),
        module_versions.c.state.not_in(["building", "build failed"]),
        or_(module_versions.c.state.in_(PUBLIC), sees_all),
    )
    offers = {}
    for row in connection.execute(query):
        version = read_version(connection, row)
        # A deprecated version still runs where it is already used.
        usable = version.state in PUBLIC or (row.owner_id == actor.id and version.state in USABLE_BY_ITS_OWNER)
        offers[row.module_name, str(version.number)] = available_module(row.module_name, version, usable=usable)
    return offers


def _suggestions(connection: Connection, actor: Actor) -> dict[tuple[str, str], AvailableModule]:
    query = _QUERY.where(usable_states(actor, modules.c.owner_id)).order_by(modules.c.updated.desc()).limit(_SUGGESTED)
    found = [(row.module_name, read_version(connection, row)) for row in connection.execute(query)]
    return {(name, str(version.number)): available_module(name, version, usable=True) for name, version in found}


def _references(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The module references of a document that may be invalid."""
    nodes = document.get("nodes")
    found = (node.get("module") for node in nodes if isinstance(node, dict)) if isinstance(nodes, list) else ()
    return [module for module in found if isinstance(module, dict)]


_QUERY = select(
    *VERSION_COLUMNS, modules.c.name.label("module_name"), modules.c.owner_id, modules.c.owner_id.label("author_name")
).join(modules, modules.c.id == module_versions.c.module_id)


def graph_context(
    connection: Connection,
    actor: Actor,
    document: Document,
    *,
    system: QueueSystem = "embedded",
    claim_class: str | None = "",
) -> Context:
    """Loads what a document refers to. It is a `ContextLoader`. `system` is what queues belong to, `claim_class` the
    storage class of volumes that Pods of a run share."""
    modules = module_context(connection, actor, document).modules
    found = resource_context(connection, actor, system)
    return replace(found, modules=modules, claim_class=claim_class)
