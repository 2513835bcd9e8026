"""The workflow controller: collects outcomes, lets the engine decide, stores the result and acts on it.

A workflow takes one step at a time. What happens during a step waits for the next one, so a busy workflow takes few
large steps rather than many small ones. Nodes are stored before anything is done about them, and every action can be
repeated, so the process may end at any moment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Protocol, TypeAlias

from muster.kube.budgets import Budgets, setting_name
from muster.kube.builtin import CONFIG_MAP
from muster.kube.cluster import StatusRowsCluster
from muster.kube.controller import Controller, FairQueue, Informer
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
)
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    copy_of,
    is_deleting,
    key_of,
    labels_of,
    meta,
    namespace_of,
    status_of,
    timestamp,
    uid_of,
    version_of,
)
from muster.workflows.artifacts.locations import ArtifactError
from muster.workflows.cleanup import needs_finalizer
from muster.workflows.cluster_view import StoreView, store_memos
from muster.workflows.controller_config import controller_config, namespace_limit, with_defaults
from muster.workflows.controller_metrics import ControllerMetrics
from muster.workflows.engine.budget import set_aside
from muster.workflows.engine.run import Run, advance_run
from muster.workflows.engine.synchronization import HeldLocks
from muster.workflows.engine.task_resolver import TaskResolver
from muster.workflows.estimates import Estimates, estimate, newest_of, origins_of, succeeded_origins_of
from muster.workflows.executors.pod_spec import claims_of
from muster.workflows.kinds import WORKFLOW
from muster.workflows.lang.limits import BudgetExceeded
from muster.workflows.metrics import Emitter, MetricRegistry
from muster.workflows.model import (
    COMPLETED_LABEL,
    FINISHED_PHASES,
    PHASE_LABEL,
    Actions,
    EventRecorder,
    Executor,
    Launch,
    Memo,
    Node,
    Outcome,
    ReportOutcome,
    Stop,
    WorkflowEvent,
)
from muster.workflows.node_events import NodeEvent, phase_events
from muster.workflows.step_threads import SharedLockTable, StepThreads

Lookup: TypeAlias = Callable[[str, bool], Object | None]


class Lint(Protocol):
    def __call__(self, obj: Object, lookup: Lookup, *, submitted: bool) -> list[Cause]: ...


_WRITE_PAUSE = 0.1
"""Minimum time between two writes of a workflow's own row that only report progress."""
_WRITE_FRACTION = 20
"""Writing the row of a large workflow is slow, so it may take at most this fraction of the time."""
_FIRST_RETRY, _LAST_RETRY = 0.1, 30.0
_MAX_PARALLELISM = (
    "Workflow processing has been postponed due to max parallelism limit (parallelism in ConfigMap "
    "argo/workflow-controller-configmap)"
)
_MAX_NAMESPACE_PARALLELISM = "Workflow processing has been postponed because too many workflows are already running"
_WORKERS, _PER_NAMESPACE = 16, 4
"""Workflows that are looked at at the same time: in all, and of one namespace."""
_NODE_EVENTS = 25
"""Of one workflow, as with Argo: Kubernetes' recorder drops what exceeds this number for one object."""
_LAUNCHES_AT_ONCE = 20
"""Other tasks of the event loop get their turn after so many launches."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Active:
    """A workflow that has not ended."""

    obj: Object
    """As stored last."""
    run: Run
    stored: dict[str, Node]
    """The nodes as stored last."""
    emitter: Emitter
    needs_reload: bool = False
    """The run's state could not be stored or acted on, so it must be loaded again."""
    problem: str = ""
    """Why the run's state can never be stored: the workflow has to end."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    memos: list[Memo] = field(default_factory=list)
    """Memos not in their cache yet."""
    launching: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    retrying: set[str] = field(default_factory=set)
    """Launches that wait for another attempt."""
    node_events: int = _NODE_EVENTS
    """How many more events of its nodes are recorded."""
    row_outdated: bool = False
    """Nodes were stored since the workflow's own row was."""
    write_at: float = 0.0
    step_at: float = 0.0
    """When the next step is due, in monotonic time. Before, only the workflow's own row may have to be written."""

    def has_stored(self, nodes: Mapping[str, Node]) -> bool:
        """Whether these nodes are the ones this controller stored, unchanged by others."""
        known = self.stored
        return nodes == known


class WorkflowController:
    """Runs workflows.

    `executors` builds the executor for each kind of leaf, given the function to report outcomes to. `lint` validates a
    workflow before it starts. `metrics` collects the workflows' custom metrics. `budgets` limit what a workflow may
    use. `resolver_for` returns the TaskResolver of workflows that are not written in Argo's language alone. `counters`
    are the metrics of this controller. `repository_of` returns the artifact repository that a new workflow is going to
    use, whatever the settings say later.
    """

    def __init__(
        self,
        cluster: StatusRowsCluster,
        recorder: EventRecorder,
        executors: Callable[[ReportOutcome], Mapping[str, Executor]],
        lint: Lint,
        metrics: MetricRegistry | None = None,
        budgets: Budgets | None = None,
        resolver_for: Callable[[Object], TaskResolver | None] = lambda workflow: None,
        counters: ControllerMetrics | None = None,
        repository_of: Callable[[Object], Awaitable[Mapping[str, Any]]] | None = None,
    ) -> None:
        self._cluster = cluster
        self._resolver_for = resolver_for
        self._recorder = recorder
        self._executors = executors(self.report)
        self._lint = lint
        self._metrics = metrics or MetricRegistry()
        self._counters = counters or ControllerMetrics()
        self._repository_of = repository_of
        self._locks = SharedLockTable()
        self._active: dict[Key, _Active] = {}
        self._budgets = budgets or Budgets()
        self._threads = StepThreads(self._budgets, _WORKERS)
        self._starting: set[Key] = set()
        """Workflows that are being loaded."""
        self._problems: dict[str, str] = {}
        """By uid, workflows that have exceeded a budget, until that is stored."""
        self._postponed: dict[str, dict[Key, None]] = defaultdict(dict)
        """Workflows that wait until others of their namespace have ended."""
        queue = FairQueue[Key](lambda key: key.namespace, _PER_NAMESPACE)
        self._queue: Controller[Key] = Controller("workflows", self._reconcile, workers=_WORKERS, queue=queue)
        self._workflows = Informer(
            cluster, WORKFLOW, on_change=self._workflow_changed, indexers={"succeeded": succeeded_origins_of}
        )
        self._limits = Informer(cluster, CONFIG_MAP, on_change=self._limit_changed)
        self._counters.workflows = self._workflows.objects.values
        self._counters.queue = lambda: (self._queue.depth, self._queue.busy)

    async def run(self) -> None:
        """Runs until cancelled. Running Pods continue, and are found again after a restart."""
        try:
            async with asyncio.TaskGroup() as group:
                for executor in self._executors.values():
                    group.create_task(executor.run())
                for informer in (self._limits, self._workflows):
                    group.create_task(informer.run())
                await self._workflows.synced.wait()
                self._restore_locks()
                group.create_task(self._stop_strays())
                await self._queue.run()
        finally:
            self._threads.close()
            for key in list(self._active):
                self._drop(key)

    def report(self, workflow: Key, node: str, outcome: Outcome) -> None:
        active = self._active.get(workflow)
        if active is None:
            return  # the controller asks again when it loads the workflow
        active.outcomes[node] = outcome
        self._request_step(workflow)

    def _request_step(self, key: Key) -> None:
        active = self._active.get(key)
        if active is not None:
            active.step_at = 0.0
        self._queue.enqueue(key)

    async def _reconcile(self, key: Key) -> float | None:
        obj = self._cluster.peek(WORKFLOW, key)
        uid = uid_of(obj) if obj is not None else ""
        began = time.monotonic()
        try:
            if uid not in self._problems:
                return await self._look_at(key)
        except BudgetExceeded as error:
            self._problems[uid] = str(error)
        finally:
            self._counters.observe("operation_duration_seconds", time.monotonic() - began)
        await self._set_aside(key, uid)
        return None

    async def _look_at(self, key: Key) -> float | None:
        obj = self._cluster.peek(WORKFLOW, key)
        active = self._active.get(key)
        if obj is None or is_deleting(obj) or (active is not None and uid_of(active.obj) != uid_of(obj)):
            self._drop(key)
            self._release(key, obj)
            active = None
        if obj is None or is_deleting(obj):
            return None
        if active is None:
            if status_of(obj).get("phase") in FINISHED_PHASES:
                return None
            try:
                active = await self._begin(key, obj)
            finally:
                self._starting.discard(key)
            if active is None:
                return None
        elif active.needs_reload or (version_of(active.obj) != version_of(obj) and not self._adopt_change(active, obj)):
            await self._reload(key, active, obj)
        outcomes, active.outcomes = active.outcomes, {}
        try:
            if active.step_at > time.monotonic():
                await self._store(active, Actions())
                return _seconds_until_due(active)
            return await self._advance(key, active, outcomes)
        except BaseException as error:
            # The workflow changed during the step, or could not be stored: discard the decisions and decide again. Keep
            # the outcomes, because they may not be reported twice, unless they can never be stored.
            active.needs_reload = True
            if isinstance(error, BudgetExceeded):
                raise
            if isinstance(error, TooLarge):
                active.problem = error.message
            else:
                active.outcomes = outcomes | active.outcomes
            if not isinstance(error, Conflict | NotFound | TooLarge):
                raise
            self._request_step(key)
            return None

    def _adopt_change(self, active: _Active, obj: Object) -> bool:
        """Adopts a change made by others. Returns False if it changes nodes; then the run must be loaded again."""
        if not active.has_stored(self._cluster.status_rows(WORKFLOW, uid_of(obj))):
            return False
        active.obj = obj
        active.run.update(obj)
        active.step_at = 0.0
        return True

    async def _begin(self, key: Key, obj: Object) -> _Active | None:
        nodes: dict[str, Node] = self._cluster.status_rows(WORKFLOW, uid_of(obj))
        if not nodes and await self._postpone(key, obj):
            return None
        if not nodes and not status_of(obj).get("startedAt"):
            obj = await self._apply_defaults(obj)
        view = self._view(obj)
        if not status_of(obj).get("phase"):
            lint = partial(
                self._lint,
                obj,
                lambda name, cluster_scope: view.template(name, cluster_scope=cluster_scope),
                submitted=True,
            )
            causes = await self._threads.run(uid_of(obj), lint)
            if causes:
                await self._reject(obj, causes)
                self._release(key, obj)
                return None
        run = await self._load(obj, nodes)
        if not nodes and not status_of(obj).get("startedAt"):
            run.status_builder.set(**await self._artifact_status(obj))
        estimates = self._estimates(obj)
        run.tree.estimates = estimates.nodes
        if estimates.workflow and not status_of(obj).get("estimatedDuration"):
            run.status_builder.set(estimatedDuration=estimates.workflow)
        problem = await self._claim_volumes(obj, run)
        if problem:
            run.problem = "Error", problem
            self._recorder.event(obj, "Normal", "WorkflowRunning", "Workflow Running")  # as far as Argo gets
        active = self._active[key] = _Active(obj, run, nodes, Emitter(self._metrics, run), needs_reload=True)
        await self._sync_leaves(key, active)
        return active

    async def _load(self, obj: Object, nodes: dict[str, Node]) -> Run:
        """Raises BudgetExceeded."""

        def load() -> Run:
            return Run.load(obj, nodes, self._view(obj), self._budgets, self._resolver_for(obj))

        return await self._threads.run(uid_of(obj), load)

    def _estimates(self, obj: Object) -> Estimates:
        for origin in origins_of(obj):
            baseline = newest_of(self._workflows.by("succeeded", origin))
            if baseline is not None:
                return estimate(baseline, self._cluster.status_rows(WORKFLOW, uid_of(baseline)))
        return Estimates()

    async def _artifact_status(self, obj: Object) -> dict[str, Any]:
        """Returns what the status says of artifacts from the start."""
        if self._repository_of is None:
            return {}
        gc = {} if needs_finalizer(obj) else {"notSpecified": True}
        try:
            return {"artifactRepositoryRef": await self._repository_of(obj), "artifactGCStatus": gc}
        except ArtifactError:  # whatever needs the repository fails with the reason
            return {"artifactGCStatus": gc}

    async def _apply_defaults(self, obj: Object) -> Object:
        """Adds what the settings of the controller say for all workflows."""
        defaults = controller_config(self._cluster).workflow_defaults
        wanted = with_defaults(obj, defaults) if defaults else obj
        return obj if wanted is obj else await self._cluster.update(wanted)

    async def _postpone(self, key: Key, obj: Object) -> bool:
        """Whether a workflow has to wait until others have ended: there are too many in all, or in its restricted
        namespace. Its status says so."""
        limit = controller_config(self._cluster).parallelism
        if limit and len({*self._active, *self._starting} - {key}) >= limit:
            self._postponed[key.namespace][key] = None
            await self._say_pending(obj, _MAX_PARALLELISM)
            return True
        running = sum(other.namespace == key.namespace for other in {*self._active, *self._starting} - {key})
        limit = namespace_limit(self._cluster, key.namespace)
        if limit and running >= limit:
            self._postponed[key.namespace][key] = None
            await self._say_pending(obj, _MAX_NAMESPACE_PARALLELISM)
            return True
        most = self._budgets.member_running_workflows
        if running < most or not self._view(obj).restricted:
            self._starting.add(key)
            return False
        self._postponed[key.namespace][key] = None
        setting = setting_name("member_running_workflows")
        message = (
            f"Workflow processing has been postponed because too many workflows are already running: at most {most} of "
            f"a namespace run at the same time ({setting} in config.yaml)"
        )
        await self._say_pending(obj, message)
        return True

    async def _say_pending(self, obj: Object, message: str) -> None:
        status = status_of(obj)
        if status.get("message") != message:
            await self._cluster.update({**obj, "status": {**status, "phase": "Pending", "message": message}})

    async def _set_aside(self, key: Key, uid: str) -> None:
        """Ends a workflow that has exceeded a budget, as it was stored last."""
        self._drop(key)
        obj = self._cluster.peek(WORKFLOW, key)
        if obj is not None and uid_of(obj) == uid and status_of(obj).get("phase") not in FINISHED_PHASES:
            nodes: dict[str, Node] = self._cluster.status_rows(WORKFLOW, uid)
            status = set_aside(obj, nodes, self._problems[uid], datetime.now(UTC))
            for executor in self._executors.values():
                await executor.stop_others(obj, ())
            await self._cluster.update(_with_status(obj, status))
            self._recorder.event(obj, "Warning", "WorkflowFailed", str(status["message"]))
        del self._problems[uid]
        self._threads.forget(uid)
        self._release(key, obj)

    async def _claim_volumes(self, obj: Object, run: Run) -> str:
        """Creates the volume claims of the workflow. Returns why one cannot be created, or ''."""
        for claim in claims_of(obj, run.final_spec):
            try:
                await self._cluster.create(claim)
            except AlreadyExists:
                continue
            except (Invalid, BadRequest, Forbidden) as error:
                return f"pvc create error: {error.message}"
        return ""

    async def _reload(self, key: Key, active: _Active, obj: Object) -> None:
        """Loads the run again. Running nodes and launches in progress continue; only the decisions are read again."""
        nodes: dict[str, Node] = self._cluster.status_rows(WORKFLOW, uid_of(obj))
        active.obj, active.stored, active.step_at = obj, nodes, 0.0
        before, active.run = active.run, await self._load(obj, nodes)
        active.run.tree.estimates = before.tree.estimates
        self._threads.dispose(before)
        if active.problem:
            active.run.problem = "Error", active.problem
        for node in active.launching.keys() - active.run.unfinished():
            active.launching.pop(node).cancel()
        await self._sync_leaves(key, active)

    async def _sync_leaves(self, key: Key, active: _Active) -> None:
        """Makes sure that what the nodes say is running runs, and that nothing else does."""
        run = active.run
        unfinished = run.unfinished()
        missing = [node for node in unfinished if node not in active.launching]
        if missing:
            launches = await self._threads.run(uid_of(active.obj), lambda: [run.launch(node) for node in missing])
            for number, launch in enumerate(launches, 1):
                node = str(launch.node["id"])
                self._launch(key, active, launch, begun=run.nodes[node].get("phase") != "Pending")
                if not number % _LAUNCHES_AT_ONCE:
                    await asyncio.sleep(0)
        if run.nodes:
            for executor in self._executors.values():
                await executor.stop_others(active.obj, unfinished)
        active.needs_reload = False

    async def _reject(self, obj: Object, causes: Sequence[Cause]) -> None:
        message = "invalid spec: " + "; ".join(f"{c.field}: {c.message}" if c.field else c.message for c in causes)
        now = timestamp()
        status = {**status_of(obj), "phase": "Failed", "message": message, "startedAt": now, "finishedAt": now}
        self._recorder.event(obj, "Warning", "WorkflowFailed", message)
        await self._cluster.update(_with_status(obj, status))

    async def _advance(self, key: Key, active: _Active, outcomes: Mapping[str, Outcome]) -> float | None:
        uid, view = uid_of(active.obj), self._view(active.obj)
        active.step_at = inf
        self._count_pods(active, outcomes)
        actions = await self._threads.run(uid, lambda: advance_run(active.run, outcomes, view))
        active.memos += actions.remember
        events = list(islice(phase_events(active.run.nodes, active.stored, actions.changed), active.node_events))
        await self._store(active, actions)
        ended = [node for node, outcome in outcomes.items() if outcome.phase in FINISHED_PHASES]
        for executor in self._executors.values() if ended else ():
            executor.recorded(active.obj, ended)
        self._record_events(active, events, actions.news)
        if active.emitter.has_metrics(active.run):
            emit = partial(active.emitter.emit, active.obj, active.run, actions.changed, datetime.now(UTC))
            for problem in await self._threads.run(uid, emit):
                self._recorder.event(active.obj, "Warning", "MetricsError", problem)
        for number, launch in enumerate(actions.launch, 1):
            self._launch(key, active, launch, begun=False)
            if not number % _LAUNCHES_AT_ONCE:
                await asyncio.sleep(0)
        if actions.stop:
            await asyncio.gather(*(self._stop(key, active, stop) for stop in actions.stop))
        if active.run.finished:
            self._drop(key)
            self._release(key, active.obj)
            return None
        self._wake_waiting()
        if actions.wake is not None:
            wake_at = time.monotonic() + (actions.wake - datetime.now(UTC)).total_seconds()
            active.step_at = min(active.step_at, wake_at)
        return _seconds_until_due(active)

    def _record_events(self, active: _Active, nodes: Sequence[NodeEvent], news: Sequence[WorkflowEvent]) -> None:
        """Those of nodes are between the start and the end of the workflow."""
        begins = [event for event in news if event.reason == "WorkflowRunning"]
        for severity, reason, message in begins:
            self._recorder.event(active.obj, severity, reason, message)
        if nodes and controller_config(self._cluster).node_events:
            active.node_events -= len(nodes)
            for event in nodes:
                self._recorder.event(active.obj, event.severity, event.reason, event.message, event.annotations)
        for severity, reason, message in (event for event in news if event not in begins):
            self._recorder.event(active.obj, severity, reason, message)

    def _count_pods(self, active: _Active, outcomes: Mapping[str, Outcome]) -> None:
        namespace = namespace_of(active.obj)
        for name, outcome in outcomes.items():
            node = active.run.nodes.get(name) or Node()
            if node.get("type") == "Pod":
                is_news = node.get("message") != outcome.message
                before = str(node.get("phase") or "")
                self._counters.pod_changed(namespace, before, outcome.phase, outcome.message, is_news=is_news)

    async def _store(self, active: _Active, actions: Actions) -> None:
        """Stores nodes at once; the workflow's own row, which watchers see, and caches as often as is reasonable."""
        run = active.run
        changed = {name: run.nodes[name] for name in actions.changed}
        active.row_outdated = active.row_outdated or bool(changed) or actions.status is not None
        begun = time.monotonic()
        is_due = run.finished or begun >= active.write_at or _must_be_visible(active.obj, run.status)
        if not active.row_outdated or not (changed or is_due):
            return
        if is_due and not run.finished:
            changed |= {name: run.nodes[name] for name in run.refresh_progress()}
        if is_due and active.memos:
            await self._store_memos(active)
        await self._write(active, changed, with_row=is_due)
        if is_due:
            active.row_outdated = False
            now = time.monotonic()
            active.write_at = now + max(_WRITE_PAUSE, _WRITE_FRACTION * (now - begun))

    async def _write(self, active: _Active, changed: dict[str, Node], *, with_row: bool) -> None:
        """Changes of others to anything but nodes do not undo the step. Raises Conflict if they changed nodes, NotFound
        if the workflow is gone."""

        def updated(obj: Object) -> Object:
            return _with_status(obj, active.run.status, active.run.metadata)

        def rebase(obj: Object, nodes: dict[str, Node]) -> Object | None:
            if not active.has_stored(nodes):
                return None
            active.run.update(obj)
            return updated(obj) if with_row else obj

        update = updated(active.obj) if with_row else None
        active.obj = await self._cluster.write_status_rows(WORKFLOW, active.obj, changed, update=update, rebase=rebase)
        active.stored.update(changed)

    async def _store_memos(self, active: _Active) -> None:
        """A failed cache write is not an error: the result is computed again next time."""
        memos, active.memos = active.memos, []
        try:
            await store_memos(self._cluster, namespace_of(active.obj), memos, datetime.now(UTC))
        except ApiError as error:
            self._recorder.event(active.obj, "Warning", "WorkflowMemoizationFailed", error.message)

    def _launch(self, key: Key, active: _Active, launch: Launch, *, begun: bool) -> None:
        """Launches in the background, because input artifacts may take a while."""
        node = launch.node["id"]
        task = asyncio.create_task(self._launch_with_retries(active, launch, begun), name=f"launch {key} {node}")
        active.launching[node] = task
        task.add_done_callback(lambda _: _forget(active.launching, node, task))

    async def _launch_with_retries(self, active: _Active, launch: Launch, begun: bool) -> None:
        pause = _FIRST_RETRY
        executor = self._executors[launch.kind]
        while True:
            try:
                await executor.launch(active.obj, active.run.final_spec, launch, begun=begun)
                return
            except (ApiError, OSError) as error:
                message = f"{launch.node['name']} could not be started and will be retried: {error}"
                self._recorder.event(active.obj, "Warning", "WorkflowNodeRetry", message)
                log.warning("%s: %s", key_of(active.obj), message)
            except Exception as error:
                log.exception("%s: launching %s failed", key_of(active.obj), launch.node["name"])
                outcome = Outcome("Error", f"could not be started: {type(error).__name__}: {error}")
                self.report(key_of(active.obj), launch.node["id"], outcome)
                return
            active.retrying.add(launch.node["id"])
            await asyncio.sleep(pause)
            active.retrying.discard(launch.node["id"])
            pause = min(2 * pause, _LAST_RETRY)

    async def _stop(self, key: Key, active: _Active, stop: Stop) -> None:
        if stop.node in active.retrying:
            active.retrying.discard(stop.node)
            active.launching[stop.node].cancel()
            self.report(key, stop.node, Outcome("Failed", "stopped before it started", finished=timestamp()))
            return
        launch = active.run.launch(stop.node)
        await self._executors[launch.kind].stop(active.obj, launch.node, force=stop.force)

    def _drop(self, key: Key) -> None:
        """Forgets a workflow, for good or until it is reconciled again."""
        active = self._active.pop(key, None)
        if active is not None:
            for task in list(active.launching.values()):
                task.cancel()
            self._threads.dispose(active.run)

    def _release(self, key: Key, obj: Object | None) -> None:
        """The workflow has ended: release its locks and its place, for which others may be waiting."""
        if obj is not None:
            self._threads.forget(uid_of(obj))
        self._locks.forget(str(key))
        self._wake_waiting()
        for namespace, waiting in list(self._postponed.items()):
            waiting.pop(key, None)
            if waiting:
                first = next(iter(waiting))
                del waiting[first]
                self._request_step(first)
            if not waiting:
                del self._postponed[namespace]

    def _wake_waiting(self) -> None:
        for workflow in self._locks.waiting_for_turn():
            self._request_step(Key(*workflow.split("/", 1)))

    def _restore_locks(self) -> None:
        """Restores locks before any is requested: what held a lock when the server stopped still holds it."""
        for obj in self._workflows.objects.values():
            if status_of(obj).get("phase") not in FINISHED_PHASES:
                for lock, holders in HeldLocks(status_of(obj).get("synchronization")).holding.items():
                    self._locks.restore(lock, holders)

    async def _stop_strays(self) -> None:
        """Ends what still runs of workflows that ended shortly before the server stopped."""
        for obj in list(self._workflows.objects.values()):
            if status_of(obj).get("phase") in FINISHED_PHASES:
                for executor in self._executors.values():
                    await executor.stop_others(obj, ())

    def _view(self, obj: Object) -> StoreView:
        return StoreView(self._cluster, namespace_of(obj), self._locks)

    def _workflow_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            self._request_step(key_of(before or {}))
        else:
            if self._workflows.synced.is_set():
                self._counters.workflow_changed(before, after, datetime.now(UTC))
            # The writer learns the version of its own write in the same turn of the loop as its watchers, after them.
            asyncio.get_running_loop().call_soon(self._enqueue_if_new, key_of(after), version_of(after))

    def _enqueue_if_new(self, key: Key, version: str) -> None:
        """The controller's own writes need no step."""
        active = self._active.get(key)
        if active is None or active.needs_reload or version_of(active.obj) != version:
            self._request_step(key)

    def _limit_changed(self, before: Object | None, after: Object | None) -> None:
        """The limit of a semaphore may have been raised."""
        for key, active in self._active.items():
            if active.run.status.get("synchronization"):
                self._request_step(key)


def _seconds_until_due(active: _Active) -> float | None:
    """Seconds until the next step or write of a workflow, or None if it waits for something to happen."""
    due = min(active.step_at, active.write_at if active.row_outdated else inf)
    return None if due == inf else max(0.0, due - time.monotonic())


def _must_be_visible(obj: Object, status: Mapping[str, Any]) -> bool:
    """Whether the status must be visible before it is acted on: that the workflow has started, or which locks it
    holds."""
    return any(status_of(obj).get(field) != status.get(field) for field in ("phase", "synchronization"))


def _forget(tasks: dict[str, asyncio.Task[None]], node: str, task: asyncio.Task[None]) -> None:
    if tasks.get(node) is task:
        del tasks[node]


def _with_status(obj: Object, status: Mapping[str, Any], wanted: Mapping[str, Any] | None = None) -> Object:
    """Returns the workflow with its new status, its labels, and the metadata from `workflowMetadata`."""
    phase = str(status.get("phase") or "")
    wanted = wanted or {}
    found = {PHASE_LABEL: phase, COMPLETED_LABEL: str(phase in FINISHED_PHASES).lower()}
    metadata = {**meta(obj), "labels": {**labels_of(obj), **(wanted.get("labels") or {}), **found}}
    if wanted.get("annotations"):
        metadata["annotations"] = {**annotations_of(obj), **wanted["annotations"]}
    return {**obj, "metadata": metadata, "status": copy_of(dict(status))}
