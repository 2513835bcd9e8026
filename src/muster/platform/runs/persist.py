"""Stores the status of runs in the database, so that lists can be filtered and sorted by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from muster.platform.database.tables import now, run_attempts, run_nodes, run_orders, run_removals, runs
from muster.platform.records import NodeState, Run, RunNode, RunState
from muster.platform.runs.runs import Attempt, attempts_of, find_run, nodes_of
from muster.platform.runs.status import DONE, ENDED, AttemptStatus, NodeStatus, RunStatus
from muster.platform.users.tokens import revoke_run_tokens


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
    return told


def store_end(connection: Connection, run_id: str, state: RunState, message: str) -> StoredRun | None:
    """Ends a run without a Workflow. Returns None if the run does not exist or has ended."""
    run = find_run(connection, run_id)
    if run is None or run.state in ENDED:
        return None
    values = {"state": state, "message": message, "finished": now(), "revision": run.revision + 1}
    connection.execute(update(runs).where(runs.c.id == run_id).values(**values))
    connection.execute(delete(run_orders).where(run_orders.c.run_id == run_id))
    revoke_run_tokens(connection, run_id)
    after = find_run(connection, run_id)
    assert after is not None
    return StoredRun(after, nodes_of(connection, run_id))


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


def _is_older(version: str, than: str) -> bool:
    """Whether the status is older than the stored one: a request stores its result itself and may be faster than the
    watch."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _record_run(connection: Connection, run: Run, seen: RunStatus, nodes: tuple[RunNode, ...]) -> None:
    values: dict[str, Any] = {
        "state": seen.state,
        "message": seen.message,
        "started": run.started or (seen.started if seen.state != "waiting" else None),
        "finished": seen.finished if seen.state in ENDED else None,
        "nodes": len(nodes),
        "done": sum(node.state in DONE for node in nodes),
        "retries": seen.round,
    }
    changed = {name: value for name, value in values.items() if value != getattr(run, name)}
    if changed:
        changed["revision"] = run.revision + 1
    connection.execute(update(runs).where(runs.c.id == run.id).values(**changed, seen=seen.version))
    if seen.state in ENDED:
        revoke_run_tokens(connection, run.id)


def _record_nodes(connection: Connection, run_id: str, seen: RunStatus) -> tuple[RunNode, ...]:
    before = {node.name: node for node in nodes_of(connection, run_id)}
    known: dict[str, tuple[Attempt, ...]] = {}
    for attempt in attempts_of(connection, run_id):
        known[attempt.node] = (*known.get(attempt.node, ()), attempt)
    for node in seen.nodes:
        attempts = _record_attempts(connection, run_id, node, known.get(node.name, ()), seen.round)
        _record_node(connection, run_id, before.get(node.name), node, attempts, len(before))
    told = {node.name for node in seen.nodes}
    # A node that did not start: it never will if the run has ended.
    untold: NodeState = "skipped" if seen.state in ENDED else "waiting"
    for name, known_node in before.items():
        if name not in told and known_node.state != untold:
            _change_node(connection, run_id, name, {"state": untold, "message": "", "started": None, "finished": None})
    return nodes_of(connection, run_id)


def _record_node(
    connection: Connection, run_id: str, before: RunNode | None, node: NodeStatus, attempts: int, position: int
) -> None:
    has_begun = node.state not in ("waiting", "skipped")
    values: dict[str, Any] = {
        "state": node.state,
        "message": node.message,
        "attempts": attempts,
        "started": node.started if has_begun else None,
        "finished": node.finished if has_begun else None,
    }
    if before is None:
        # The nodes of a manifest are not known in advance.
        more = {"run_id": run_id, "name": node.name, "position": position, "kind": "plain", "cluster": "", "skus": 0}
        connection.execute(insert(run_nodes).values(**more, **values))
        return
    changed = {name: value for name, value in values.items() if value != getattr(before, name)}
    if changed:
        _change_node(connection, run_id, node.name, changed)


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
