"""Which run an object of the cluster belongs to, and whether a user may inspect that run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from muster.kube.objects import Object, labels_of
from muster.platform.database.tables import runs, users
from muster.platform.graphs.bindings import RUN_LABEL
from muster.platform.permissions import Actor, may
from muster.platform.records import Subject, run_object_name
from muster.workflows.model import WORKFLOW_LABEL

_AT_ONCE = 500
_PREFIX = run_object_name("")


@dataclass(frozen=True, slots=True)
class OwningRun:
    id: str
    name: str
    owner_name: str
    open: bool
    """Whether the actor may inspect the run."""


def run_id_of(obj: Object) -> str:
    """Returns the id of the run; '' if there is none."""
    labels = labels_of(obj)
    workflow = labels.get(WORKFLOW_LABEL, "")
    return labels.get(RUN_LABEL) or (workflow.removeprefix(_PREFIX) if workflow.startswith(_PREFIX) else "")


def find_owning_runs(connection: Connection, actor: Actor, run_ids: Iterable[str]) -> dict[str, OwningRun]:
    """Returns the runs by id, without those that the actor may not see."""
    wanted = sorted(set(run_ids) - {""})
    query = select(runs.c.id, runs.c.name, runs.c.owner_id, runs.c.team_id, users.c.name.label("owner_name")).join(
        users, users.c.id == runs.c.owner_id
    )
    found: dict[str, OwningRun] = {}
    for begin in range(0, len(wanted), _AT_ONCE):
        for row in connection.execute(query.where(runs.c.id.in_(wanted[begin : begin + _AT_ONCE]))):
            subject = Subject("run", row.id, owner=row.owner_id, team=row.team_id or "")
            if may(actor, "view", subject):
                found[row.id] = OwningRun(row.id, row.name, row.owner_name, bool(may(actor, "inspect", subject)))
    return found
