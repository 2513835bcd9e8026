"""Runs as they are stored: found, listed, renamed; the status that the controller stores, so that lists can be filtered
and sorted by it; and which of their nodes use a virtual cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from muster.kube.objects import Object, labels_of
from muster.kube.pod_security import RUN_LABEL
from muster.platform.database.database import RUN, announce
from muster.platform.database.queries import (
    AnyRow,
    PageRequest,
    as_record,
    contains_words,
    find_row,
    record_columns,
    select_page,
)
from muster.platform.database.tables import (
    now,
    run_attempts,
    run_nodes,
    run_orders,
    run_removals,
    runs,
    teams,
    users,
    versions,
    workflows,
)
from muster.platform.errors import InvalidProblem, NotFoundProblem, PreconditionFailedProblem
from muster.platform.permissions import Actor, may, require, visible
from muster.platform.records.common import Page, Subject
from muster.platform.records.resources import SkuUse
from muster.platform.records.runs import NodeAttempt, NodeState, Run, RunNode, RunState, run_object_name
from muster.platform.runs.status import (
    ENDED,
    NODES_UNKNOWN,
    AttemptStatus,
    NodeStatus,
    RunStatus,
    skipped_message,
    split_iteration,
)
from muster.platform.runs.tags import has_tags, parse_tags, store_tags
from muster.platform.status_messages import explain
from muster.platform.users.audit import write_audit
from muster.platform.users.tokens import revoke_run_tokens
from muster.platform.webhooks.deliveries import enqueue_run_end
from muster.workflows.model import WORKFLOW_LABEL

STATES: tuple[RunState, ...] = ("waiting", "running", "succeeded", "failed", "stopped")
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Attempt(NodeAttempt):
    """An attempt with what only the controller needs to know."""

    node: str
    key: str
    """The id of the node in the Workflow."""
    round: int
    """How often the run was retried before."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    q: str = ""
    states: tuple[str, ...] = ()
    """Empty for all."""
    workflow: str = ""
    """Its id or name."""
    version: str = ""
    """Its id; with a workflow also its number or name."""
    owner: str = ""
    """The id or name of a user."""
    team: str = ""
    """The id or name of a team."""
    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    """KEY=VALUE, or KEY for any value. A run has to have all of them."""


def get_run(connection: Connection, actor: Actor, identifier: str, action: str = "view") -> Run:
    """Returns a run by id. Raises Forbidden if the actor may not do this to it."""
    row = connection.execute(_RUNS.where(runs.c.id == identifier)).first()
    if row is None:
        raise NotFoundProblem.named("run", identifier)
    run = _run(row)
    require(actor, action, run.subject, identifier)
    return run


def find_run(connection: Connection, identifier: str) -> Run | None:
    """Finds a run without checking permissions."""
    row = connection.execute(_RUNS.where(runs.c.id == identifier)).first()
    return None if row is None else _run(row)


def list_runs(connection: Connection, actor: Actor, wanted: PageRequest, only: RunFilter) -> Page[Run]:
    seen = visible(actor, "run", owner=runs.c.owner_id, team=runs.c.team_id, key=runs.c.id)
    conditions = (seen, *_conditions(connection, only))
    sortable: dict[str, ColumnElement[Any]] = {
        "created": runs.c.created,
        "name": runs.c.name,
        "state": runs.c.state,
        "workflow": workflows.c.name,
        "version": versions.c.number,
        "owner": users.c.name,
        "started": func.coalesce(runs.c.started, 0),
        "finished": func.coalesce(runs.c.finished, 0),
    }
    count = select(func.count()).select_from(runs).where(*conditions)
    query = _RUNS.where(*conditions)
    page = select_page(connection, query, wanted, key=runs.c.id, sortable=sortable, usual="-created", count=count)
    return page.map(_run)


def count_states(connection: Connection, actor: Actor, only: RunFilter) -> dict[str, int]:
    """The number of runs in each state."""
    seen = visible(actor, "run", owner=runs.c.owner_id, team=runs.c.team_id, key=runs.c.id)
    conditions = (seen, *_conditions(connection, only))
    query = select(runs.c.state, func.count()).where(*conditions).group_by(runs.c.state)
    found = {state: int(count) for state, count in connection.execute(query)}
    return {state: found.get(state, 0) for state in STATES}


def nodes_of(connection: Connection, run_id: str) -> tuple[RunNode, ...]:
    query = _NODES.where(run_nodes.c.run_id == run_id).order_by(run_nodes.c.position, run_nodes.c.name)
    rows = connection.execute(query).all()
    if any(row.name.endswith(")") for row in rows):
        rows = sorted(rows, key=lambda row: (row.position, *(split_iteration(row.name) or ("", -1))))
    # There may be ten thousand, so they are made by position.
    return tuple(
        RunNode(name, kind, state, message, list(explain(message)), *rest)
        for _, name, kind, state, message, *rest in rows
    )


def follows_templates(connection: Connection, run_id: str) -> bool:
    """Whether the run has created no iterations of a loop and no attempts of a template with tasks inside: these have
    parentheses in their names."""
    query = select(run_nodes.c.name).where(
        run_nodes.c.run_id == run_id, run_nodes.c.name.contains("(", autoescape=True)
    )
    return connection.execute(query.limit(1)).first() is None


def attempts_of(connection: Connection, run_id: str, node: str = "") -> tuple[Attempt, ...]:
    query = select(run_attempts).where(run_attempts.c.run_id == run_id)
    if node:
        query = query.where(run_attempts.c.node == node)
    rows = connection.execute(query.order_by(run_attempts.c.node, run_attempts.c.number))
    return tuple(as_record(row, Attempt, message_parts=list(explain(row.message))) for row in rows)


def parameters_given(connection: Connection, run_id: str) -> dict[str, str]:
    """The values of the initial parameters that were set."""
    found: dict[str, str] = connection.execute(select(runs.c.parameters).where(runs.c.id == run_id)).scalar_one()
    return found


def edit_run(
    connection: Connection,
    actor: Actor,
    identifier: str,
    name: str | None = None,
    tags: Sequence[str] | None = None,
    revision: int | None = None,
) -> Run:
    """Renames a run, or replaces its tags; nothing else can be changed."""
    run = get_run(connection, actor, identifier, "edit")
    PreconditionFailedProblem.check("run", run.name, run.revision, revision)
    wanted: dict[str, Any] = {}
    if name is not None:
        check_name(name)
        wanted["name"] = name
    if tags is not None:
        wanted["tags"] = parse_tags(tags)
    changed = {field: value for field, value in wanted.items() if value != getattr(run, field)}
    if not changed:
        return run
    connection.execute(update(runs).where(runs.c.id == run.id).values(**changed, revision=run.revision + 1))
    if "tags" in changed:
        store_tags(connection, run.id, changed["tags"])
    write_audit(connection, actor, "edit", "run", run.id, run.name, changed)
    announce(connection, RUN, run.id)
    return get_run(connection, actor, run.id)


def check_name(name: str) -> None:
    if not 0 < len(name) <= LONGEST_NAME or name.strip() != name or not name.isprintable():
        raise InvalidProblem.field("name", "run.name", name=name, most=LONGEST_NAME)


def _conditions(connection: Connection, only: RunFilter) -> list[ColumnElement[bool]]:
    """Conditions on columns of `runs` alone where possible, so that an index is used."""
    found: list[ColumnElement[bool]] = []
    unknown = [state for state in only.states if state not in STATES]
    if unknown:
        raise InvalidProblem.field("state", "filter.value", value=unknown[0], choices=list(STATES))
    if only.states:
        found.append(runs.c.state.in_(only.states))
    if only.workflow:
        found.append(runs.c.workflow_id.in_(_ids(connection, workflows, only.workflow)))
    if only.version:
        found.append(runs.c.version_id.in_(_version_ids(connection, only)))
    if only.owner:
        found.append(runs.c.owner_id.in_(_ids(connection, users, only.owner)))
    if only.team:
        found.append(runs.c.team_id.in_(_ids(connection, teams, only.team)))
    if only.since is not None:
        found.append(runs.c.created >= only.since)
    if only.until is not None:
        found.append(runs.c.created < only.until)
    found.extend(has_tags(only.tags))
    if only.q:
        said = and_(runs.c.message != "", contains_words(only.q, runs.c.name, runs.c.message))
        found.append(or_(contains_words(only.q, runs.c.name), said, runs.c.id == only.q))
    return found


def workflow_ids(connection: Connection, id_or_name: str) -> list[str]:
    return _ids(connection, workflows, id_or_name)


def _ids(connection: Connection, table: Any, id_or_name: str) -> list[str]:
    found = find_row(connection, select(table.c.id), table, id_or_name)
    return [] if found is None else [found.id]


def _version_ids(connection: Connection, only: RunFilter) -> list[str]:
    word = only.version
    query = select(versions.c.id)
    if only.workflow:
        named = versions.c.number == int(word) if word.isdecimal() and len(word) < 10 else versions.c.name == word
        among = versions.c.workflow_id.in_(_ids(connection, workflows, only.workflow))
        query = query.where(or_(versions.c.id == word, named), among)
    else:
        query = query.where(versions.c.id == word)
    return list(connection.execute(query).scalars())


_RUNS = (
    select(
        *record_columns(
            Run,
            runs,
            workflow_name=workflows.c.name,
            version_number=versions.c.number,
            version_name=versions.c.name,
            owner_name=users.c.name,
            team_name=teams.c.name,
        )
    )
    .join(workflows, workflows.c.id == runs.c.workflow_id)
    # Each of these always exists. As outer joins they keep SQLite from starting with all users.
    .outerjoin(versions, versions.c.id == runs.c.version_id)
    .outerjoin(users, users.c.id == runs.c.owner_id)
    .outerjoin(teams, teams.c.id == runs.c.team_id)
)


_NODES = select(run_nodes.c.position, *record_columns(RunNode, run_nodes))


def _run(row: AnyRow) -> Run:
    return as_record(row, Run, message_parts=list(explain(row.message)))


def find_sku_users(connection: Connection, cluster: str, most: int = 500) -> list[tuple[str, SkuUse]]:
    """The nodes of runs that use SKUs (`running`) or wait for them (`waiting`)."""
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
        # Only nodes with an attempt: others have no Pod, as a node that waits for another, or a loop itself.
        .where(
            run_nodes.c.cluster == cluster,
            run_nodes.c.state.in_(["running", "waiting"]),
            run_nodes.c.attempts > 0,
            runs.c.state.not_in(ENDED),
        )
        .order_by(run_nodes.c.run_id, run_nodes.c.position)
        .limit(most)
    )
    return [(row.state, as_record(row, SkuUse)) for row in connection.execute(query)]


# Which run an object of the cluster belongs to, and whether a user may inspect that run.


_AT_ONCE = 500
_PREFIX = run_object_name("")


@dataclass(frozen=True, slots=True)
class OwningRun:
    id: str
    name: str
    owner_name: str
    namespace: str
    open: bool
    """Whether the actor may inspect the run."""


def run_id_of(obj: Object) -> str:
    """Returns the id of the run; '' if there is none."""
    labels = labels_of(obj)
    workflow = labels.get(WORKFLOW_LABEL, "")
    return labels.get(RUN_LABEL) or (workflow.removeprefix(_PREFIX) if workflow.startswith(_PREFIX) else "")


def find_owning_runs(connection: Connection, actor: Actor, run_ids: Iterable[str]) -> dict[str, OwningRun]:
    """Returns the runs by id, without those that the actor may not see. An object belongs to a run only if it is in the
    namespace of the run."""
    wanted = sorted(set(run_ids) - {""})
    columns = (runs.c.id, runs.c.name, runs.c.owner_id, runs.c.team_id, runs.c.namespace)
    query = select(*columns, users.c.name.label("owner_name")).join(users, users.c.id == runs.c.owner_id)
    found: dict[str, OwningRun] = {}
    for begin in range(0, len(wanted), _AT_ONCE):
        for row in connection.execute(query.where(runs.c.id.in_(wanted[begin : begin + _AT_ONCE]))):
            subject = Subject("run", row.id, owner=row.owner_id, team=row.team_id or "")
            if may(actor, "view", subject):
                inspects = bool(may(actor, "inspect", subject))
                found[row.id] = OwningRun(row.id, row.name, row.owner_name, row.namespace, inspects)
    return found


@dataclass(frozen=True, slots=True)
class StoredRun:
    run: Run
    nodes: tuple[RunNode, ...]


def store_status(connection: Connection, found: Mapping[str, RunStatus]) -> list[StoredRun]:
    """Stores the status of runs, by id. Returns the runs with their new status."""
    told = []
    for run_id, seen in found.items():
        run = find_run(connection, run_id)
        if run is None:
            continue  # a Workflow that says it is ours, but is not
        if _is_older(seen.version, connection.execute(select(runs.c.seen).where(runs.c.id == run_id)).scalar_one()):
            continue
        nodes = _record_nodes(connection, run_id, seen)
        _record_run(connection, run, seen, nodes)
        after = find_run(connection, run_id)
        assert after is not None
        told.append(StoredRun(after, nodes))
        announce(connection, RUN, run_id)
    return told


def store_end(connection: Connection, run_id: str, state: RunState, message: str = "") -> StoredRun | None:
    """Ends a run without a Workflow. Returns None if the run does not exist or has ended."""
    run = find_run(connection, run_id)
    if run is None or run.state in ENDED:
        return None
    if state == "stopped":
        message = _stopped_message(run)
    values = {"state": state, "message": message, "finished": now(), "revision": run.revision + 1}
    connection.execute(update(runs).where(runs.c.id == run_id).values(**values))
    connection.execute(delete(run_orders).where(run_orders.c.run_id == run_id))
    revoke_run_tokens(connection, run_id)
    _enqueue_end(connection, run_id)
    announce(connection, RUN, run_id)
    stored = find_stored(connection, run_id)
    assert stored is not None
    return stored


def find_stored(connection: Connection, run_id: str) -> StoredRun | None:
    run = find_run(connection, run_id)
    return StoredRun(run, nodes_of(connection, run_id)) if run is not None else None


def stored_versions(connection: Connection) -> dict[str, str]:
    """The resourceVersion that is stored for each ended run, by id."""
    query = select(runs.c.id, runs.c.seen).where(runs.c.state.in_(ENDED), runs.c.seen != "")
    return {str(row.id): str(row.seen) for row in connection.execute(query)}


def find_unfinished(connection: Connection) -> list[tuple[str, str]]:
    """Runs that have not ended and should have a Workflow, with their namespaces."""
    ordered = select(run_orders.c.run_id)
    query = select(runs.c.id, runs.c.namespace).where(runs.c.state.not_in(ENDED), runs.c.id.not_in(ordered))
    return [(row.id, row.namespace) for row in connection.execute(query)]


def find_namespace(connection: Connection, run_id: str) -> str | None:
    return connection.execute(select(runs.c.namespace).where(runs.c.id == run_id)).scalar_one_or_none()


def find_stopping(connection: Connection) -> list[str]:
    return list(
        connection.execute(select(runs.c.id).where(runs.c.stopping.is_not(None), runs.c.state.not_in(ENDED))).scalars()
    )


def find_removals(connection: Connection) -> list[str]:
    """The ids of deleted runs with Workflows or logs that are still to be deleted."""
    return list(connection.execute(select(run_removals.c.run_id)).scalars())


def find_removal(connection: Connection, run_id: str) -> str | None:
    """The namespace of a deleted run that is still to be removed."""
    return connection.execute(
        select(run_removals.c.namespace).where(run_removals.c.run_id == run_id)
    ).scalar_one_or_none()


def match_attempt(known: tuple[Attempt, ...], seen: AttemptStatus, round: int) -> Attempt | None:
    """Finds the stored attempt; None if it is new. After a retry, nodes that are not repeated keep their attempts, and
    the others get new attempts of the same names."""
    last = next((attempt for attempt in reversed(known) if attempt.key == seen.key), None)
    if last is None or last.round == round:
        return last
    stayed = last.finished is not None and (last.started, last.finished) == (seen.started, seen.finished)
    return last if stayed and last.state == seen.state else None


def count_done(run: RunState, nodes: Iterable[NodeState]) -> int:
    """The number of nodes that ended. One that was skipped because another failed never will."""
    return sum(state in ENDED or (state == "skipped" and run == "succeeded") for state in nodes)


def _stopped_message(run: Run) -> str:
    return f"Stopped by {run.stopped_by}" if run.stopped_by else "Stopped on the cluster"


def _is_older(version: str, than: str) -> bool:
    """Whether the status is older than the stored one: a request stores its result itself and may be faster than the
    watch."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _record_run(connection: Connection, run: Run, seen: RunStatus, nodes: tuple[RunNode, ...]) -> None:
    values: dict[str, Any] = {
        "state": seen.state,
        "message": _stopped_message(run) if seen.state == "stopped" else seen.message,
        "started": run.started or (seen.started if seen.state != "waiting" else None),
        "finished": seen.finished if seen.state in ENDED else None,
        "nodes": len(nodes),
        "done": count_done(seen.state, [node.state for node in nodes]),
        "retries": seen.round,
    }
    changed = {name: value for name, value in values.items() if value != getattr(run, name)}
    if changed:
        changed["revision"] = run.revision + 1
    connection.execute(update(runs).where(runs.c.id == run.id).values(**changed, seen=seen.version))
    if seen.state in ENDED:
        revoke_run_tokens(connection, run.id)
        # A quick retry may have ended before anything of it was seen.
        if run.state not in ENDED or run.retries != seen.round:
            _enqueue_end(connection, run.id)


def _enqueue_end(connection: Connection, run_id: str) -> None:
    ended = find_run(connection, run_id)
    if ended is not None:
        enqueue_run_end(connection, ended)


def _record_nodes(connection: Connection, run_id: str, seen: RunStatus) -> tuple[RunNode, ...]:
    before = {node.name: node for node in nodes_of(connection, run_id)}
    known: dict[str, tuple[Attempt, ...]] = {}
    for attempt in attempts_of(connection, run_id):
        known[attempt.node] = (*known.get(attempt.node, ()), attempt)
    for node in seen.nodes:
        attempts = _record_attempts(connection, run_id, node, known.get(node.name, ()), seen.round)
        if node.name in before:
            _record_node(connection, run_id, before[node.name], node, attempts)
        else:
            _add_node(connection, run_id, node, attempts, len(before))
    if not seen.has_nodes and seen.state not in ENDED:
        return nodes_of(connection, run_id)  # what was known before is the best there is
    told = {node.name for node in seen.nodes}
    # A node that did not start: it never will if the run has ended.
    untold: NodeState = "skipped" if seen.state in ENDED else "waiting"
    stopped = seen.state == "stopped"
    message = skipped_message(seen.cause, stopped) if stopped or seen.cause else ""
    if not seen.has_nodes:
        message = NODES_UNKNOWN
        told = {name for name, node in before.items() if node.state in ENDED or node.state == "skipped"}
    for name, known_node in before.items():
        if name not in told and known_node.state != untold:
            values = {"state": untold, "message": message, "started": None, "finished": None}
            _change_node(connection, run_id, name, values)
    return nodes_of(connection, run_id)


def _record_node(connection: Connection, run_id: str, before: RunNode, node: NodeStatus, attempts: int) -> None:
    values = _node_values(node, attempts)
    changed = {name: value for name, value in values.items() if value != getattr(before, name)}
    if changed:
        _change_node(connection, run_id, node.name, changed)


def _add_node(connection: Connection, run_id: str, node: NodeStatus, attempts: int, position: int) -> None:
    """The nodes of a manifest and the iterations of a loop are not known in advance. An iteration of a node uses
    what the node uses."""
    loop, _ = split_iteration(node.name) or ("", 0)
    columns = (run_nodes.c.position, run_nodes.c.kind, run_nodes.c.cluster, run_nodes.c.skus)
    which = (run_nodes.c.run_id == run_id) & (run_nodes.c.name == loop)
    found = connection.execute(select(*columns).where(which)).first() if loop else None
    more = {"position": position, "kind": "plain", "cluster": "", "skus": 0} if found is None else found._asdict()
    values = {"run_id": run_id, "name": node.name, **more, **_node_values(node, attempts)}
    connection.execute(insert(run_nodes).values(**values))


def _node_values(node: NodeStatus, attempts: int) -> dict[str, Any]:
    has_begun = node.state not in ("waiting", "skipped")
    return {
        "state": node.state,
        "message": node.message,
        "attempts": attempts,
        "started": node.started if has_begun else None,
        "finished": node.finished if has_begun else None,
    }


def _change_node(connection: Connection, run_id: str, name: str, values: Mapping[str, Any]) -> None:
    which = (run_nodes.c.run_id == run_id) & (run_nodes.c.name == name)
    connection.execute(update(run_nodes).where(which).values(**values))


def _record_attempts(
    connection: Connection, run_id: str, node: NodeStatus, known: tuple[Attempt, ...], round: int
) -> int:
    """Stores attempts. Returns their number."""
    count = len(known)
    for seen in node.attempts:
        values = {
            "pod": seen.pod,
            "state": seen.state,
            "message": seen.message,
            "exit_code": seen.exit_code,
            "host": seen.host,
            "started": seen.started if seen.state != "waiting" else None,
            "finished": seen.finished,
        }
        before = match_attempt(known, seen, round)
        if before is None:
            count += 1
            more = {"run_id": run_id, "node": node.name, "number": count, "key": seen.key, "round": round}
            connection.execute(insert(run_attempts).values(**more, **values))
            continue
        changed = {name: value for name, value in values.items() if value != getattr(before, name)}
        if changed:
            which = (
                (run_attempts.c.run_id == run_id)
                & (run_attempts.c.node == node.name)
                & (run_attempts.c.number == before.number)
            )
            connection.execute(update(run_attempts).where(which).values(**changed))
    return count
