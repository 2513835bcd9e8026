"""Keeps runs and their Workflows in sync.

It creates the Workflows of new runs, stops and deletes them on request, and stores their status. A request is in the
database before it is executed, so the process may stop at any moment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, delete, insert, update
from sqlalchemy.exc import DBAPIError

from muster.kube import errors as cluster_errors
from muster.kube.budgets import Budgets
from muster.kube.builtin import SECRET
from muster.kube.cluster import Cluster
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound, lacks_permission
from muster.kube.objects import Key, Object, labels_of, name_of, namespace_of, version_of
from muster.kube.pod_security import RUN_LABEL
from muster.platform.database.database import Database
from muster.platform.database.leases import LeaseLost, Leases
from muster.platform.database.tables import now, run_removals, runs
from muster.platform.errors import ConflictProblem
from muster.platform.namespaces import Namespaces
from muster.platform.permissions import Actor
from muster.platform.records.runs import Run, RunState, run_object_name
from muster.platform.runs.create import PreparedRun, RunRequest, close_request, find_requests, store_run
from muster.platform.runs.logs import LogSource, delete_logs, save_logs
from muster.platform.runs.runs import (
    StoredRun,
    find_namespace,
    find_removal,
    find_removals,
    find_run,
    find_stopping,
    find_unfinished,
    get_run,
    store_end,
    store_status,
    stored_versions,
)
from muster.platform.runs.status import (
    ENDED,
    Masks,
    RunStatus,
    has_messages,
    map_messages,
    read_status,
    while_unread,
    with_token,
)
from muster.platform.users.audit import write_audit
from muster.platform.users.tokens import issue_run_token, revoke_run_tokens
from muster.workflows.backend import WorkflowBackend, lacks_nodes
from muster.workflows.kinds import WORKFLOW
from muster.workflows.operations import control
from muster.workflows.operations.retry import retry as retried

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 5.0
_TIDY_SECONDS = 1800.0
_MOST_REMEMBERED = 100_000
_GONE = "its Workflow was deleted on the cluster"


class RunController:
    """`run()` runs until it is cancelled. `tell` is called for every run whose stored status changed."""

    def __init__(
        self,
        database: Database,
        cluster: Cluster,
        folder: Path,
        tell: Callable[[StoredRun], None],
        backend: WorkflowBackend,
        namespaces: Namespaces,
        budgets: Budgets = Budgets(),  # noqa: B008
        leases: Leases | None = None,
    ) -> None:
        """`leases` keep several servers from working on one run at the same time."""
        self._log_bytes = budgets.run_log_megabytes << 20
        self._database = database
        self._cluster = cluster
        self._folder = folder
        self._tell = tell
        self._backend = backend
        self._namespaces = namespaces
        self._leases = leases or Leases(database)
        self._changed: dict[tuple[str, str], Object | None] = {}
        """By namespace and run."""
        self._namespaces_of_runs: dict[str, str] = {}
        self._unread: dict[str, tuple[float, Object]] = {}
        """Workflows of ended runs whose nodes could not be read, by run, and since when."""
        self._news = asyncio.Event()
        self._last: dict[str, RunStatus] = {}
        self._versions: dict[str, str] = {}

    async def run(self) -> None:
        self._changed, self._last, self._unread = {}, {}, {}  # another server may have worked in between
        self._versions = await self._database.read(stored_versions)
        labels = RUN_LABEL
        async with (
            Informer(self._cluster, WORKFLOW, labels=labels, on_change=self._on_change) as informer,
            asyncio.TaskGroup() as group,
        ):
            await self._find_lost(informer)
            group.create_task(self._catch_up())
            group.create_task(self._write_down())

    async def workflow(self, run_id: str) -> Object:
        """Returns the Workflow with its nodes. Raises the cluster's NotFound."""
        namespace = await self.namespace(run_id)
        return await self._backend.with_nodes(await self._cluster.get(WORKFLOW, run_object_name(run_id), namespace))

    def complete_log_source(self, run_id: str, round: int, source: LogSource, *, is_current: bool) -> LogSource:
        """Adds what the backend knows about the log of an attempt. `is_current`: whether its Pod has not been replaced
        by that of a later attempt."""
        source = source._replace(has_executor_lines=self._backend.has_executor_lines)
        if source.container != "main" or not self._backend.archives_logs:
            return source
        metadata = {"name": run_object_name(run_id), "namespace": source.namespace}
        workflow = {"apiVersion": WORKFLOW.api_version, "kind": WORKFLOW.kind, "metadata": metadata}
        read = partial(self._backend.archived_log, workflow, round, source.pod)
        return source._replace(pod=source.pod if is_current else "", read_archived=read)

    async def masks(self, run_id: str) -> Masks:
        try:
            return Masks.of(await self._cluster.get(SECRET, run_object_name(run_id), await self.namespace(run_id)))
        except NotFound:
            return Masks()

    async def namespace(self, run_id: str) -> str:
        """Returns the namespace of a run. Raises the cluster's NotFound."""
        found = self._namespaces_of_runs.get(run_id)
        if found is None:
            found = await self._database.read(lambda connection: find_namespace(connection, run_id))
            if found is None:
                raise NotFound(f'the run "{run_id}" does not exist')
            self._remember_namespace(run_id, found)
        return found

    def _remember_namespace(self, run_id: str, namespace: str) -> None:
        if len(self._namespaces_of_runs) >= _MOST_REMEMBERED:
            self._namespaces_of_runs.clear()
        self._namespaces_of_runs[run_id] = namespace

    async def create(self, actor: Actor, made: PreparedRun) -> Run:
        """Stores a new run, and creates its Workflow. If that fails, it is tried again: the run is stored."""

        def store(connection: Connection) -> tuple[Run, str]:
            run = store_run(connection, actor, made)
            return run, issue_run_token(connection, run.owner_id, run.id)

        async with self._leases.hold_new(f"run/{made.id}", store) as ((run, token), lease):
            self._remember_namespace(run.id, made.namespace)

            def close(connection: Connection) -> Run:
                close_request(connection, run.id)
                return get_run(connection, actor, run.id)

            try:
                try:
                    await self._submit(RunRequest(run.id, made.workflow_object, made.secret), token)
                except ApiError as error:
                    await self._note_refusal(run.id, error)
                    return await self._database.read(lambda connection: get_run(connection, actor, run.id))
                return await self._leases.write_last(lease, close)
            except (DBAPIError, LeaseLost) as error:
                # A client that is refused now would create it again.
                log.warning("run %s is stored, and starts later: %s", run.id, error)
                return run

    async def begin(self, run_id: str) -> None:
        """Creates the Workflow of a stored run. If that fails, it is tried again."""
        async with self._leases.hold(f"run/{run_id}"):
            for order in await self._database.read(lambda connection: find_requests(connection, run_id)):
                try:
                    await self._carry_out(order)
                except ApiError as error:
                    await self._note_refusal(run_id, error)

    async def _note_refusal(self, run_id: str, error: ApiError) -> None:
        """Ends the run if trying again does not help."""
        if is_final(error):
            await self._end(run_id, "failed", f"the cluster refused it: {error}")
        else:
            _log_delay(run_id, error)

    async def stop(self, actor: Actor, run_id: str) -> Run:
        """Stops the run: no node starts any more, and running nodes are stopped."""

        def ask(connection: Connection) -> Run:
            run = get_run(connection, actor, run_id, "stop")
            if run.state in ENDED:
                raise ConflictProblem.of("run.ended", how=_ended(run))
            if run.stopping is None:
                values = {"stopping": now(), "stopped_by": actor.name, "revision": run.revision + 1}
                connection.execute(update(runs).where(runs.c.id == run.id).values(**values))
                write_audit(connection, actor, "stop", "run", run.id, run.name)
            return get_run(connection, actor, run_id)

        run = await self._database.write(ask)
        await self._try(self._stop, run_id)
        return await self._database.read(lambda connection: find_run(connection, run_id)) or run

    async def retry(self, actor: Actor, run_id: str) -> Run:
        """Retries the run. Nodes that succeeded are not repeated."""
        async with self._leases.hold(f"run/{run_id}"):
            run = await self._database.read(lambda connection: get_run(connection, actor, run_id, "retry"))
            if run.state not in ("failed", "stopped"):
                raise ConflictProblem.of("run.retry", how=_is(run))
            try:
                workflow = await self.workflow(run_id)
                if lacks_nodes(workflow):
                    raise ConflictProblem.of("run.nodes-unread")
                plan = retried(workflow)
            except NotFound:
                raise ConflictProblem.of("run.gone") from None
            except BadRequest as error:
                # An earlier retry was interrupted before its status was stored: store it now.
                await self._record_now(run_id, workflow)
                raise ConflictProblem.of("run.retry-now", detail=str(error)) from None
            if not self._backend.archives_logs:
                pods = plan.pods_to_delete
                await save_logs(self._cluster, self._folder, run_id, run.retries, run.namespace, pods, self._log_bytes)

            def ask(connection: Connection) -> str:
                get_run(connection, actor, run_id, "retry")
                values = {"stopping": None, "stopped_by": "", "revision": run.revision + 1}
                connection.execute(update(runs).where(runs.c.id == run_id).values(**values))
                write_audit(connection, actor, "retry", "run", run.id, run.name)
                return _new_token(connection, run)

            token = await self._database.write(ask)
            secret = await self._cluster.get(SECRET, run_object_name(run_id), run.namespace)
            data = {"data": with_token(secret, token)["data"]}
            await self._cluster.patch(SECRET, run_object_name(run_id), run.namespace, data)
            try:
                after = await self._backend.retry(workflow, plan)
            except cluster_errors.Conflict:
                raise ConflictProblem.of("run.changed") from None
            # The watch may have been faster; then there is nothing left to store.
            told = await self._record_now(run_id, after)
            return told or await self._database.read(lambda connection: find_run(connection, run_id)) or run

    async def delete(self, actor: Actor, run_id: str) -> None:
        """Deletes the run and everything that belongs to it. A running run is stopped first."""

        def ask(connection: Connection) -> None:
            run = get_run(connection, actor, run_id, "delete")
            connection.execute(insert(run_removals).values(run_id=run.id, namespace=run.namespace, created=now()))
            connection.execute(delete(runs).where(runs.c.id == run.id))
            revoke_run_tokens(connection, run.id)
            write_audit(connection, actor, "delete", "run", run.id, run.name)

        await self._database.write(ask)
        await self._try(self._delete, run_id)

    async def _carry_out(self, order: RunRequest) -> None:
        """Creates the Workflow. If it exists already, an earlier attempt was interrupted before it closed the
        request."""
        try:
            await self._cluster.get(WORKFLOW, name_of(order.workflow), namespace_of(order.workflow))
        except NotFound:

            def token_for(connection: Connection) -> str:
                run = find_run(connection, order.run_id)
                return "" if run is None or run.stopping is not None else _new_token(connection, run)

            token = await self._database.write(token_for)
            if not token:
                await self._end(order.run_id, "stopped")
                return
            await self._submit(order, token)
        await self._database.write(lambda connection: close_request(connection, order.run_id))

    async def _submit(self, order: RunRequest, token: str) -> None:
        await self._namespaces.ensure(namespace_of(order.workflow))
        await self._put_secret(with_token(order.secret, token))
        await self._backend.submit(order.workflow)

    async def _put_secret(self, secret: Object) -> None:
        try:
            await self._cluster.create(secret)
        except AlreadyExists:
            await self._cluster.patch(SECRET, name_of(secret), namespace_of(secret), {"data": secret["data"]})

    async def _try(self, act: Callable[[str], Awaitable[None]], run_id: str) -> None:
        """Does what the database says is wanted. If the cluster does not let it now, `_catch_up` tries again: neither
        the request that asked for it nor the other runs fail."""
        try:
            await act(run_id)
        except ApiError as error:
            _log_delay(run_id, error)

    async def _stop(self, run_id: str) -> None:
        async with self._leases.hold(f"run/{run_id}"):
            orders = await self._database.read(lambda connection: find_requests(connection, run_id))
            try:
                workflow = await self.workflow(run_id)
            except NotFound:
                if orders:
                    await self._end(run_id, "stopped")
                return
            try:
                after = await self._backend.write(workflow, control.stop(workflow))
            except BadRequest:
                return  # it has ended by itself
            await self._record_now(run_id, after)

    async def _delete(self, run_id: str) -> None:
        async with self._leases.hold(f"run/{run_id}"):
            namespace = await self._database.read(lambda connection: find_removal(connection, run_id))
            if namespace is None:
                return  # it is done
            for kind in (WORKFLOW, SECRET):
                try:
                    await self._cluster.delete(kind, run_object_name(run_id), namespace)
                except NotFound:
                    continue
            await asyncio.to_thread(delete_logs, self._folder, run_id)
            done = delete(run_removals).where(run_removals.c.run_id == run_id)
            await self._database.write(lambda connection: connection.execute(done))
            self._last.pop(run_id, None)

    async def _end(self, run_id: str, state: RunState, message: str = "") -> None:
        ended = await self._database.write(lambda connection: store_end(connection, run_id, state, message))
        if ended is not None:
            self._tell(ended)

    async def _record_now(self, run_id: str, workflow: Object) -> Run | None:
        """Stores the status at once, so that the caller sees the result."""
        self._last.pop(run_id, None)  # what the watch reports next is compared with what is stored
        told = await self._record({run_id: await self._masked(run_id, await self._read(run_id, workflow))})
        return told[0].run if told else None

    async def _read(self, run_id: str, workflow: Object) -> RunStatus:
        found = read_status(await self._backend.with_nodes(workflow))
        if found.has_nodes or found.state not in ENDED or not self._backend.reads_nodes_elsewhere:
            self._unread.pop(run_id, None)
            return found
        since, _ = self._unread.get(run_id, (time.monotonic(), workflow))
        shown = while_unread(found, time.monotonic() - since)
        if shown.state in ENDED:
            log.warning("run %s: it is stored without the states of its nodes, which cannot be read", run_id)
            self._unread.pop(run_id, None)
        else:
            self._unread[run_id] = (since, workflow)
        return shown

    def _read_again(self) -> None:
        """Reads the nodes again that could not be read. What has changed meanwhile is newer."""
        for run_id, (_, workflow) in self._unread.items():
            self._changed.setdefault((namespace_of(workflow), run_id), workflow)
            self._news.set()

    async def _record(self, found: dict[str, RunStatus]) -> list[StoredRun]:
        told = await self._database.write(lambda connection: store_status(connection, found))
        for each in told:
            self._tell(each)
        return told

    async def _find_lost(self, informer: Informer) -> None:
        """Ends runs whose Workflows were deleted while no server was running."""
        for run_id, namespace in await self._database.read(find_unfinished):
            if Key(namespace, run_object_name(run_id)) not in informer.objects:
                await self._lost(run_id)

    async def _lost(self, run_id: str) -> None:
        try:
            await self._cluster.get(WORKFLOW, run_object_name(run_id), await self.namespace(run_id))
        except NotFound:
            _, unread = self._unread.pop(run_id, (0.0, None))
            if unread is None:
                await self._end(run_id, "failed", _GONE)
            else:  # it has ended before; only its nodes were missing
                await self._record({run_id: await self._masked(run_id, read_status(unread))})

    async def _catch_up(self) -> None:
        """Executes open requests: the process stopped before, or the cluster did not respond."""
        tidied = time.monotonic()
        while True:
            if time.monotonic() - tidied > _TIDY_SECONDS:
                await self._database.tidy()
                tidied = time.monotonic()
            for order in await self._database.read(find_requests):
                await self.begin(order.run_id)
            for run_id in await self._database.read(find_stopping):
                await self._try(self._stop, run_id)
            for run_id in await self._database.read(find_removals):
                await self._try(self._delete, run_id)
            self._read_again()
            await asyncio.sleep(_AGAIN_SECONDS)

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        workflow = after or before or {}
        run_id = labels_of(workflow).get(RUN_LABEL, "")
        if name_of(workflow) != run_object_name(run_id):
            return  # a user has put the label on another Workflow
        if after is not None and self._versions.get(run_id) == version_of(after):
            return
        self._changed[namespace_of(workflow), run_id] = after
        self._news.set()

    async def _write_down(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            changed = await self._own(self._changed)
            for run_id in [run_id for run_id, workflow in changed.items() if workflow is None]:
                del changed[run_id]
                await self._lost(run_id)
            present = {run_id: workflow for run_id, workflow in changed.items() if workflow}
            # At the same time: each may wait for the Argo server.
            read = await asyncio.gather(*(self._read(run_id, workflow) for run_id, workflow in present.items()))
            found = dict(zip(present, read, strict=True))
            new = {run_id: each for run_id, each in found.items() if not is_stored(self._last.get(run_id), each)}
            masked = {run_id: await self._masked(run_id, each) for run_id, each in new.items()}
            if not masked:
                continue
            await self._record(masked)
            for run_id, each in new.items():
                if each.state in ENDED:
                    self._last.pop(run_id, None)
                    self._versions[run_id] = each.version
                else:
                    self._last[run_id] = each

    async def _own(self, changed: dict[tuple[str, str], Object | None]) -> dict[str, Object | None]:
        """Takes the changes, by run. A Workflow with the name and label of a run in another namespace is not the
        run's."""
        self._changed = {}
        found = {}
        for (namespace, run_id), workflow in changed.items():
            try:
                if await self.namespace(run_id) == namespace:
                    found[run_id] = workflow
            except NotFound:
                continue
        return found

    async def _masked(self, run_id: str, found: RunStatus) -> RunStatus:
        """Masks secrets in messages, which all users can see."""
        return map_messages(found, (await self.masks(run_id)).text) if has_messages(found) else found


def _log_delay(run_id: str, error: ApiError) -> None:
    log.warning("run %s: %s; trying again in %.0f s", run_id, error, _AGAIN_SECONDS)


def is_stored(before: RunStatus | None, after: RunStatus) -> bool:
    """Whether there is nothing new to store: Argo also writes what only Argo reads. The end of a run is stored with its
    version, by which a restarted server knows that it has seen it."""
    return before is not None and after.state not in ENDED and replace(before, version=after.version) == after


def is_final(error: ApiError) -> bool:
    """Whether the cluster refuses the objects of a run, so that trying again does not help."""
    return isinstance(error, (BadRequest, Invalid, Forbidden)) and not lacks_permission(error)


def _new_token(connection: Connection, run: Run) -> str:
    revoke_run_tokens(connection, run.id)
    return issue_run_token(connection, run.owner_id, run.id)


def _ended(run: Run) -> str:
    return "been stopped" if run.state == "stopped" else run.state


def _is(run: Run) -> str:
    return "has succeeded" if run.state == "succeeded" else f"is {run.state}"
