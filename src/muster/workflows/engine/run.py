"""A workflow while it runs: its nodes, its status, and everything needed to continue it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from muster.kube.budgets import Budgets
from muster.kube.objects import Object, name_of, namespace_of, spec_of, status_of, uid_of
from muster.workflows.engine import node_tree
from muster.workflows.engine.budget import ITEMS_PER_STEP, NODES_PER_STEP, TEXT_PER_STEP, NodeBudget
from muster.workflows.engine.call import Call
from muster.workflows.engine.clock import RunClock, format_timestamp, parse_timestamp, seconds_between
from muster.workflows.engine.composite import CompositeNode
from muster.workflows.engine.dag import Dag
from muster.workflows.engine.entrypoint import Entrypoint
from muster.workflows.engine.leaf_nodes import Daemons, LeafNode, LeafTable, SuspendNode, Unsupported
from muster.workflows.engine.memoization import find_memo, memo_from_node
from muster.workflows.engine.node_tree import NodeTree, StatusBuilder, is_ended
from muster.workflows.engine.retry import Retry
from muster.workflows.engine.scope import merge_global_outputs, steps_with_used_results
from muster.workflows.engine.steps import Steps
from muster.workflows.engine.synchronization import HeldLocks, RunLocks
from muster.workflows.engine.task_resolver import TaskResolver
from muster.workflows.engine.templates import Context, Templates, to_text, type_of
from muster.workflows.engine.work_queue import Advanceable, Parent, Position, Work, WorkQueue
from muster.workflows.engine.workflow_spec import CONTROLS, metadata_variables, resolve_workflow
from muster.workflows.lang.limits import BudgetExceeded, text_created
from muster.workflows.lang.tags import without_marks
from muster.workflows.model import (
    FINISHED_PHASES,
    Actions,
    ClusterView,
    Launch,
    Memo,
    Node,
    NodeType,
    Outcome,
    Outputs,
    Phase,
    Stop,
    Template,
    WorkflowEvent,
)

# What ends a run early: `shutdown` and the workflow's deadline.


EXCEEDED = "Step exceeded its deadline"


def apply_shutdown(run: Run) -> None:
    """Stop ends everything but exit handlers; Terminate ends those as well."""
    strategy = run.shutdown
    force = strategy == "Terminate"
    for leaf in list(run.leaves.values()):
        if not run.may_execute(leaf.call.on_exit) and (not leaf.stopped or force):
            leaf.stop(f"workflow shutdown with strategy:  {strategy}", force=force)
    for node in list(run.suspended_nodes.values()):
        if not run.may_execute(node.call.on_exit):
            node.stop(f"Stopped with strategy '{strategy}'")
    run.run_locks.cancel_waiting(f"workflow shutdown with strategy: {strategy}", keep_exit=not force)
    run.wake_all()


def apply_deadline(run: Run) -> None:
    """The workflow's deadline has passed. Exit handlers are not subject to it."""
    for leaf in list(run.leaves.values()):
        if not leaf.call.on_exit and not leaf.stopped:
            leaf.stop(EXCEEDED)
    for node in list(run.suspended_nodes.values()):
        if not node.call.on_exit:
            node.stop(EXCEEDED)
    run.run_locks.cancel_waiting(EXCEEDED, keep_exit=True)
    run.wake_all()


def abandon(run: Run, message: str) -> None:
    """The workflow has ended although some of its nodes have not: stop them without waiting for their outcome."""
    for leaf in list(run.leaves.values()):
        run.actions.stop.append(Stop(leaf.id))
        run.stopping[leaf.id] = leaf
        run.tree.mark(leaf.id, "Failed", message)
    run.leaves.clear()
    run.suspended_nodes.clear()
    run.live.clear()
    for node in list(run.tree.nodes.values()):
        if not is_ended(node):
            run.tree.mark(node["id"], "Failed", message)


_ENGINE = "muster.workflows.engine."
_WORKS: Mapping[str, type[Work]] = {"steps": Steps, "dag": Dag, "suspend": SuspendNode, "plugin": Unsupported}


class Run:
    """Created by `Run.load`, advanced by `advance_run`.

    All of its state can be restored from the nodes: a loaded Run continues like the one it is a copy of.
    """

    def __init__(
        self,
        workflow: Object,
        nodes: Mapping[str, Node],
        view: ClusterView,
        budgets: Budgets | None = None,
        resolver: TaskResolver | None = None,
    ) -> None:
        self.workflow = workflow
        self.resolver = resolver
        self.budgets = budgets or Budgets()
        self.name = name_of(workflow)
        self.namespace = namespace_of(workflow)
        self.uid = uid_of(workflow)
        self.view = view
        self.is_loaded = False
        """Whether the nodes that were stored are restored."""
        self.now = view.now.astimezone(UTC)
        self.clock = RunClock()
        self.clock.set_time(self.now)
        self.tree = NodeTree(self.name, dict(nodes), NodeBudget(self.budgets))
        self.tree.now = format_timestamp(self.now)
        self.status_builder = StatusBuilder(status_of(workflow))
        resolved = resolve_workflow(workflow, view, self.now, self.config_map, self.clock)
        self.problem = (resolved.phase, resolved.message) if resolved.phase else None
        self.spec: Object = resolved.spec
        """The workflow's spec as it runs: merged with its WorkflowTemplate, its variables filled in."""
        self._final: tuple[Object, Object] | None = None
        self.metadata = resolved.metadata
        """Labels and annotations from `workflowMetadata`."""
        self.variables: dict[str, str] = resolved.variables
        self.workflow_template_ref = bool(spec_of(workflow).get("workflowTemplateRef"))
        if resolved.stored_spec is not None:
            self.status_builder.set(storedWorkflowTemplateSpec=resolved.stored_spec)
        self.templates = Templates(self.spec, self.status_builder.fields.get("storedTemplates") or {})
        self.templates.view = view
        self.actions = Actions()
        self.queue = WorkQueue()
        self.daemons = Daemons(self.tree)
        self.run_locks = RunLocks(self, HeldLocks(self.status_builder.fields.get("synchronization")))
        self.locks_released = False
        self.leaves = LeafTable()
        self.stopping: dict[str, LeafNode] = {}
        """Leaves that are being stopped and whose end is not awaited."""
        self.suspended_nodes: dict[str, SuspendNode] = {}
        self.live: dict[str, Work] = {}
        """Steps, DAGs and retries that have not ended."""
        self._memos: dict[tuple[str, str], Memo] = {}
        """Memos of this run that may not be in their ConfigMap yet."""
        self._warned: set[str] = set()
        self._shutdown_applied = ""
        self._deadline_applied = False
        self._restore_outputs()
        self.root = Entrypoint(self)

    @classmethod
    def load(
        cls,
        workflow: Object,
        nodes: Mapping[str, Node],
        view: ClusterView,
        budgets: Budgets | None = None,
        resolver: TaskResolver | None = None,
    ) -> Run:
        """Returns the run of a workflow with these nodes; none for a new workflow. With a resolver, that decides what
        the tasks of its DAGs do. Nothing happens before the first step. Raises BudgetExceeded."""
        run = cls(workflow, nodes, view, budgets, resolver)
        if not run.finished and run.problem is None:
            run.root.restore()
            run.queue.add(run.root)
        run.is_loaded = True
        return run

    @property
    def final_spec(self) -> Object:
        """The spec as executors take it."""
        if self._final is None or self._final[0] is not self.spec:
            self._final = self.spec, without_marks(self.spec)
        return self._final[1]

    @property
    def nodes(self) -> dict[str, Node]:
        return self.tree.nodes

    @property
    def status(self) -> dict[str, Any]:
        """The workflow's status without its nodes."""
        return self.status_builder.fields

    @property
    def finished(self) -> bool:
        return self.status_builder.is_finished

    def update(self, workflow: Object) -> None:
        """Adopts a change of the object: it may be suspended, shut down, or have other limits."""
        self.workflow = workflow
        spec = spec_of(workflow)
        self.spec = {name: value for name, value in self.spec.items() if name not in CONTROLS}
        source = {**(self.status_builder.fields.get("storedWorkflowTemplateSpec") or {}), **spec}
        self.spec.update({name: source[name] for name in CONTROLS if source.get(name) is not None})
        if spec.get("suspend") is None:
            self.spec.pop("suspend", None)
        self.variables.update(metadata_variables(workflow, self.spec))
        self.status_builder.adopt(status_of(workflow))

    def unfinished(self) -> list[str]:
        """Returns the nodes that executors are running."""
        coming = {launch.node["id"] for launch in self.actions.launch}
        return [node_id for node_id in self.leaves if node_id not in coming]

    def launch(self, node_id: str) -> Launch:
        """Returns the launch of a node that is unfinished or being stopped, once more."""
        leaf = self.leaves.get(node_id) or self.stopping[node_id]
        return leaf.launch()

    # -- used by advance_run -------------------------------------------------------------------------------------------

    def begin_step(self, view: ClusterView) -> None:
        self.view = self.templates.view = view
        self.now = view.now.astimezone(UTC)
        self.tree.now = format_timestamp(self.now)
        self.clock.set_time(self.now)
        self.tree.budget.expanded = 0
        self._update_duration()

    def observe(self, outcomes: Mapping[str, Outcome]) -> None:
        for node_id, outcome in outcomes.items():
            leaf = self.leaves.get(node_id)
            if leaf is not None:
                if self.resolver is not None and outcome.phase in FINISHED_PHASES:
                    outcome = self.resolver.outcome(leaf, outcome)
                leaf.observe(outcome)

    def advance(self) -> None:
        if self.problem is not None:
            self.finish(*self.problem)
            return
        self._apply_controls()
        if self.spec.get("suspend"):
            return
        self.queue.add_due(self.now)
        self.queue.add_postponed()
        if self.spec.get("hooks"):
            self.queue.add(self.root)
        self.run_locks.retry_waiting()
        while True:
            self.locks_released = False
            self.queue.drain(lambda: self.is_full)
            if self.finished or not self.locks_released or not self.run_locks.retry_waiting():
                return

    def take_actions(self) -> Actions:
        actions, self.actions = self.actions, Actions()
        actions.changed = self.tree.take_changed()
        self._update_status()
        actions.status = self.status_builder.take()
        if not self.finished:
            actions.wake = self.now if self.queue.has_postponed else self._next_wake()
        # A launch carries its node as it is stored.
        actions.launch = [
            _with_stored_node(launch, self.nodes) for launch in actions.launch if launch.node["id"] in self.leaves
        ]
        return actions

    # -- used by the nodes
    # -----------------------------------------------------------------------------------------------

    @property
    def outputs(self) -> Outputs:
        return cast(Outputs, self.status_builder.fields.get("outputs") or {})

    @property
    def shutdown(self) -> str:
        return str(self.spec.get("shutdown") or "")

    @property
    def is_full(self) -> bool:
        """Whether as many Pods run as the workflow's `parallelism` allows."""
        limit = self.spec.get("parallelism")
        return limit is not None and self.tree.totals.active_pods >= limit

    @property
    def deadline(self) -> datetime | None:
        seconds, started = self.spec.get("activeDeadlineSeconds"), self.status_builder.fields.get("startedAt")
        return parse_timestamp(started) + timedelta(seconds=seconds) if seconds is not None and started else None

    @property
    def is_over_deadline(self) -> bool:
        deadline = self.deadline
        return deadline is not None and self.now >= deadline

    @property
    def no_retry_reason(self) -> str:
        """Why nothing is retried any more, or ''."""
        if self.shutdown:
            return f"Stopped with strategy '{self.shutdown}'"
        deadline = self.deadline
        if deadline is not None and self.now >= deadline:
            return f"retry exceeded workflow deadline {deadline.strftime('%Y-%m-%d %H:%M:%S +0000 UTC')}"
        return ""

    def may_execute(self, on_exit: bool) -> bool:
        """Whether `shutdown` allows something to run: Stop allows exit handlers, Terminate nothing."""
        return self.shutdown == "" or (self.shutdown == "Stop" and on_exit)

    def is_step_full(self, item: Advanceable) -> bool:
        """Whether this step may start nothing more; then the item is advanced in the next one."""
        few_items = self.tree.budget.expanded < ITEMS_PER_STEP
        if few_items and len(self.tree.changed) < NODES_PER_STEP and text_created() < TEXT_PER_STEP:
            return False
        self.queue.postpone(item)
        return True

    def may_begin(self, item: Advanceable, position: Position) -> bool:
        """Whether the workflow can run one more Pod; if not, the item is queued until it can."""
        if self.is_step_full(item):
            return False
        return self.spec.get("parallelism") is None or self.queue.may_begin(item, position)

    def may_start(self, caller: Advanceable, position: Position, boundary: str, template: Template) -> bool:
        """Whether one more node can start inside the template and in the workflow."""
        limit = template.get("parallelism")
        if limit and self.tree.counts[boundary].active >= int(limit):
            return False
        return self.may_begin(caller, position)

    def config_map(self, name: str) -> Mapping[str, str] | None:
        return self.view.config_map(name)

    def retry_strategy(self, template: Template) -> dict[str, Any] | None:
        strategy = template.get("retryStrategy")
        found: dict[str, Any] | None = strategy if strategy is not None else self.spec.get("retryStrategy")
        return without_marks(found) if found else found

    def pod_name(self, node_name: str, template: Template) -> str:
        return node_tree.pod_name(self.name, node_name, str(template.get("name") or ""))

    def work_for(self, call: Call) -> Work:
        if self.retry_strategy(call.template) is not None:
            return self._register(Retry(self, call, call, call.name, call.template))
        return self.new_work(call, call, call.name, call.template)

    def new_work(self, call: Call, parent: Parent, name: str, template: Template) -> Work:
        kind = _WORKS.get(type_of(template), LeafNode)
        final = template if issubclass(kind, CompositeNode) else without_marks(template)
        return self._register(kind(self, call, parent, name, final))

    def new_node(
        self, name: str, kind: NodeType, phase: Phase, holder: Mapping[str, Any], context: Context, boundary: str,
        message: str = "",
    ) -> Node:  # fmt: skip
        around = self.nodes.get(boundary)
        node = Node(
            id=self.tree.id_of(name),
            name=name,
            displayName=node_tree.display_name(name, around["name"] if around is not None else ""),
            type=kind,
            templateScope=context.scope,
            phase=phase,
            startedAt=self.tree.now,
        )
        if boundary:
            node["boundaryID"] = boundary
        if holder.get("template"):
            node["templateName"] = str(holder["template"])
        if holder.get("templateRef"):
            node["templateRef"] = holder["templateRef"]
        if message:
            node["message"] = message
        return node

    def wants_result(self, node_name: str, boundary: str) -> bool:
        around = self.live.get(boundary)
        if around is None:
            return False
        if around.results is None:
            around.results = steps_with_used_results(around.template)
        return node_tree.step_of(node_name) in around.results

    def find_memo(self, memoize: Mapping[str, Any]) -> tuple[dict[str, Any], Outputs | None]:
        return find_memo(memoize, self.view.cache, self.now, self._memos)

    def store_memo(self, node: Node) -> None:
        memo = memo_from_node(node)
        if memo is not None:
            self._memos[memo.cache, memo.key] = memo
            self.actions.remember.append(memo)

    def add_outputs(self, outputs: Outputs | None) -> None:
        """Adds outputs with a global name to the workflow's outputs."""
        known = self.outputs
        found = merge_global_outputs(known, outputs)
        if found is known:
            return
        self.status_builder.set(outputs=dict(found))
        for parameter in found.get("parameters") or ():
            self.variables[f"workflow.outputs.parameters.{parameter['name']}"] = to_text(parameter["value"])

    def warn_once(self, reason: str, message: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            self.actions.news.append(WorkflowEvent("Warning", reason, message))

    def refresh_progress(self) -> set[str]:
        """Sets the progress of the steps and DAGs that run, the inner ones first. Returns the changed nodes, which are
        handed out as those of a step. Not a part of every step: the node of a large DAG is large."""
        for node_id in reversed(self.live):
            node, content = self.nodes.get(node_id), self.tree.counts.get(node_id)
            if node is None or content is None or node["type"] not in ("DAG", "Steps") or not content.progress:
                continue
            if node.get("progress") != content.progress:
                self.tree.change(node_id, progress=content.progress)
        return self.tree.take_changed()

    def wake_all(self) -> None:
        for work in list(self.live.values()):
            self.queue.add(work)
        self.queue.add(self.root)

    def begin_running(self) -> None:
        if not self.status_builder.fields.get("startedAt"):
            first = self.nodes.get(self.name)
            self.status_builder.set(startedAt=first["startedAt"] if first is not None else self.tree.now)
        if self.status_builder.fields.get("phase") != "Running":
            self.status_builder.set(phase="Running", message=None)
            self.actions.news.append(WorkflowEvent("Normal", "WorkflowRunning", "Workflow Running"))
            self.variables["workflow.status"] = "Running"
        self._update_duration()
        deadline = self.deadline
        if deadline is not None and not self._deadline_applied:
            self.queue.add_at(deadline, self.root)

    def finish(self, phase: str, message: str) -> None:
        if self.finished:
            return
        self.daemons.dismiss_all()
        abandon(self, f"the workflow has ended: {message}" if message else "the workflow has ended")
        self.run_locks.release_all()
        self.status_builder.finish(phase, message, self.tree.now)
        succeeded = phase == "Succeeded"
        reason, text = ("WorkflowSucceeded", "Workflow completed") if succeeded else ("WorkflowFailed", message)
        self.actions.news.append(WorkflowEvent("Normal" if succeeded else "Warning", reason, text))

    def set_status(self, **fields: Any) -> None:
        self.status_builder.set(**fields)

    def _register(self, work: Work) -> Work:
        if not isinstance(work, LeafNode | SuspendNode):
            self.live[work.id] = work
        return work

    def _apply_controls(self) -> None:
        if self.shutdown and self.shutdown != self._shutdown_applied:
            self._shutdown_applied = self.shutdown
            apply_shutdown(self)
        if self.is_over_deadline and not self._deadline_applied:
            self._deadline_applied = True
            apply_deadline(self)

    def _restore_outputs(self) -> None:
        """Restores the workflow's outputs, in case its status is older than its nodes."""
        known = self.outputs
        ended = [n for n in self.nodes.values() if n.get("outputs") and n["phase"] == "Succeeded"]
        for node in sorted(ended, key=lambda n: n.get("finishedAt") or ""):
            known = merge_global_outputs(known, node.get("outputs"))
        if known:
            self.status_builder.set(outputs=dict(known))
        for parameter in known.get("parameters") or ():
            self.variables[f"workflow.outputs.parameters.{parameter['name']}"] = to_text(parameter["value"])
        self.variables["workflow.status"] = str(self.status_builder.fields.get("phase") or "")

    def _update_duration(self) -> None:
        seconds = seconds_between(self.status_builder.fields.get("startedAt") or "", self.tree.now)
        self.variables["workflow.duration"] = f"{seconds:f}"

    def _update_status(self) -> None:
        content = self.tree.totals
        if content.total:
            self.status_builder.set(progress=content.progress)
        elif self.status_builder.fields.get("phase"):
            self.status_builder.set(progress="0/0")
        if content.durations:
            self.status_builder.set(
                resourcesDuration={name: amount for name, amount in content.durations.items() if amount}
            )
        if self.nodes:
            self.status_builder.set_condition(
                "PodRunning", "True" if self.tree.running_pods and not self.finished else "False"
            )
        if self.templates.has_new_stored:
            self.templates.has_new_stored = False
            self.status_builder.set(storedTemplates=self.templates.stored)
        if self.run_locks.holdings.changed:
            self.run_locks.holdings.changed = False
            self.status_builder.set(synchronization=self.run_locks.holdings.status())

    def _next_wake(self) -> datetime | None:
        moments = [moment for moment in (self.queue.next_time(), self._pending_deadline()) if moment is not None]
        return min(moments, default=None)

    def _pending_deadline(self) -> datetime | None:
        return None if self._deadline_applied else self.deadline


def _with_stored_node(launch: Launch, nodes: Mapping[str, Node]) -> Launch:
    return replace(launch, node=nodes[launch.node["id"]])


def advance_run(run: Run, outcomes: Mapping[str, Outcome], view: ClusterView) -> Actions:
    """Advances a run as far as possible: by outcomes of its leaves, by time, by changes of its object.

    The cost depends on what changes, not on the workflow's size. Errors become the message of the workflow or of a
    node. Raises only BudgetExceeded; then the run cannot be used any more (see `set_aside`).
    """
    run.begin_step(view)
    if run.finished:
        return run.take_actions()
    try:
        run.observe(outcomes)
        run.advance()
    except BudgetExceeded:
        raise
    except Exception as error:  # a bug of ours: the workflow ends, and the server continues
        run.finish("Error", f"internal error: {type(error).__name__}: {error}")
    return run.take_actions()


def dismantle(run: Run) -> None:
    """Takes a run apart that is not needed any more. Its parts refer to one another, so they would stay in memory until
    the garbage collector looks at them, which is rare in a server."""
    pending: list[Any] = [run]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending.extend(part.values())
        elif isinstance(part, list | tuple | deque):
            pending.extend(part)
        else:
            slots = [name for name in getattr(type(part), "__slots__", ()) if hasattr(part, name)]
            inner = [*(getattr(part, name) for name in slots), *getattr(part, "__dict__", {}).values()]
            pending.extend(value for value in inner if _holds_parts(value))
            for name in slots:
                delattr(part, name)
            getattr(part, "__dict__", {}).clear()


def _holds_parts(value: Any, levels: int = 3) -> bool:
    """Whether this is a part of the engine or a collection of them, judged by its first element: plain data is not
    searched."""
    if isinstance(value, dict):
        return bool(value) and levels > 0 and _holds_parts(next(iter(value.values())), levels - 1)
    if isinstance(value, list | tuple | deque):
        return bool(value) and levels > 0 and any(_holds_parts(inner, levels - 1) for inner in (value[0], value[-1]))
    return type(value).__module__.startswith(_ENGINE)
