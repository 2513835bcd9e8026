"""Records how many SKUs of a virtual cluster were in use.

Samples are kept for a week. Time without samples is a gap, not zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from muster.platform.database.queries import as_record
from muster.platform.database.tables import cluster_usage, from_microseconds, to_microseconds, virtual_clusters

STEP = timedelta(minutes=5)
"""The resolution of stored samples."""
KEPT = timedelta(days=7)
MOST_POINTS = 340


class UsageSample(NamedTuple):
    used: int
    total: int | None


@dataclass(frozen=True, slots=True)
class UsageStep:
    """One step of time with samples."""

    at: datetime
    """When it began."""
    looks: int
    used: int
    """The sum of all samples."""
    peak: int
    total: int | None
    """The number of SKUs at the last sample."""

    @property
    def mean(self) -> float:
        return self.used / self.looks


def record_usage(connection: Connection, found: Mapping[str, UsageSample], at: datetime) -> None:
    """Stores samples by id of the virtual cluster, and deletes old ones."""
    begin = start_of(at, STEP)
    table = cluster_usage.c
    known = connection.execute(select(virtual_clusters.c.id)).scalars()
    for cluster_id in sorted(found.keys() & set(known)):
        used, total = found[cluster_id]
        here = (table.cluster_id == cluster_id) & (table.at == begin)
        row = connection.execute(select(table.looks, table.used, table.peak).where(here)).first()
        if row is None:
            new = {"cluster_id": cluster_id, "at": begin, "looks": 1, "used": used, "peak": used, "total": total}
            connection.execute(insert(cluster_usage).values(new))
        else:
            more = {"looks": row.looks + 1, "used": row.used + used, "peak": max(row.peak, used), "total": total}
            connection.execute(update(cluster_usage).where(here).values(more))
    connection.execute(delete(cluster_usage).where(table.at < at - KEPT))


def usage_since(connection: Connection, cluster_id: str, since: datetime) -> list[UsageStep]:
    table = cluster_usage.c
    query = select(table.at, table.looks, table.used, table.peak, table.total)
    rows = connection.execute(query.where(table.cluster_id == cluster_id, table.at >= since).order_by(table.at))
    return [as_record(row, UsageStep) for row in rows]


def step_for(time: timedelta) -> timedelta:
    """The shortest step with which this much time can be drawn."""
    return STEP * max(1, -(-time // (STEP * MOST_POINTS)))


def merge_steps(stretches: Iterable[UsageStep], step: timedelta) -> list[UsageStep]:
    """Merges steps into longer ones. The peak is the highest peak."""
    found: dict[datetime, UsageStep] = {}
    for each in stretches:
        begin = start_of(each.at, step)
        before = found.get(begin)
        if before is None:
            found[begin] = UsageStep(begin, each.looks, each.used, each.peak, each.total)
        else:
            peak = max(before.peak, each.peak)
            found[begin] = UsageStep(begin, before.looks + each.looks, before.used + each.used, peak, each.total)
    return list(found.values())


def start_of(at: datetime, step: timedelta) -> datetime:
    length = step // timedelta(microseconds=1)
    return from_microseconds(to_microseconds(at) // length * length)
