"""Virtual clusters: named shares of the nodes that are handed out in SKUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from muster.kube.quantity import QuantityError, format_quantity, parse_quantity
from muster.platform.database.queries import AnyRow, PageRequest, as_record, contains_words, new_id, select_page
from muster.platform.database.tables import now, teams, virtual_clusters
from muster.platform.errors import Invalid, NotFound, PreconditionFailed, conflict_on_duplicate
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, require
from muster.platform.records import Page, Subject, VirtualCluster
from muster.platform.users.audit import write_audit
from muster.platform.users.teams import get_team

# Merged from skus: SKUs: the smallest unit that a virtual cluster hands out, and how many of them something is.


GPU = "nvidia.com/gpu"
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SHORT = {"gpu": GPU}


def read_sku(given: Mapping[str, Any]) -> dict[str, str]:
    """By resource, without what there is none of: `gpu` stands for nvidia.com/gpu. Of a SKU without faults."""
    found = {_SHORT.get(name, name): str(amount) for name, amount in given.items()}
    return {name: amount for name, amount in found.items() if parse_quantity(amount) > 0}


def sku_faults(given: Mapping[str, Any], field: str = "sku") -> list[FieldError]:
    found = []
    seen: set[str] = set()
    for name, amount in given.items():
        where, full = f"{field}.{name}", _SHORT.get(name, name)
        if not _RESOURCE.fullmatch(full) or full in seen:
            found.append(field_error(where, "sku.resource"))
            continue
        seen.add(full)
        try:
            value = parse_quantity(str(amount))
        except QuantityError as error:
            found.append(field_error(where, "sku.amount", detail=str(error)))
            continue
        if value < 0:
            found.append(field_error(where, "sku.negative", amount=amount))
        elif full not in ("cpu", "memory") and value.denominator != 1:
            found.append(field_error(where, "sku.whole", amount=amount))
    if not found and not read_sku(given):
        found.append(field_error(field, "sku.empty"))
    return found


def selector_faults(given: Mapping[str, str], field: str = "node_selector") -> list[FieldError]:
    return [
        field_error(f"{field}.{name}", "cluster.selector")
        for name, value in given.items()
        if not _RESOURCE.fullmatch(name) or not _LABEL.fullmatch(value)
    ]


def multiply_sku(sku: Mapping[str, str], count: int) -> dict[str, str]:
    """So many SKUs, by resource."""
    return {name: format_quantity(parse_quantity(amount) * count, amount) for name, amount in sku.items()}


def count_skus(amounts: Mapping[str, Any], sku: Mapping[str, str]) -> int:
    """How many SKUs have to be handed out for that much."""
    parts = (parse_quantity(amounts.get(name, 0)) / parse_quantity(amount) for name, amount in sku.items())
    return max((ceil(part) for part in parts), default=0)


# Merged from names: What virtual clusters and storage roots may be called.


LONGEST = 100


def name_faults(name: str) -> list[FieldError]:
    if 0 < len(name) <= LONGEST and name.strip() == name and name.isprintable() and "/" not in name:
        return []
    return [field_error("name", "resource.name", name=name, most=LONGEST)]


# Merged from clusters: Virtual clusters: named shares of the machines, handed out in SKUs.


MOST_SKUS = 1_000_000


@dataclass(frozen=True, slots=True)
class NewCluster:
    name: str
    sku: Mapping[str, Any]
    """{"gpu": 1, "cpu": "10", "memory": "80G"}, or any other resource by its full name."""
    description: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    total: int | None = None
    team: str = ""


def create_cluster(connection: Connection, actor: Actor, new: NewCluster) -> VirtualCluster:
    require(actor, "create", Subject("virtual cluster"))
    values = _checked(
        connection,
        {
            "name": new.name,
            "description": new.description,
            "sku": new.sku,
            "node_selector": new.node_selector,
            "total": new.total,
            "team": new.team,
        },
    )
    identifier, moment = new_id(), now()
    with conflict_on_duplicate(field_error("name", "cluster.taken", name=new.name)):
        connection.execute(
            insert(virtual_clusters).values(id=identifier, created=moment, updated=moment, revision=1, **values)
        )
    write_audit(connection, actor, "create", "virtual cluster", identifier, new.name, values)
    return get_cluster(connection, identifier)


def get_cluster(connection: Connection, id_or_name: str) -> VirtualCluster:
    table = virtual_clusters.c
    row = connection.execute(_CLUSTERS.where(or_(table.id == id_or_name, table.name == id_or_name))).first()
    if row is None:
        raise NotFound.named("virtual cluster", id_or_name)
    return _cluster(row)


def all_clusters(connection: Connection) -> list[VirtualCluster]:
    return [_cluster(row) for row in connection.execute(_CLUSTERS.order_by(virtual_clusters.c.name))]


def list_clusters(connection: Connection, wanted: PageRequest, *, q: str = "") -> Page[VirtualCluster]:
    table = virtual_clusters.c
    query = _CLUSTERS.where(contains_words(q, table.name, table.description)) if q else _CLUSTERS
    sortable = {"name": func.lower(table.name), "created": table.created, "total": func.coalesce(table.total, 0)}
    return select_page(connection, query, wanted, key=table.id, sortable=sortable, usual="name").map(_cluster)


def edit_cluster(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> VirtualCluster:
    """`changes` may hold what `NewCluster` has. With a `revision`, only if nobody changed it since. Runs that were
    made before keep their SKU; the total holds for them, too."""
    cluster = get_cluster(connection, identifier)
    require(actor, "edit", cluster.subject, cluster.name)
    PreconditionFailed.check("virtual cluster", cluster.name, cluster.revision, revision)
    values = _checked(connection, changes)
    changed = {name: value for name, value in values.items() if value != getattr(cluster, name)}
    if not changed:
        return cluster
    with conflict_on_duplicate(field_error("name", "cluster.taken", name=changed.get("name"))):
        connection.execute(
            update(virtual_clusters)
            .where(virtual_clusters.c.id == cluster.id)
            .values(**changed, updated=now(), revision=cluster.revision + 1)
        )
    write_audit(connection, actor, "edit", "virtual cluster", cluster.id, cluster.name, changed)
    return get_cluster(connection, cluster.id)


def delete_cluster(
    connection: Connection, actor: Actor, identifier: str, revision: int | None = None
) -> VirtualCluster:
    """Versions that name it cannot be run any more."""
    cluster = get_cluster(connection, identifier)
    require(actor, "delete", cluster.subject, cluster.name)
    PreconditionFailed.check("virtual cluster", cluster.name, cluster.revision, revision)
    connection.execute(delete(virtual_clusters).where(virtual_clusters.c.id == cluster.id))
    write_audit(connection, actor, "delete", "virtual cluster", cluster.id, cluster.name)
    return cluster


def _checked(connection: Connection, given: Mapping[str, Any]) -> dict[str, Any]:
    """As columns. Raises Invalid."""
    wrong: list[FieldError] = []
    if "name" in given:
        wrong += name_faults(given["name"])
    if "sku" in given:
        wrong += sku_faults(given["sku"])
    if "node_selector" in given:
        wrong += selector_faults(given["node_selector"])
    total = given.get("total")
    if total is not None and not 0 <= total <= MOST_SKUS:
        wrong.append(field_error("total", "cluster.total", total=total, most=MOST_SKUS))
    if wrong:
        raise Invalid.fields(wrong)
    values = {name: given[name] for name in ("name", "description", "total", "node_selector") if name in given}
    if "sku" in given:
        values["sku"] = read_sku(given["sku"])
    if "team" in given:
        values["team_id"] = get_team(connection, given["team"]).id if given["team"] else None
    return values


_CLUSTERS = select(virtual_clusters, teams.c.name.label("team_name")).outerjoin(
    teams, teams.c.id == virtual_clusters.c.team_id
)


def _cluster(row: AnyRow) -> VirtualCluster:
    return as_record(row, VirtualCluster, used=0, available=0, usable=False)
