"""What refusals of the cluster mean for a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound, Unavailable
from muster.platform.database.database import Database
from muster.platform.permissions import Actor
from muster.platform.records.runs import Run
from muster.platform.runs.controller import RunController, is_final
from muster.platform.runs.runs import StoredRun, find_removals
from tests.platform.runs.test_runs_persist import begun, new_actor, with_workflow

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
