"""Which nodes of which runs have SKUs of a virtual cluster, or wait for some."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from muster.platform.database.rows import as_record
from muster.platform.runs.seeing import ENDED
from muster.platform.runs.tables import run_nodes, runs
from muster.platform.users.tables import users


@dataclass(frozen=True, slots=True)
class Use:
    run_id: str
    run_name: str
    node: str
    state: str
    """running or waiting"""
    owner_name: str
    skus: int


def in_use(connection: Connection, cluster: str, most: int = 500) -> list[Use]:
    query = (
        select(
            run_nodes.c.run_id,
            runs.c.name.label("run_name"),
            run_nodes.c.name.label("node"),
            run_nodes.c.state,
            users.c.name.label("owner_name"),
            run_nodes.c.skus,
        )
        .join(runs, runs.c.id == run_nodes.c.run_id)
        .join(users, users.c.id == runs.c.owner_id)
        # Of a node that waits, only those whose turn it is: the others have no Pod yet.
        .where(
            run_nodes.c.cluster == cluster,
            run_nodes.c.state.in_(["running", "waiting"]),
            (run_nodes.c.state == "running") | (run_nodes.c.attempts > 0),
            runs.c.state.not_in(ENDED),
        )
        .order_by(run_nodes.c.run_id, run_nodes.c.position)
        .limit(most)
    )
    return [as_record(row, Use) for row in connection.execute(query)]
