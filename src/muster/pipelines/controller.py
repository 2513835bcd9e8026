"""Keeps pipeline runs and their Workflows in step.

What a user asks for is stored first: a run to create, to cancel or to delete. Carrying it out may be interrupted at any
point and is repeated. The state of a run follows from its Workflow. What its tasks did is stored when it has ended, so
it can be read after the Workflow and its Pods are gone. A finalizer keeps a Workflow that is deleted, by its TTL or by
a user, until that is stored. The artifacts of a run stay until the run is deleted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from muster.kube import errors as cluster_errors
from muster.kube.budgets import Budgets
from muster.kube.builtin import CONFIG_MAP
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound
from muster.kube.objects import (
    Key,
    Object,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    uid_of,
    version_of,
)
from muster.pipelines.compile import to_workflow
from muster.pipelines.object_stores import CONFIG_MAP as LAUNCHER
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
    find_workflows,
    get_run,
    set_state,
    store_end,
    store_run,
    stored_tasks,
)
from muster.pipelines.spec import PipelineError, parse_pipeline
from muster.pipelines.status import RunStatus, artifact_records, read_status, task_details, task_document
from muster.platform.database.database import Database
from muster.platform.database.leases import Leases
from muster.platform.errors import BadRequestProblem, ConflictProblem
from muster.platform.namespaces import Namespaces
from muster.platform.permissions import Actor
from muster.platform.runs.logs import delete_logs, save_logs
from muster.platform.users.audit import write_audit
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.backend import WorkflowBackend
from muster.workflows.kinds import WORKFLOW
from muster.workflows.model import KEEP_ANNOTATION, PIPELINE_RUN_LABEL
from muster.workflows.operations import control
from muster.workflows.operations.retry import retry as retried

log = logging.getLogger(__name__)

FINALIZER: Final = "pipelines.muster.dev/store-run"
_AGAIN_SECONDS: Final = 5.0
_GONE: Final = "its Workflow was deleted on the cluster"
_LONGEST_PIPELINE: Final = 40


def compile_run(source: RunSource) -> Object:
    """Returns the Workflow of a run. Pure; raises BadRequest if the parameters do not fit."""
    try:
        pipeline = parse_pipeline(dict(source.spec))
    except PipelineError as error:
        raise BadRequestProblem.of("pipelines.spec", detail=str(error)) from None
    try:
        workflow = to_workflow(
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
            annotations={KEEP_ANNOTATION: "true"},
            launcher=source.launcher,
        )
    except PipelineError as error:
        raise BadRequestProblem.of("pipelines.parameters", detail=str(error)) from None
    return {**workflow, "metadata": {**meta(workflow), "finalizers": [FINALIZER]}}


class PipelineController:
    """`run()` runs until it is cancelled."""

    def __init__(
        self,
        database: Database,
        cluster: Cluster,
        folder: Path,
        backend: WorkflowBackend,
        namespaces: Namespaces,
        budgets: Budgets = Budgets(),  # noqa: B008
        leases: Leases | None = None,
        artifacts: ArtifactClient | None = None,
    ) -> None:
        """`folder` keeps logs, and `artifacts` what tasks have stored. `leases` keep several servers from working on
        one run at the same time."""
        self._database = database
        self._cluster = cluster
        self._folder = folder
        self._backend = backend
        self._namespaces = namespaces
        self._log_bytes = budgets.run_log_megabytes << 20
        self._leases = leases or Leases(database)
        self._changed: dict[str, Object | None] = {}
        self._news = asyncio.Event()
        self._artifacts = artifacts
        self._workflows = Informer(cluster, WORKFLOW, labels=PIPELINE_RUN_LABEL, on_change=self._on_change)
        self._deleting: dict[Key, Object] = {}
        """Workflows that are being deleted and may have the finalizer."""
        self._deletion = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when a run has ended: a recurring run may start the next one."""

    async def run(self) -> None:
        async with self._workflows, asyncio.TaskGroup() as group:
            await self._find_lost()
            group.create_task(self._catch_up())
            group.create_task(self._follow())
            group.create_task(self._finalize_deleted())

    async def prepare(self, source: RunSource) -> RunSource:
        """Adds what the namespace says about object stores, before the run is compiled."""
        try:
            found = await self._cluster.get(CONFIG_MAP, LAUNCHER, source.namespace)
        except NotFound:
            return source
        return replace(source, launcher=dict(found.get("data") or {}))

    # What users ask for

    async def create(self, actor: Actor, source: RunSource, workflow: Object) -> PipelineRun:
        """Stores the run, and creates its Workflow. If that fails for a reason that may pass, it is tried again.
        Raises Conflict on a cluster that cannot run pipelines."""
        if not self._backend.runs_pipelines:
            raise ConflictProblem.of("pipelines.cluster")
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
                if is_deleting(workflow):
                    raise NotFound(f'the Workflow "{run.workflow}" is being deleted')
                plan = retried(workflow)
            except NotFound:
                raise BadRequestProblem.of("pipelines.gone") from None
            except BadRequest as error:
                raise BadRequestProblem(str(error)) from None
            await save_logs(
                self._cluster, self._folder, run_id, run.retries, run.namespace, plan.pods_to_delete, self._log_bytes
            )
            try:
                after = await self._backend.retry(workflow, plan)
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
            await self._backend.submit(workflow)
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
                await self._backend.write(workflow, control.terminate(workflow))
            except BadRequest:
                return  # it has ended by itself

    async def _delete(self, run_id: str) -> None:
        async with self._leases.hold(f"run/{run_id}"):
            deleted = await self._database.read(lambda connection: find_runs(connection, deleted=True))
            for run in (each for each in deleted if each.id == run_id):
                with suppress(NotFound):
                    workflow = await self._workflow(run)
                    await self._cluster.delete(WORKFLOW, run.workflow, run.namespace)
                    await self._remove_finalizer(workflow)
                if self._artifacts is not None:
                    await self._artifacts.release(Key(run.namespace, run.workflow))
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
        if labels_of(workflow).get(PIPELINE_RUN_LABEL) != run.id:
            raise NotFound(f'the Workflow "{run.workflow}" is not that of the run')
        return await self._backend.with_nodes(workflow)

    # Following the cluster

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        run_id = labels_of(after or before or {}).get(PIPELINE_RUN_LABEL, "")
        if not run_id:
            return
        if after is not None and is_deleting(after):
            self._deleting[key_of(after)] = after
            self._deletion.set()
        else:
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
            if labels_of(workflow).get(PIPELINE_RUN_LABEL) != run_id:
                return  # a user has made a Workflow of this name
            seen = read_status(workflow, run)
            if seen.state in ENDED:
                # One that has ended differently was retried, and ended again before this was noticed.
                if run.state not in ENDED or (run.state, run.finished) != (seen.state, seen.finished):
                    await self._store_end(run, await self._backend.with_nodes(workflow), seen)
            elif run.state in ENDED or seen.state != run.state:
                await self._database.write(lambda connection: _store_state(connection, run_id, seen.state))

    async def _finalize_deleted(self) -> None:
        """Separate from `_follow`, because logs are copied, which may take a while."""
        while True:
            await self._deletion.wait()
            self._deletion.clear()
            deleting, self._deleting = self._deleting, {}
            for workflow in deleting.values():
                if FINALIZER in (meta(workflow).get("finalizers") or ()):
                    await _alone(labels_of(workflow)[PIPELINE_RUN_LABEL], self._finalize(workflow))

    async def _finalize(self, workflow: Object) -> None:
        """Stores what the run did, and its logs, before its Workflow goes."""
        run_id = labels_of(workflow)[PIPELINE_RUN_LABEL]
        async with self._leases.hold(f"run/{run_id}"):
            run = await self._database.read(lambda connection: find_run(connection, run_id))
            if run is not None and (run.workflow, run.namespace) == (name_of(workflow), namespace_of(workflow)):
                seen = read_status(workflow, run)
                if seen.state not in ENDED:
                    seen = RunStatus("FAILED", _GONE, datetime.now(UTC), seen.version)
                if run.state not in ENDED or (run.state, run.finished) != (seen.state, seen.finished):
                    await self._store_end(run, await self._backend.with_nodes(workflow), seen)
                tasks = await self._database.read(lambda connection: stored_tasks(connection, run_id))
                pods = [pod for task in tasks for pod in task["node"]["attempts"]]
                await save_logs(self._cluster, self._folder, run_id, run.retries, run.namespace, pods, self._log_bytes)
            await self._remove_finalizer(workflow)

    async def _remove_finalizer(self, workflow: Object) -> None:
        """Reads the Workflow again until it has not changed meanwhile: others remove their finalizers, too."""
        while FINALIZER in (meta(workflow).get("finalizers") or ()):
            kept = [name for name in meta(workflow)["finalizers"] if name != FINALIZER]
            change = {"finalizers": kept, "uid": uid_of(workflow), "resourceVersion": version_of(workflow)}
            try:
                await self._cluster.patch(WORKFLOW, name_of(workflow), namespace_of(workflow), {"metadata": change})
                return
            except cluster_errors.Conflict:
                workflow = await self._cluster.get(WORKFLOW, name_of(workflow), namespace_of(workflow))
            except NotFound:
                return

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
        """Looks at all runs that have not ended: their Workflows may have ended or gone while no server was running.
        And releases artifacts that no run refers to."""
        for run in await self._database.read(
            lambda connection: find_runs(connection, states=["PENDING", "RUNNING", "CANCELING"])
        ):
            await _alone(run.id, self._look(run.id))
        for workflow in self._workflows.objects.values():
            if is_deleting(workflow):
                self._on_change(None, workflow)
        if self._artifacts is not None:
            kept = await self._artifacts.kept()
            known = await self._database.read(find_workflows) if kept else set()
            for unknown in set(kept) - known:
                await self._artifacts.release(unknown)

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
