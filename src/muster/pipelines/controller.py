"""Keeps pipeline runs and their Workflows in step.

What a user asks for is stored first: a run to create, to cancel or to delete. Carrying it out may be interrupted at any
point and is repeated. The state of a run follows from its Workflow. What its tasks did is stored when it has ended, so
it can be read after the Workflow and its Pods are gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from muster.kube import errors as cluster_errors
from muster.kube.budgets import Budgets
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound
from muster.kube.objects import Object, labels_of, name_of, namespace_of, parse_time, status_of, version_of
from muster.pipelines.compile import RUN_LABEL, to_workflow
from muster.pipelines.records import ENDED, ArtifactRecord, PipelineRun, State
from muster.pipelines.runs import (
    RunRequest,
    RunSource,
    ask_to_delete,
    ask_to_stop,
    close_request,
    delete_row,
    find_requests,
    find_run,
    find_runs,
    get_run,
    set_state,
    store_end,
    store_run,
    stored_tasks,
)
from muster.pipelines.spec import PipelineError, parse_pipeline
from muster.pipelines.status import TaskDetail, task_details
from muster.pipelines.task import Artifact
from muster.platform.database.database import Database
from muster.platform.database.leases import Leases
from muster.platform.errors import BadRequestProblem, ConflictProblem
from muster.platform.namespaces import Namespaces
from muster.platform.permissions import Actor
from muster.platform.runs.logs import delete_logs, save_logs
from muster.platform.users.audit import write_audit
from muster.workflows.kinds import WORKFLOW
from muster.workflows.model import FINISHED_PHASES
from muster.workflows.operations import apply, control
from muster.workflows.operations.retry import retry as retried

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 5.0
_GONE: Final = "its Workflow was deleted on the cluster"
_LONGEST_PIPELINE: Final = 40


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How far a Workflow is."""

    state: State
    error: str = ""
    finished: datetime | None = None
    version: str = ""


def compile_run(source: RunSource) -> Object:
    """Returns the Workflow of a run. Pure; raises BadRequest if the parameters do not fit."""
    try:
        pipeline = parse_pipeline(dict(source.spec))
    except PipelineError as error:
        raise BadRequestProblem.of("pipelines.spec", detail=str(error)) from None
    try:
        return to_workflow(
            pipeline,
            run_id=source.id,
            display_name=source.new.name,
            parameters=source.new.parameters,
            namespace=source.namespace,
            # The end of the id: its start is the time, which runs that begin together share.
            name=f"{pipeline.name[:_LONGEST_PIPELINE].strip('-')}-{source.id.replace('-', '')[-12:]}",
            pipeline_root=source.new.pipeline_root,
            service_account=source.new.service_account,
            scheduled=source.scheduled.astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z",
        )
    except PipelineError as error:
        raise BadRequestProblem.of("pipelines.parameters", detail=str(error)) from None


def read_status(workflow: Object, run: PipelineRun) -> RunStatus:
    """Says how far a run is. One that was canceled ends as FAILED, because kfp.Client waits for ever on CANCELED."""
    status, version = status_of(workflow), version_of(workflow)
    phase = status.get("phase") or ""
    if phase not in FINISHED_PHASES:
        if run.state == "CANCELING":
            return RunStatus("CANCELING", version=version)
        return RunStatus("RUNNING" if phase == "Running" else "PENDING", version=version)
    finished = parse_time(status["finishedAt"]) if status.get("finishedAt") else run.finished or datetime.now(UTC)
    if phase == "Succeeded":
        return RunStatus("SUCCEEDED", "", finished, version)
    message = str(status.get("message") or "the run failed")
    error = f"The run was canceled by {run.stopped_by}." if run.stopped_by else message
    return RunStatus("FAILED", error, finished, version)


def task_document(run_id: str, task: TaskDetail) -> dict[str, Any]:
    """Returns a task as the API has it. `node` is what Kubeflow Pipelines leaves out: parameters, attempts, kind."""
    found: dict[str, Any] = {
        "run_id": run_id,
        "task_id": task.task_id,
        "display_name": task.display_name,
        "create_time": task.created,
        "start_time": task.started,
        "end_time": task.finished,
        "state": task.state,
        "parent_task_id": task.parent_task_id,
        "pod_name": task.pod_name,
        "child_tasks": [{"pod_name": pod} for pod in task.attempts],
        "error": {"code": 13, "message": task.error} if task.error else None,
        "node": {
            "name": task.node_name,
            "kind": task.kind,
            "component": task.component,
            "iteration": task.iteration,
            "cached": task.cached,
            "attempts": list(task.attempts),
            "inputs": task.inputs.to_json(),
            "outputs": task.outputs.to_json(),
        },
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def artifact_records(run_id: str, tasks: list[TaskDetail]) -> Iterator[ArtifactRecord]:
    """The artifacts that the tasks of a run made and used. A nested pipeline only passes on what is inside of it."""
    for task in tasks:
        if task.kind not in ("container", "importer"):
            continue
        moment = parse_time(task.finished or task.created) if task.finished or task.created else datetime.now(UTC)
        for direction, named in (("input", task.inputs.artifacts), ("output", task.outputs.artifacts)):
            for key, listed in named.items():
                for position, artifact in enumerate(listed):
                    yield ArtifactRecord(
                        run_id,
                        task.task_id,
                        "input" if direction == "input" else "output",
                        key,
                        position,
                        artifact_id(artifact),
                        artifact.name,
                        artifact.type.schema_title,
                        artifact.uri,
                        dict(artifact.metadata),
                        moment,
                    )


def artifact_id(artifact: Artifact) -> str:
    """Equal wherever the same artifact is used: its uri contains the run and the task that made it."""
    return sha256(artifact.uri.encode()).hexdigest()[:32]


class PipelineController:
    """`run()` runs until it is cancelled."""

    def __init__(
        self,
        database: Database,
        cluster: Cluster,
        folder: Path,
        add_nodes: Callable[[Object], Object],
        namespaces: Namespaces,
        budgets: Budgets = Budgets(),  # noqa: B008
        leases: Leases | None = None,
    ) -> None:
        """`add_nodes` completes a Workflow whose nodes the cluster stores apart from it. `folder` keeps logs. `leases`
        keep several servers from working on one run at the same time."""
        self._database = database
        self._cluster = cluster
        self._folder = folder
        self._add_nodes = add_nodes
        self._namespaces = namespaces
        self._log_bytes = budgets.run_log_megabytes << 20
        self._leases = leases or Leases(database)
        self._changed: dict[str, Object | None] = {}
        self._news = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when a run has ended: a recurring run may start the next one."""

    async def run(self) -> None:
        async with (
            Informer(self._cluster, WORKFLOW, labels=RUN_LABEL, on_change=self._on_change),
            asyncio.TaskGroup() as group,
        ):
            await self._find_lost()
            group.create_task(self._catch_up())
            group.create_task(self._follow())

    # What users ask for

    async def create(self, actor: Actor, source: RunSource, workflow: Object) -> PipelineRun:
        """Stores the run, and creates its Workflow. If that fails for a reason that may pass, it is tried again."""
        await self._database.write(lambda connection: store_run(connection, actor, source, workflow))
        await self.begin(source.id)
        return await self._database.read(lambda connection: get_run(connection, actor, source.id))

    async def stop(self, actor: Actor, run_id: str) -> None:
        await self._database.write(lambda connection: ask_to_stop(connection, actor, run_id))
        await self._stop(run_id)

    async def delete(self, actor: Actor, run_id: str) -> None:
        await self._database.write(lambda connection: ask_to_delete(connection, actor, run_id))
        await self._delete(run_id)

    async def retry(self, actor: Actor, run_id: str) -> None:
        """Continues a run that failed or was canceled. Tasks that succeeded are not repeated."""
        async with self._leases.hold(f"run/{run_id}"):
            run = await self._database.read(lambda connection: get_run(connection, actor, run_id, "retry"))
            if run.state != "FAILED":
                raise BadRequestProblem.of("pipelines.retry", state=run.state)
            try:
                workflow = await self._workflow(run)
                plan = retried(workflow)
            except NotFound:
                raise BadRequestProblem.of("pipelines.gone") from None
            except BadRequest as error:
                raise BadRequestProblem(str(error)) from None
            await save_logs(
                self._cluster, self._folder, run_id, run.retries, run.namespace, plan.pods_to_delete, self._log_bytes
            )
            try:
                after = await apply.retry(self._cluster, workflow)
            except cluster_errors.Conflict:
                raise ConflictProblem.of("run.changed") from None

            def write(connection: Connection) -> None:
                current = get_run(connection, actor, run_id, "retry")
                version = version_of(after)
                set_state(connection, current, "RUNNING", stopped_by="", retries=current.retries + 1, seen=version)
                write_audit(connection, actor, "retry", "pipeline run", run.id, run.name)

            await self._database.write(write)

    async def tasks(self, run: PipelineRun) -> list[dict[str, Any]]:
        """The tasks of a run: from its Workflow, or as they were stored when it ended."""
        if run.state in ENDED:
            stored = await self._database.read(lambda connection: stored_tasks(connection, run.id))
            if stored:
                return stored
        try:
            workflow = await self._workflow(run)
        except NotFound:
            return []
        return await asyncio.to_thread(lambda: [task_document(run.id, task) for task in task_details(workflow)])

    async def begin(self, run_id: str) -> None:
        """Creates the Workflow of a new run."""
        async with self._leases.hold(f"run/{run_id}"):
            for request in await self._database.read(lambda connection: find_requests(connection, run_id)):
                try:
                    await self._carry_out(request)
                except (BadRequest, Forbidden, Invalid) as error:
                    await self._end(run_id, f"the cluster refused it: {error}")
                except ApiError as error:
                    log.warning("pipeline run %s: %s; trying again in %.0f s", run_id, error, _AGAIN_SECONDS)

    # Carrying it out

    async def _carry_out(self, request: RunRequest) -> None:
        """If the Workflow exists already, an earlier attempt was interrupted before it closed the request."""
        run = await self._database.read(lambda connection: find_run(connection, request.run_id))
        if run is None:
            return
        workflow = request.workflow
        try:
            await self._cluster.get(WORKFLOW, name_of(workflow), namespace_of(workflow))
        except NotFound:
            if run.state == "CANCELING":
                await self._end(run.id, f"The run was canceled by {run.stopped_by}.")
                return
            await self._namespaces.ensure(namespace_of(workflow))
            with suppress(AlreadyExists):
                await self._cluster.create(workflow)
        await self._database.write(lambda connection: close_request(connection, run.id))

    async def _stop(self, run_id: str) -> None:
        async with self._leases.hold(f"run/{run_id}"):
            run = await self._database.read(lambda connection: find_run(connection, run_id))
            if run is None or run.state != "CANCELING":
                return
            try:
                workflow = await self._workflow(run)
            except NotFound:
                await self._end(run_id, f"The run was canceled by {run.stopped_by}.")
                return
            try:
                await apply.write(self._cluster, workflow, control.terminate(workflow))
            except BadRequest:
                return  # it has ended by itself

    async def _delete(self, run_id: str) -> None:
        async with self._leases.hold(f"run/{run_id}"):
            deleted = await self._database.read(lambda connection: find_runs(connection, deleted=True))
            for run in (each for each in deleted if each.id == run_id):
                with suppress(NotFound):
                    await self._cluster.delete(WORKFLOW, run.workflow, run.namespace)
                await asyncio.to_thread(delete_logs, self._folder, run_id)
                await self._database.write(lambda connection: delete_row(connection, run_id))
                self.ended.set()

    async def _end(self, run_id: str, error: str) -> None:
        moment = datetime.now(UTC)
        await self._database.write(
            lambda connection: store_end(connection, run_id, "FAILED", error, moment, (), (), "")
        )
        self.ended.set()

    async def _workflow(self, run: PipelineRun) -> Object:
        """Returns the Workflow with its nodes. Raises the cluster's NotFound."""
        workflow = await self._cluster.get(WORKFLOW, run.workflow, run.namespace)
        if labels_of(workflow).get(RUN_LABEL) != run.id:
            raise NotFound(f'the Workflow "{run.workflow}" is not that of the run')
        return self._add_nodes(workflow)

    # Following the cluster

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        run_id = labels_of(after or before or {}).get(RUN_LABEL, "")
        if run_id:
            self._changed[run_id] = after
            self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            changed, self._changed = self._changed, {}
            for run_id in changed:
                await _alone(run_id, self._look(run_id))

    async def _look(self, run_id: str) -> None:
        """Stores the state of a run, if it has changed."""
        async with self._leases.hold(f"run/{run_id}"):
            run = await self._database.read(lambda connection: find_run(connection, run_id))
            if run is None:
                return
            try:
                workflow = await self._cluster.get(WORKFLOW, run.workflow, run.namespace)
            except NotFound:
                if run.state not in ENDED and not await self._is_requested(run_id):
                    await self._end(run_id, _GONE)
                return
            if labels_of(workflow).get(RUN_LABEL) != run_id:
                return  # a user has made a Workflow of this name
            seen = read_status(workflow, run)
            if seen.state in ENDED:
                # One that has ended differently was retried, and ended again before this was noticed.
                if run.state not in ENDED or (run.state, run.finished) != (seen.state, seen.finished):
                    await self._store_end(run, self._add_nodes(workflow), seen)
            elif run.state in ENDED or seen.state != run.state:
                await self._database.write(lambda connection: _store_state(connection, run_id, seen.state))

    async def _store_end(self, run: PipelineRun, workflow: Object, seen: RunStatus) -> None:
        def describe() -> tuple[list[dict[str, Any]], list[ArtifactRecord]]:
            tasks = task_details(workflow)
            return [task_document(run.id, each) for each in tasks], list(artifact_records(run.id, tasks))

        tasks, artifacts = await asyncio.to_thread(describe)
        finished = seen.finished or datetime.now(UTC)
        await self._database.write(
            lambda connection: store_end(
                connection, run.id, seen.state, seen.error, finished, tasks, artifacts, seen.version
            )
        )
        self.ended.set()

    async def _is_requested(self, run_id: str) -> bool:
        return bool(await self._database.read(lambda connection: find_requests(connection, run_id)))

    async def _find_lost(self) -> None:
        """Looks at all runs that have not ended: their Workflows may have ended or gone while no server was running."""
        for run in await self._database.read(
            lambda connection: find_runs(connection, states=["PENDING", "RUNNING", "CANCELING"])
        ):
            await _alone(run.id, self._look(run.id))

    async def _catch_up(self) -> None:
        """Carries out what is still to be done: the process ended before, or the cluster did not respond."""
        looked = time.monotonic()
        while True:
            for request in await self._database.read(find_requests):
                await _alone(request.run_id, self.begin(request.run_id))
            for run in await self._database.read(lambda connection: find_runs(connection, states=["CANCELING"])):
                await _alone(run.id, self._stop(run.id))
            for run in await self._database.read(lambda connection: find_runs(connection, deleted=True)):
                await _alone(run.id, self._delete(run.id))
            if time.monotonic() - looked > _LOOK_SECONDS:
                await self._find_lost()
                looked = time.monotonic()
            await asyncio.sleep(_AGAIN_SECONDS)


_LOOK_SECONDS: Final = 60.0


async def _alone(run_id: str, work: Coroutine[Any, Any, None]) -> None:
    """Does something for one run. What is wrong with it, such as nodes that a user has written, is its own problem: all
    others go on."""
    try:
        await work
    except Exception:
        log.exception("pipeline run %s failed to be brought up to date; trying again later", run_id)


def _store_state(connection: Connection, run_id: str, state: State) -> None:
    run = find_run(connection, run_id)
    if run is None or run.state == "CANCELING":
        return
    # A run that ended and runs again was retried with another client.
    set_state(connection, run, state, stopped_by="")
