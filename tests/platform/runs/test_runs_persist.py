"""The records of runs that lists are made from, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, select, update

from muster.platform.database.database import Database
from muster.platform.database.queries import PageRequest
from muster.platform.database.tables import api_tokens, runs
from muster.platform.errors import ConflictProblem, ForbiddenProblem, InvalidProblem, NotFoundProblem
from muster.platform.graphs.context import Context
from muster.platform.graphs.model import Node, Role, Task, Training
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.records.runs import NodeState, Run, RunState
from muster.platform.resources.resources import NewCluster, create_cluster
from muster.platform.runs.create import (
    NewRun,
    find_requests,
    numbered_name,
    plan_of,
    prepare_copy,
    prepare_run,
    store_run,
)
from muster.platform.runs.runs import (
    Attempt,
    RunFilter,
    attempts_of,
    count_done,
    count_states,
    edit_run,
    find_unfinished,
    get_run,
    list_runs,
    match_attempt,
    nodes_of,
    store_end,
    store_status,
    stored_versions,
)
from muster.platform.runs.status import NODES_UNKNOWN, AttemptStatus, NodeStatus, RunStatus
from muster.platform.users.accounts import create_user
from muster.platform.users.tokens import issue_run_token
from muster.platform.workflows.graph_context import graph_context
from muster.platform.workflows.versions import NewVersion, archive_version, create_with_version, find_version
from muster.platform.workflows.workflows import NewWorkflow, get_workflow
from tests.platform.graphs.samples import graph, node

T = datetime(2026, 1, 1, tzinfo=UTC)


def new_actor(connection: Connection, name: str) -> Actor:
    return Actor(create_user(connection, SYSTEM, name).id, name)


def begun(connection: Connection, actor: Actor, workflow: str = "w", **more: object) -> Run:
    made = prepare_run(connection, actor, NewRun(workflow, **more), lambda c, a, d: Context())  # type: ignore[arg-type]
    return store_run(connection, actor, made)


def with_workflow(connection: Connection, actor: Actor, name: str = "w") -> None:
    document = graph(node("a"), node("b"), edges="a>b", parameters=[{"name": "p", "default": "x"}])
    create_with_version(connection, actor, NewWorkflow(name), NewVersion(document=document), lambda c, a, d: Context())


def look(state: str, *nodes: NodeStatus, version: str = "1", round: int = 0) -> RunStatus:
    finished = T if state in ("succeeded", "failed", "stopped") else None
    return RunStatus(state, "", T, finished, round, nodes, version)  # type: ignore[arg-type]


def was(name: str, state: str, *attempts: AttemptStatus) -> NodeStatus:
    return NodeStatus(name, state, "", T, None, attempts)  # type: ignore[arg-type]


def tried(key: str, state: str, at: datetime = T) -> AttemptStatus:
    return AttemptStatus(key, f"pod-{key}", state, "", "", "", at, at if state != "running" else None)  # type: ignore[arg-type]


def test_the_number_of_an_attempt() -> None:
    one = Attempt(1, "pod", "failed", "", [], "1", "", T, T, node="a", key="k", round=0)
    later = T + timedelta(seconds=5)
    assert match_attempt((), tried("k", "running"), 0) is None
    assert match_attempt((one,), tried("k", "failed"), 0) is one, "an update of the same attempt"
    assert match_attempt((one,), tried("k2", "running"), 0) is None, "the engine retried the node"
    assert match_attempt((one,), tried("k", "running", later), 1) is None, "the run was retried, and the node ran again"
    done = replace(one, state="succeeded")
    assert match_attempt((done,), tried("k", "succeeded"), 1) is done, (
        "the run was retried, and the node did not run again"
    )


async def test_nodes_that_cannot_be_read_are_not_called_skipped(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        run = begun(connection, ann)

        def nodes() -> list[tuple[str, str]]:
            return [(each.state, each.message) for each in nodes_of(connection, run.id)]

        store_status(connection, {run.id: look("running", was("a", "succeeded"), was("b", "running"))})
        unread = replace(look("running", version="2"), has_nodes=False)
        store_status(connection, {run.id: unread})
        assert nodes() == [("succeeded", ""), ("running", "")], "what is known stays"
        store_status(connection, {run.id: replace(look("succeeded", version="3"), has_nodes=False)})
        assert nodes() == [("succeeded", ""), ("skipped", NODES_UNKNOWN)]
        store_status(connection, {run.id: look("succeeded", was("a", "succeeded"), was("b", "succeeded"), version="3")})
        assert nodes() == [("succeeded", ""), ("succeeded", "")]

    await database.write(story)


async def test_a_run_is_recorded_from_its_creation_to_its_end(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        run = begun(connection, ann, name="first")
        assert (run.state, run.nodes, run.done) == ("waiting", 2, 0)
        (order,) = find_requests(connection)
        assert order.workflow["metadata"]["name"] == run.object_name == order.secret["metadata"]["name"]
        assert find_unfinished(connection) == [], "it has not been created yet"
        issue_run_token(connection, ann.id, run.id)

        store_status(connection, {run.id: look("running", was("a", "running", tried("k", "running")))})
        assert [(n.name, n.state, n.attempts) for n in nodes_of(connection, run.id)] == [
            ("a", "running", 1),
            ("b", "waiting", 0),
        ]
        failed = replace(look("failed", was("a", "failed", tried("k", "failed")), version="3"), cause="a")
        store_status(connection, {run.id: failed})
        store_status(connection, {run.id: look("running", was("a", "running"), version="2")})
        now = get_run(connection, ann, run.id)
        assert (now.state, now.finished) == ("failed", T), "an older update is ignored"
        assert [(n.state, n.message) for n in nodes_of(connection, run.id)[1:]] == [
            ("skipped", "Skipped because a failed")
        ]
        assert stored_versions(connection) == {run.id: "3"}
        assert connection.execute(select(api_tokens.c.revoked).where(api_tokens.c.run_id == run.id)).scalar_one()

        again = was("a", "succeeded", tried("k", "succeeded", T + timedelta(seconds=9)))
        store_status(connection, {run.id: look("succeeded", again, was("b", "succeeded"), version="9", round=1)})
        assert [(a.number, a.round, a.state) for a in attempts_of(connection, run.id, "a")] == [
            (1, 0, "failed"),
            (2, 1, "succeeded"),
        ]
        assert get_run(connection, ann, run.id).done == 2
        assert store_end(connection, run.id, "failed", "gone") is None, "it had ended before"
        assert store_status(connection, {"stranger": look("running")}) == []

    await database.write(story)


@pytest.mark.parametrize(
    ("run", "nodes", "done"),
    [
        ("running", ["succeeded", "running", "waiting"], 1),
        ("failed", ["failed", "skipped", "skipped"], 1),
        ("stopped", ["succeeded", "stopped", "skipped"], 2),
        ("succeeded", ["succeeded", "skipped"], 2),
    ],
)
def test_only_nodes_that_ended_count_as_done(run: RunState, nodes: list[NodeState], done: int) -> None:
    assert count_done(run, nodes) == done


async def test_a_stopped_run_names_the_user_who_stopped_it(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        by_user, elsewhere, waiting = (begun(connection, ann, name=name) for name in ("one", "two", "three"))
        connection.execute(update(runs).where(runs.c.id.in_([by_user.id, waiting.id])).values(stopped_by="ann"))
        store_status(connection, {run.id: look("stopped") for run in (by_user, elsewhere)})
        store_end(connection, waiting.id, "stopped")
        told = [get_run(connection, ann, run.id).message for run in (by_user, elsewhere, waiting)]
        assert told == ["Stopped by ann", "Stopped on the cluster", "Stopped by ann"]
        assert {n.message for n in nodes_of(connection, by_user.id)} == {"Skipped because the run was stopped"}

    await database.write(story)


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("w v1", [], "w v1"),
        ("w v1", ["w v1"], "w v1 #2"),
        ("w v1", ["w v1 #7", "w v1", "w v1 #x", "w v10"], "w v1 #8"),
        ("w v1 #2", ["w v1", "w v1 #2"], "w v1 #3"),
        ("w" * 200, ["w" * 191], "w" * 191 + " #2"),
    ],
)
def test_automatic_names_are_numbered(name: str, taken: list[str], expected: str) -> None:
    assert numbered_name(name, taken) == expected


async def test_automatic_names_of_runs_and_copies_differ(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        first, second = begun(connection, ann), begun(connection, ann)
        copied = prepare_copy(connection, ann, first.id, NewRun(version=""), lambda c, a, d: Context())
        third = store_run(connection, ann, copied)
        assert [run.name for run in (first, second, third)] == ["w v1", "w v1 #2", "w v1 #3"]
        assert begun(connection, ann, name="w v1").name == "w v1", "a name that was chosen stays"

    await database.write(story)


async def test_lists_are_filtered_sorted_and_paged(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann, bob = new_actor(connection, "ann"), new_actor(connection, "bob")
        with_workflow(connection, ann, "w")
        with_workflow(connection, ann, "v")
        first, second = begun(connection, ann, name="alpha"), begun(connection, bob, "v", name="Beta")
        store_status(connection, {second.id: look("succeeded")})

        def names(**only: object) -> list[str]:
            found = list_runs(connection, ann, PageRequest(sort="name"), RunFilter(**only))  # type: ignore[arg-type]
            assert found.total == len(found.items)
            return [run.name for run in found.items]

        assert names() == ["Beta", "alpha"]
        assert names(states=("succeeded", "failed")) == ["Beta"]
        assert names(owner="bob") == names(workflow="v") == names(workflow="v", version="1") == ["Beta"]
        assert names(version=first.version_id) == names(q="ALPH") == ["alpha"]
        assert names(since=second.created) == ["Beta"]
        assert names(until=second.created) == ["alpha"]
        assert names(owner="nobody") == names(workflow="w", version="7") == []
        with pytest.raises(InvalidProblem):
            names(states=("asleep",))
        page = list_runs(connection, ann, PageRequest(limit=1), RunFilter())
        assert [run.name for run in page.items] == ["Beta"], "newest first"
        rest = list_runs(connection, ann, PageRequest(limit=1, cursor=page.next or ""), RunFilter())
        assert ([run.name for run in rest.items], rest.next) == (["alpha"], None)
        for sort in ("started", "-finished", "state", "workflow", "version", "owner"):
            assert len(list_runs(connection, ann, PageRequest(sort=sort), RunFilter()).items) == 2
        assert count_states(connection, ann, RunFilter())["waiting"] == 1
        token = Actor(bob.id, "bob", scopes=frozenset({"run"}), run=second.id)
        assert [run.id for run in list_runs(connection, token, PageRequest(), RunFilter()).items] == [second.id]

    await database.write(story)


async def test_copies_keep_values(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann, bob = new_actor(connection, "ann"), new_actor(connection, "bob")
        with_workflow(connection, ann)
        run = begun(connection, ann, parameters={"p": "1"}, name="one")
        copy = prepare_copy(
            connection, ann, run.id, NewRun(version="", parameters={"p": "2"}), lambda c, a, d: Context()
        )
        assert (copy.name, dict(copy.parameters), copy.copied_from) == ("one", {"p": "2"}, run.id)
        same = prepare_copy(connection, ann, run.id, NewRun(version="", name="two"), lambda c, a, d: Context())
        assert (same.name, dict(same.parameters)) == ("two", {"p": "1"})
        with pytest.raises(ForbiddenProblem):
            prepare_copy(connection, bob, run.id, NewRun(version=""), lambda c, a, d: Context())
        assert edit_run(connection, ann, run.id, "renamed").name == "renamed"
        with pytest.raises(ForbiddenProblem):
            edit_run(connection, bob, run.id, "mine")
        with pytest.raises(NotFoundProblem):
            get_run(connection, ann, "nothing")

    await database.write(story)


async def test_runs_that_cannot_start_are_refused(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        with pytest.raises(InvalidProblem) as wrong:
            begun(connection, ann, parameters={"q": "1", "p": "\0"})
        assert [error.field for error in wrong.value.errors] == ["parameters.q", "parameters.p"]
        with pytest.raises(InvalidProblem):
            begun(connection, ann, name=" blank")
        with pytest.raises(InvalidProblem):
            begun(connection, ann, "")
        workflow = get_workflow(connection, ann, "w")
        archive_version(connection, ann, workflow, find_version(connection, workflow, "1"), archived=True)
        with pytest.raises(ConflictProblem):
            begun(connection, ann, version="1")

        boss = Actor(ann.id, "ann", admin=True)
        create_cluster(connection, boss, NewCluster("small", {"cpu": "1"}, total=2))
        document = graph(node("a", task={"type": "compute", "cluster": "small", "skus": 3}))
        create_with_version(connection, ann, NewWorkflow("big"), NewVersion(document=document), graph_context)
        with pytest.raises(InvalidProblem, match="needs 3 SKUs"):
            prepare_run(connection, ann, NewRun("big"), graph_context)
        assert list_runs(connection, ann, PageRequest(), RunFilter()).total == 0

    await database.write(story)


def test_the_resources_of_all_replicas() -> None:
    compute = Task("compute", "gpu", 2)
    job = Training("PyTorchJob", roles=(Role("Master", 1), Role("Worker", 3), Role("Eval", 1, task=Task())))
    assert plan_of(Node("t", "training", task=compute, training=job)).skus == 8
    assert (plan_of(Node("p", task=compute)).skus, plan_of(Node("p", task=compute)).cluster) == (2, "gpu")
    assert plan_of(Node("m")).skus == 0
