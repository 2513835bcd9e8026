"""Virtual clusters: named shares of the nodes that are handed out in SKUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import ceil
from typing import Any

from sqlalchemy import Connection, func

from muster.kube.quantity import QuantityError, format_quantity, parse_quantity
from muster.platform.database.queries import AnyRow, PageRequest, as_record
from muster.platform.database.tables import virtual_clusters
from muster.platform.errors import InvalidProblem
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, require
from muster.platform.records import Page, Subject, VirtualCluster
from muster.platform.resources.team_resources import TeamResources, check_name, team_column

GPU = "nvidia.com/gpu"
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SHORT = {"gpu": GPU}


def read_sku(given: Mapping[str, Any]) -> dict[str, str]:
    """Returns the amounts by resource, without zeros. `gpu` stands for nvidia.com/gpu. The SKU must be valid."""
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
    """The resources of this many SKUs."""
    return {name: format_quantity(parse_quantity(amount) * count, amount) for name, amount in sku.items()}


def count_skus(amounts: Mapping[str, Any], sku: Mapping[str, str]) -> int:
    """The number of SKUs needed for these amounts."""
    parts = (parse_quantity(amounts.get(name, 0)) / parse_quantity(amount) for name, amount in sku.items())
    return max((ceil(part) for part in parts), default=0)


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
    given = {each.name: getattr(new, each.name) for each in fields(NewCluster)}
    return _CLUSTERS.create(connection, actor, _checked(connection, given))


def get_cluster(connection: Connection, id_or_name: str) -> VirtualCluster:
    return _CLUSTERS.get(connection, id_or_name)


def all_clusters(connection: Connection) -> list[VirtualCluster]:
    return _CLUSTERS.all(connection)


def list_clusters(connection: Connection, wanted: PageRequest, *, q: str = "") -> Page[VirtualCluster]:
    return _CLUSTERS.page(connection, wanted, q, sortable={"total": func.coalesce(virtual_clusters.c.total, 0)})


def edit_cluster(
    connection: Connection, actor: Actor, identifier: str, changes: Mapping[str, Any], revision: int | None = None
) -> VirtualCluster:
    """`changes` may contain the fields of `NewCluster`. With a `revision`, fails if the cluster has another one.
    Existing runs keep their SKU; the new total applies to them, too."""
    cluster = _CLUSTERS.get_for(connection, actor, "edit", identifier, revision)
    return _CLUSTERS.edit(connection, actor, cluster, _checked(connection, changes))


def delete_cluster(
    connection: Connection, actor: Actor, identifier: str, revision: int | None = None
) -> VirtualCluster:
    """Versions that use it can no longer be run."""
    cluster = _CLUSTERS.get_for(connection, actor, "delete", identifier, revision)
    _CLUSTERS.delete(connection, actor, cluster)
    return cluster


def _checked(connection: Connection, given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns. Raises Invalid."""
    wrong: list[FieldError] = []
    if "name" in given:
        wrong += check_name(given["name"])
    if "sku" in given:
        wrong += sku_faults(given["sku"])
    if "node_selector" in given:
        wrong += selector_faults(given["node_selector"])
    total = given.get("total")
    if total is not None and not 0 <= total <= MOST_SKUS:
        wrong.append(field_error("total", "cluster.total", total=total, most=MOST_SKUS))
    if wrong:
        raise InvalidProblem.fields(wrong)
    values = {name: given[name] for name in ("name", "description", "total", "node_selector") if name in given}
    if "sku" in given:
        values["sku"] = read_sku(given["sku"])
    return {**values, **team_column(connection, given)}


def _cluster(row: AnyRow) -> VirtualCluster:
    return as_record(row, VirtualCluster, used=0, available=0, usable=False)


_CLUSTERS = TeamResources(virtual_clusters, "virtual cluster", "cluster.taken", _cluster)
