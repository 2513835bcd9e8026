"""Virtual clusters and storage roots as graphs refer to them."""

from __future__ import annotations

from sqlalchemy import Connection

from muster.platform.graphs import context
from muster.platform.graphs.model import Document
from muster.platform.permissions import Actor, may
from muster.platform.resources.storage_roots import all_roots
from muster.platform.resources.virtual_clusters import all_clusters


def clusters_for(connection: Connection, actor: Actor) -> dict[str, context.AvailableCluster]:
    """By name; those that the actor may not use are marked so."""
    return {
        cluster.name: context.AvailableCluster(
            cluster.name, cluster.sku, cluster.node_selector, cluster.queue, bool(may(actor, "use", cluster.subject))
        )
        for cluster in all_clusters(connection)
    }


def roots_for(connection: Connection, actor: Actor) -> dict[str, context.AvailableRoot]:
    return {
        root.name: context.AvailableRoot(
            root.name, root.path, root.claim, root.host_path, root.read_only, bool(may(actor, "use", root.subject))
        )
        for root in all_roots(connection)
    }


def offered(connection: Connection, actor: Actor, document: Document) -> context.Context:
    return context.Context(clusters_for(connection, actor), roots_for(connection, actor))
