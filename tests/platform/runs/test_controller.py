"""What refusals of the cluster mean for a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from sqlalchemy import event

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound, Unavailable
from muster.platform.database.database import Database
from muster.platform.graphs.bindings import TOKEN
from muster.platform.graphs.context import Context
from muster.platform.permissions import Actor
from muster.platform.records.runs import Run
from muster.platform.runs.controller import RunController, is_final, is_stored
from muster.platform.runs.create import NewRun, PreparedRun, find_requests, prepare_run
from muster.platform.runs.runs import StoredRun, find_removals
from muster.platform.runs.status import RunStatus
from tests.platform.runs.test_runs_persist import T, begun, new_actor, with_workflow

STARTING = 'workflows.argoproj.io "run-1" is forbidden: User "muster" cannot get resource "workflows"'


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (Invalid('Workflow "run-1" is invalid: spec.templates: Required value'), True),
        (BadRequest("strict decoding error: unknown field"), True),
        (Forbidden('pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes'), True),
        (Forbidden('pods "x" is forbidden: exceeded quota: compute'), True),
        (Forbidden('the namespace "user-ann" exists on the cluster and does not belong to the platform'), True),
        # An API server says this of every request until it has read its roles.
        (
            Forbidden(
                'workflows.argoproj.io is forbidden: User "muster:operator" cannot create resource "workflows" in API '
                'group "argoproj.io" in the namespace "user-ann"'
            ),
            False,
        ),
        (
            Forbidden(
                'secrets is forbidden: User "muster:operator" cannot create resource "secrets" in API group "" in the '
                'namespace "user-ann": RBAC: [clusterrole.rbac.authorization.k8s.io "system:discovery" not found]'
            ),
            False,
        ),
        (Unavailable("cannot reach the API server"), False),
        (Conflict("changed"), False),
    ],
)
def test_is_final(error: ApiError, final: bool) -> None:
    assert is_final(error) == final


class RefusingCluster:
    """Has no objects, and refuses this many requests before it is ready."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    async def get(self, *_: Any) -> Any:
        self.refusals -= 1
        raise Forbidden(STARTING) if self.refusals >= 0 else NotFound("no such object")

    delete = get


async def with_run(database: Database) -> tuple[Actor, Run]:
    def create(connection: Any) -> tuple[Actor, Run]:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        return ann, begun(connection, ann)

    return await database.write(create)


def controller(
    database: Database, cluster: RefusingCluster, folder: Path, tell: Callable[[StoredRun], None]
) -> RunController:
    unused = Mock()
    return RunController(database, cast(Cluster, cluster), folder, tell, unused, unused)


async def test_a_run_is_stopped_when_the_cluster_lets_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that starts refuses everything. The request to stop is stored, and carried out later."""
    monkeypatch.setattr("muster.platform.runs.controller._AGAIN_SECONDS", 0.01)
    told: asyncio.Queue[StoredRun] = asyncio.Queue()
    runs = controller(database, RefusingCluster(5), tmp_path, told.put_nowait)
    ann, run = await with_run(database)
    asked = await runs.stop(ann, run.id)
    assert (asked.state, asked.stopping is not None) == ("waiting", True)
    catching_up = asyncio.create_task(runs._catch_up())
    async with asyncio.timeout(30):
        assert (await told.get()).run.state == "stopped"
    catching_up.cancel()


async def test_a_deleted_run_is_removed_when_the_cluster_lets_it(database: Database, tmp_path: Path) -> None:
    runs = controller(database, RefusingCluster(1), tmp_path, lambda _: None)
    ann, run = await with_run(database)
    await runs.delete(ann, run.id)
    assert await database.read(find_removals) == [run.id], "what is left to remove"
    await runs._delete(run.id)
    assert await database.read(find_removals) == []


async def prepared(database: Database) -> tuple[Actor, PreparedRun]:
    def prepare(connection: Any) -> tuple[Actor, PreparedRun]:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        return ann, prepare_run(connection, ann, NewRun("w"), lambda c, a, d: Context())

    return await database.write(prepare)


async def test_a_run_is_created_in_two_transactions(database: Database, tmp_path: Path) -> None:
    """One before and one after what the cluster is asked for. With leases, there were seven."""
    cluster, backend, namespaces, order = AsyncMock(), AsyncMock(), AsyncMock(), list[str]()
    runs = RunController(database, cluster, tmp_path, lambda _: None, backend, namespaces)
    ann, made = await prepared(database)
    backend.submit.side_effect = lambda _: order.append("submitted")
    for engine in {database._readers, database._writers}:
        event.listen(engine, "begin", lambda _: order.append("transaction"))
    run = await runs.create(ann, made)
    assert order == ["transaction", "submitted", "transaction"]
    assert run.state == "waiting"
    (secret,) = cluster.create.await_args.args
    assert secret["data"][TOKEN]
    backend.submit.assert_awaited_once_with(made.workflow_object)
    assert await database.read(find_requests) == []
    assert await runs.namespace(run.id) == made.namespace


@pytest.mark.parametrize(
    ("error", "state", "requests"),
    [(Unavailable("the API server is away"), "waiting", 1), (Invalid("spec: Required value"), "failed", 0)],
)
async def test_a_run_that_the_cluster_refuses(
    database: Database, tmp_path: Path, error: ApiError, state: str, requests: int
) -> None:
    backend = AsyncMock()
    runs = RunController(database, AsyncMock(), tmp_path, lambda _: None, backend, AsyncMock())
    ann, made = await prepared(database)
    backend.submit.side_effect = error
    run = await runs.create(ann, made)
    assert run.state == state
    assert len(await database.read(find_requests)) == requests


def status(state: str = "running", version: str = "1", message: str = "") -> RunStatus:
    return RunStatus(cast(Any, state), message, T, None, 0, (), version)


@pytest.mark.parametrize(
    ("before", "after", "stored"),
    [
        (None, status(), False),
        (status(), status(version="2"), True),
        (status(), status(version="2", message="waits"), False),
        (status(), status("failed", version="2"), False),
        # A restarted server knows an ended run by the version that is stored.
        (status("failed"), status("failed", version="2"), False),
    ],
)
def test_what_only_argo_reads_is_not_stored(before: RunStatus | None, after: RunStatus, stored: bool) -> None:
    assert is_stored(before, after) == stored
