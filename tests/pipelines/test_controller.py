"""The controller on a real cluster and both databases: a Workflow is not gone before its run is stored."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.events import EventRecorder
from muster.kube.objects import Key, Object, is_deleting, name_of, timestamp
from muster.pipelines import runs
from muster.pipelines.controller import PipelineController, compile_run
from muster.pipelines.runs import NewRun, RunSource
from muster.platform.database.database import Database
from muster.platform.namespaces import Namespaces
from muster.platform.permissions import Actor
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.backend import EmbeddedBackend
from muster.workflows.cleanup import CleanupController
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from tests.embedded.waiting import run_components, wait_until
from tests.pipelines.test_packages import SPEC
from tests.pipelines.test_storage import user


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path / "cluster", catalogue, durability="process") as cluster:
        yield cluster


class Stage:
    """A run, its Workflow and an artifact of it, and what stores and deletes them. Nothing runs the Workflow."""

    def __init__(self, database: Database, cluster: EmbeddedCluster, folder: Path) -> None:
        self.database, self.cluster, self.folder = database, cluster, folder
        self.artifacts = ArtifactClient(cluster, folder / "workflows")
        self.actor = Actor("", "")
        self.key = Key("", "")
        self.run_id = ""
        self.runs = self.controller()

    def controller(self) -> PipelineController:
        namespaces = Namespaces(self.database, self.cluster)
        return PipelineController(
            self.database,
            self.cluster,
            self.folder / "platform",
            EmbeddedBackend(self.cluster),
            namespaces,
            artifacts=self.artifacts,
        )

    def cleanup(self) -> CleanupController:
        recorder = EventRecorder(self.cluster, "test")
        cleanup = CleanupController(self.cluster, recorder, owners=self.artifacts.owners)
        self.artifacts.on_release = cleanup.artifacts_released
        return cleanup

    async def begin(self, phase: str) -> None:
        def load(connection: Connection) -> RunSource:
            self.actor = user(connection)
            return runs.load_run(connection, self.actor, NewRun("r", spec=SPEC))

        source = await self.database.write(load)
        run = await self.runs.create(self.actor, source, compile_run(source))
        self.run_id, self.key = run.id, Key(run.namespace, run.workflow)
        status = {"phase": phase, **({"finishedAt": timestamp()} if phase != "Running" else {})}
        workflow = await self.cluster.patch(WORKFLOW, self.key.name, self.key.namespace, {"status": status})
        (self.folder / "source").write_text("x")
        artifact = {"name": "a", "path": "/a", "s3": {"key": f"{name_of(workflow)}/task/a"}, "archive": {"none": {}}}
        await self.artifacts.save(workflow, artifact, self.folder / "source", {})

    def workflow(self) -> Object | None:
        return self.cluster.peek(WORKFLOW, self.key)

    async def delete_workflow(self) -> None:
        await self.cluster.delete(WORKFLOW, self.key.name, self.key.namespace)

    async def until_gone(self) -> None:
        await wait_until(lambda: self.workflow() is None)

    async def run(self) -> tuple[str, str]:
        found = await self.database.read(lambda connection: runs.get_run(connection, self.actor, self.run_id))
        return found.state, found.error

    def files(self) -> list[str]:
        # Unlike `rglob`, it passes over folders that are removed meanwhile.
        return [name for _, _, names in os.walk(self.folder / "workflows/artifacts") for name in names]


@pytest.fixture
def stage(database: Database, cluster: EmbeddedCluster, tmp_path: Path) -> Stage:
    return Stage(database, cluster, tmp_path)


async def test_a_workflow_that_expires_before_its_end_was_stored_waits_for_it(stage: Stage) -> None:
    await stage.begin("Succeeded")
    await stage.delete_workflow()  # as its TTL does, while no controller runs
    left = stage.workflow()
    assert left is not None and is_deleting(left)
    assert (await stage.run())[0] == "PENDING"
    async with run_components(stage.runs, stage.cleanup()):
        await stage.until_gone()
        assert await stage.run() == ("SUCCEEDED", "")
        assert stage.files() == ["a"]
        # The artifacts go with the run, whose Workflow is gone already.
        await stage.runs.delete(stage.actor, stage.run_id)
        await wait_until(lambda: stage.files() == [])


async def test_a_workflow_that_is_deleted_while_it_runs_fails_its_run(stage: Stage) -> None:
    await stage.begin("Running")
    async with run_components(stage.runs, stage.cleanup()):
        await stage.delete_workflow()
        await stage.until_gone()
        assert await stage.run() == ("FAILED", "its Workflow was deleted on the cluster")
        assert stage.files() == ["a"]


async def test_a_deleted_run_takes_its_workflow_and_its_artifacts_along(stage: Stage) -> None:
    await stage.begin("Succeeded")
    async with run_components(stage.runs, stage.cleanup()):
        await stage.runs.delete(stage.actor, stage.run_id)
        await stage.until_gone()
        await wait_until(lambda: stage.files() == [])


async def test_artifacts_that_no_run_refers_to_go_at_the_next_start(stage: Stage) -> None:
    await stage.begin("Succeeded")
    await stage.database.write(lambda connection: runs.delete_row(connection, stage.run_id))
    await stage.delete_workflow()
    async with run_components(stage.runs, stage.cleanup()):
        await stage.until_gone()
        await wait_until(lambda: stage.files() == [])
