"""A dag template: a task runs once its dependencies have the results it asks for."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from muster.workflows.engine.composite import FAIL_FAST, CompositeNode
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.hooks import Child
from muster.workflows.engine.loops import expand_loop, is_loop
from muster.workflows.engine.node_tree import (
    COMPLETED,
    FAILED,
    NodeTree,
    continues_on,
    has_failed,
    is_ended,
    is_fulfilled,
)
from muster.workflows.engine.scope import Scope, resolve_step
from muster.workflows.engine.task_resolver import CompleteTask, ExpandTask, SkipTask, StartTask
from muster.workflows.lang import depends
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.tags import without_marks
from muster.workflows.model import Node, NodeType, Outputs, Phase

# The dependency graph of a DAG's tasks, and the phase of a DAG once nothing in it runs.


class Graph:
    def __init__(self, dag: Mapping[str, Any]) -> None:
        """Raises WorkflowError and ExpressionError."""
        self.tasks: dict[str, Mapping[str, Any]] = {str(t["name"]): t for t in dag.get("tasks") or ()}
        self.order = {name: index for index, name in enumerate(self.tasks)}
        self.conditions: dict[str, depends.Depends | None] = {name: _condition(t) for name, t in self.tasks.items()}
        self.needs: dict[str, list[str]] = {}
        self.needed_by: dict[str, list[str]] = {name: [] for name in self.tasks}
        for name, condition in self.conditions.items():
            self.needs[name] = list(depends.tasks(condition)) if condition is not None else []
            for need in self.needs[name]:
                if need not in self.tasks:
                    raise WorkflowError(f"task '{name}' depends on '{need}', but there is no such task")
                self.needed_by[need].append(name)
        target = str(dag.get("target") or "")
        self.targets = target.split() if target else sorted(name for name in self.tasks if not self.needed_by[name])
        for name in self.targets:
            if name not in self.tasks:
                raise WorkflowError(f"target '{name}' is not a task of the DAG")
        self.wanted = self._wanted() if target else set(self.tasks)
        self._check_cycles()
        self.tolerated = {name: _tolerated(t) for name, t in self.tasks.items() if t.get("continueOn")}

    def _wanted(self) -> set[str]:
        """The targets and everything they depend on."""
        found: set[str] = set()
        pending = list(self.targets)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self.needs[name])
        return found

    def _check_cycles(self) -> None:
        unmet = {name: len(needs) for name, needs in self.needs.items()}
        free = [name for name, count in unmet.items() if not count]
        for name in free:
            for waiting in self.needed_by[name]:
                unmet[waiting] -= 1
                if not unmet[waiting]:
                    free.append(waiting)
        if len(free) < len(unmet):
            circle = ", ".join(name for name, count in unmet.items() if count)
            raise WorkflowError(f"these tasks depend on each other in a cycle: {circle}")

    def holds(self, name: str, results: Mapping[str, Collection[str]]) -> bool:
        """Whether a task runs, given the results of its dependencies. Raises ExpressionError."""
        condition = self.conditions[name]
        return condition is None or depends.evaluate(condition, results, self.tolerated)


def task_results(node: Node, tree: NodeTree) -> frozenset[str]:
    """Returns the results of a task's node, in the vocabulary of `depends`."""
    phase = node["phase"]
    found = {"Errored" if phase == "Error" else str(phase)}
    if node.get("daemoned") and phase != "Pending":
        found.add("Daemoned")
    if node["type"] == "TaskGroup":
        phases = [child["phase"] for child in tree.children(node["id"])]
        if "Succeeded" in phases:
            found.add("AnySucceeded")
        if phases and all(each == "Failed" for each in phases):
            found.add("AllFailed")
    return frozenset(found)


def _condition(task: Mapping[str, Any]) -> depends.Depends | None:
    if task.get("depends"):
        return depends.parse(str(task["depends"]))
    return depends.from_dependencies(task["dependencies"]) if task.get("dependencies") else None


def _tolerated(task: Mapping[str, Any]) -> tuple[str, ...]:
    on = task["continueOn"]
    return (*(("Errored",) if on.get("error") else ()), *(("Failed",) if on.get("failed") else ()))


def dag_phase(graph: Graph, tree: NodeTree, boundary: Node, *, fail_fast: bool) -> Phase:
    """Running while a target has not been visited. A target that did not run takes the phase of its predecessors, and
    failure outweighs success."""
    found = _target_phases(graph, tree, boundary)
    result: Phase = "Succeeded"
    for name in graph.targets:
        phase = found[tree.id_of(f"{boundary['name']}.{name}")]
        if phase is None:
            result = "Running"
            if not fail_fast:
                break
        elif phase in FAILED:
            if continues_on(graph.tasks[name].get("continueOn"), phase):
                continue
            result = phase
            if fail_fast:
                break
    return result


def _target_phases(graph: Graph, tree: NodeTree, boundary: Node) -> dict[str, Phase | None]:
    targets: dict[str, Phase | None] = {tree.id_of(f"{boundary['name']}.{name}"): None for name in graph.targets}
    seen: set[tuple[str, Phase]] = set()
    queue: deque[tuple[str, Phase]] = deque()

    def add(ids: Iterable[str], phase: Phase) -> None:
        for node_id in ids:
            if (node_id, phase) not in seen and node_id in tree.nodes:
                seen.add((node_id, phase))
                queue.append((node_id, phase))

    add(boundary.get("children") or (), "Succeeded")
    while queue:
        node_id, branch = queue.popleft()
        node = tree.nodes[node_id]
        if not is_fulfilled(node):
            continue
        if node["phase"] in COMPLETED:
            branch = node["phase"]
        if node_id in targets and targets[node_id] not in FAILED:
            targets[node_id] = branch
        add(_successors(node, tree), branch)
    return targets


def _successors(node: Node, tree: NodeTree) -> list[str]:
    """Returns what follows a node. For a node with retries, what follows its attempts; the attempts themselves do not
    count."""
    if node["type"] != "Retry":
        return node.get("children") or []
    found: list[str] = []
    for child in reversed(list(tree.children(node["id"]))):
        flag = child.get("nodeFlag") or {}
        if flag.get("hooked") and not flag.get("retried"):
            found.append(child["id"])
        else:
            found.extend(child.get("children") or ())
    return found


class Loop:
    """A task with items: a TaskGroup node with one child per item."""

    def __init__(self, limit: int = 0) -> None:
        self.waiting: deque[Child] = deque()
        self.open = 0
        self.limit = limit
        """How many items run at the same time; 0 for any number."""

    @property
    def is_full(self) -> bool:
        return bool(self.limit) and self.open >= self.limit


class Dag(CompositeNode):
    prefix = "tasks"
    graph: Graph
    graph_error = ""
    """Why the tasks are invalid."""
    ready: list[tuple[int, str]]
    """Tasks that wait only for a free slot, by their position in the template."""

    def start(self) -> None:
        self.open("DAG", "Running")
        self._prepare()
        self.run.queue.add(self)

    def restore(self) -> None:
        self._prepare()
        for name in self.graph.tasks:
            if name in self.graph.wanted:
                self._restore_task(name)
        self.ready = [entry for entry in self.ready if entry[1] not in self.children]
        heapq.heapify(self.ready)
        self.run.queue.add(self)

    def advance(self) -> None:
        if is_ended(self.node):
            return
        if self.graph_error:
            self.fail(self.graph_error)
            return
        while True:
            while self.changed_children:
                self._update_child(self.changed_children.popleft())
            if self.waiting_loops and self._start_items():
                continue
            if not self.changed_children and self.ready and not self._is_blocked() and self._start_next_task():
                continue
            if not self.changed_children:
                break
        if not self.open_count:
            self._conclude()

    def child_names(self) -> Iterable[str]:
        return self.graph.tasks

    def scope_of(self, name: str) -> Scope | None:
        if name in self._scopes:
            return self._scopes[name]
        tree = self.run.tree
        node = tree.find(self._name(name)) if name in self.graph.tasks else None
        if node is None or not is_fulfilled(node):
            return None
        scope, prefix = Scope(), f"tasks.{name}"
        if node["type"] == "TaskGroup":
            own = f"{node['name']}("
            scope.add_loop(prefix, [n for n in tree.children(node["id"]) if n["name"].startswith(own)])
        scope.add_node(prefix, node, tree)
        if node["phase"] in ("Skipped", "Omitted") and not node.get("outputs"):
            self.add_skipped_outputs(scope, name, self.graph.tasks[name], with_artifacts=False)
        if is_ended(node):
            self._scopes[name] = scope
        return scope

    def outbound_nodes(self) -> list[str]:
        tree = self.run.tree
        return [end for name in self.graph.targets for end in tree.outbound(tree.id_of(self._name(name)))]

    def _prepare(self) -> None:
        self.prepare_children()
        self._scopes: dict[str, Scope] = {}
        self.ready = []
        self.children: dict[str, Child] = {}
        self.loops: dict[str, Loop] = {}
        self.waiting_loops: list[tuple[int, str]] = []
        self.settled: dict[str, frozenset[str]] = {}
        self.open_count = 0
        self.graph = self._build_graph()
        self.open_dependencies = {name: len(needs) for name, needs in self.graph.needs.items()}
        for name in self.graph.tasks:
            if not self.open_dependencies[name] and name in self.graph.wanted:
                heapq.heappush(self.ready, (self.graph.order[name], name))

    def _build_graph(self) -> Graph:
        try:
            return Graph(self.template["dag"])
        except (WorkflowError, ExpressionError) as error:
            self.graph_error = error_message(error)
            return Graph({})

    def _restore_task(self, name: str) -> None:
        node = self.run.tree.find(self._name(name))
        if node is None:
            return
        if node["type"] == "TaskGroup":
            self._restore_loop(name, node)
            return
        child = self._child(name, self.graph.tasks[name], node)
        self._restore_single(name, child)

    def _restore_loop(self, name: str, node: Node) -> None:
        task = self.graph.tasks[name]
        group = self._child(name, task, None)
        self.children[name] = group
        self.open_count += 1
        group.restore_hooks(self.hooks)
        if not is_ended(node):
            items, limit = self._items(name)
            loop = self.loops[name] = Loop(limit)
            for child in items:
                if child.exists:
                    loop.open += 1
                    self.restore_child(child)
                else:
                    loop.waiting.append(child)
            if loop.waiting:
                heapq.heappush(self.waiting_loops, (self.graph.order[name], name))
        self.changed_children.append(group)

    def _restore_single(self, name: str, child: Child) -> None:
        self.children[name] = child
        self.open_count += 1
        self.restore_child(child)

    def _name(self, task: str) -> str:
        return f"{self.name}.{task}"

    def _is_blocked(self) -> bool:
        """Nothing new is started."""
        if not self.run.may_execute(self.call.on_exit):
            return True
        return self.is_failing_fast

    def _start_next_task(self) -> bool:
        """Starts the next task. Returns False if there is no free slot."""
        index, name = self.ready[0]
        if not self.run.may_start(self, (*self.call.position, index, 0), self.id, self.template):
            return False
        heapq.heappop(self.ready)
        task = self.graph.tasks[name]
        self.run.clock.seed(self._name(name))
        try:
            results = {need: self.settled[need] for need in self.graph.needs[name]}
            if not self.graph.holds(name, results):
                self._skip(name, name, task, "Omitted", "omitted: depends condition not met")
                return True
            if self.run.resolver is not None:
                self._start_resolved(name, task)
                return True
            scope = self.variables_for(task)
            step = resolve_step(task, scope, self.run.variables, self.run.clock.expressions)
            if not is_loop(task):
                self._start_task(name, step)
                return True
            items = self._expand(name, step, scope)
        except (WorkflowError, ExpressionError) as error:
            self._skip(name, name, task, "Error", error_message(error))
            return True
        if not items:
            self._skip(name, name, task, "Skipped", "Skipped, empty params")
            return True
        self._start_loop(name, task, items)
        return True

    def _start_resolved(self, name: str, task: Mapping[str, Any]) -> None:
        """Does what the workflow's resolver decides. Raises WorkflowError and ExpressionError."""
        assert self.run.resolver is not None
        match self.run.resolver.decide(self, name):
            case StartTask(step):
                self._start_task(name, step)
            case ExpandTask(steps, limit) if steps:
                self._start_loop(name, task, self._resolved_items(steps), limit)
            case ExpandTask():
                self._add_ended(name, task, "TaskGroup", "Succeeded")
            case SkipTask(message):
                self._skip(name, name, task, "Skipped", message)
            case CompleteTask(outputs, inputs):
                self._add_ended(name, task, "Plugin", "Succeeded")
                self.run.tree.change(
                    self.run.tree.id_of(self._name(name)), outputs=outputs or None, inputs=dict(inputs) or None
                )

    def _resolved_items(self, steps: Iterable[Mapping[str, Any]]) -> list[Child]:
        return [self._child(str(step["name"]), step, None, index) for index, step in enumerate(steps)]

    def _start_task(self, name: str, step: Mapping[str, Any]) -> None:
        self._link_dependencies(name, self.run.tree.id_of(self._name(name)))
        child = self._child(name, step, None)
        self.children[name] = child
        self.open_count += 1
        self._start_child(child, name)
        self.changed_children.append(child)

    def _start_loop(self, name: str, task: Mapping[str, Any], items: list[Child], limit: int = 0) -> None:
        node_id = self.run.tree.id_of(self._name(name))
        self._link_dependencies(name, node_id)
        self.add_node(self._name(name), "TaskGroup", "Running", task)
        self.children[name] = self._child(name, task, None)
        self.open_count += 1
        loop = self.loops[name] = Loop(limit)
        loop.waiting.extend(items)
        heapq.heappush(self.waiting_loops, (self.graph.order[name], name))
        self.changed_children.append(self.children[name])

    def _start_items(self) -> bool:
        """Starts items of the first loop that is not full, until no slot is free. Returns False if items are left."""
        entry = next((entry for entry in sorted(self.waiting_loops) if not self.loops[entry[1]].is_full), None)
        if entry is None:
            return False
        name = entry[1]
        loop = self.loops[name]
        group = self.run.tree.id_of(self._name(name))
        while loop.waiting:
            if loop.is_full:
                return True
            child = loop.waiting[0]
            assert child.call is not None
            if self._is_blocked() or not self.run.may_start(self, child.call.position, self.id, self.template):
                return False
            loop.waiting.popleft()
            loop.open += 1
            self.run.tree.link(group, child.id)
            self._start_child(child, name)
            self.changed_children.append(child)
        self.waiting_loops.remove(entry)
        heapq.heapify(self.waiting_loops)
        self.changed_children.append(self.children[name])
        return True

    def _start_child(self, child: Child, task: str) -> None:
        """Starts the child, unless its `when` is false."""
        when = without_marks(str(child.step.get("when") or ""))
        declared = self.graph.tasks[task]
        try:
            if when and not evaluate_when(when):
                self.add_node(child.name, "Skipped", "Skipped", declared, f"when '{when}' evaluated false")
                return
        except ExpressionError as error:
            self.add_node(child.name, "Skipped", "Error", declared, error_message(error))
            return
        assert child.call is not None
        child.call.start()

    def _skip(self, name: str, task: str, declared: Mapping[str, Any], phase: Phase, message: str) -> None:
        self._add_ended(name, declared, "Skipped", phase, message)

    def _add_ended(
        self, name: str, declared: Mapping[str, Any], kind: NodeType, phase: Phase, message: str = ""
    ) -> None:
        """Adds a task that is over without having run a template."""
        self._link_dependencies(name, self.run.tree.id_of(self._name(name)))
        self.add_node(self._name(name), kind, phase, declared, message)
        child = self._child(name, declared, None)
        self.children[name] = child
        self.open_count += 1
        self.changed_children.append(child)

    def _link_dependencies(self, task: str, child: str) -> None:
        """Links the node to the outbound nodes of its dependencies."""
        tree = self.run.tree
        needs = self.graph.needs[task]
        if not needs:
            tree.link(self.id, child)
        for need in needs:
            for end in tree.outbound(tree.id_of(self._name(need))):
                tree.link(end, child)

    def _child(self, name: str, step: Mapping[str, Any], node: Node | None, item: int = 0) -> Child:
        if node is not None and not is_ended(node):
            step = self._resolve_again(step)
        order = self.graph.order[name.partition("(")[0]]
        return self.new_child(self._name(name), step, order, item)

    def _resolve_again(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            if self.run.resolver is not None:
                decision = self.run.resolver.decide(self, str(task["name"]))
                return decision.step if isinstance(decision, StartTask) else task
            return resolve_step(task, self.variables_for(task), self.run.variables, self.run.clock.expressions)
        except (WorkflowError, ExpressionError):
            return task  # It could be resolved when it started, and its node has the inputs.

    def _items(self, name: str) -> tuple[list[Child], int]:
        """Returns the items of a loop that has begun, and how many may run at the same time."""
        task = self.graph.tasks[name]
        try:
            if self.run.resolver is not None:
                decision = self.run.resolver.decide(self, name)
                return (
                    (self._resolved_items(decision.steps), decision.limit)
                    if isinstance(decision, ExpandTask)
                    else ([], 0)
                )
            scope = self.variables_for(task)
            step = resolve_step(task, scope, self.run.variables, self.run.clock.expressions)
            return self._expand(name, step, scope), 0
        except (WorkflowError, ExpressionError):
            return [], 0

    def _expand(self, name: str, step: Mapping[str, Any], scope: Scope) -> list[Child]:
        found = []
        texts, clock = scope.texts(self.run.variables), self.run.clock.expressions
        for index, item in enumerate(expand_loop(step, texts, clock, self.run.tree.budget)):
            child = self._child(item.name, item.step, None, index)
            # Hooks of a loop belong to its group; only the exit hook also runs for each item.
            child.step = {f: v for f, v in child.step.items() if f != "hooks"} | _exit_hook_only(item.step)
            found.append(child)
        return found

    def _update_child(self, child: Child) -> None:
        if child.settled or not child.exists:
            return
        task = self._task_of(child)
        loop = self.loops.get(task)
        is_item = loop is not None and child is not self.children.get(task)
        self._set_error_message(child)
        if loop is not None and not is_item and not self._finish_loop(task, loop, child):
            child.update(self.hooks, early=False)
            return
        if not child.update(self.hooks, early=False):
            self._set_error_message(child)
            return
        self._set_error_message(child)
        if is_item and loop is not None:
            loop.open -= 1
            if not loop.open and not loop.waiting:
                self.changed_children.append(self.children[task])
            return
        self.open_count -= 1
        self._settle(task)

    def _set_error_message(self, child: Child) -> None:
        """The message of a task that could not run at all names the task."""
        problem = (child.call.error if child.call is not None else "") or child.error
        node = self.run.tree.nodes[child.id]
        message = f"task '{child.name}' errored: {problem}"
        if problem and node.get("message") != message:
            self.run.tree.mark(child.id, "Error", message)

    def _finish_loop(self, task: str, loop: Loop, group: Child) -> bool:
        if loop.open or loop.waiting:
            return False
        if not is_fulfilled(self.run.tree.nodes[group.id]):
            phase: Phase = "Succeeded"
            for item in self.run.tree.children(group.id):
                if has_failed(item) and item["name"].startswith(f"{group.name}("):
                    phase = item["phase"]
            self.run.tree.update_progress(group.id)
            self.run.tree.mark(group.id, phase)
        return True

    def _task_of(self, child: Child) -> str:
        short = child.name[len(self.name) + 1 :]
        return short if short in self.children else short.partition("(")[0]

    def _settle(self, task: str) -> None:
        node = self.run.tree.nodes[self.run.tree.id_of(self._name(task))]
        self.settled[task] = task_results(node, self.run.tree)
        if node["type"] == "TaskGroup" or node.get("outputs"):
            self.run.add_outputs(node.get("outputs"))
        for name in self.graph.needed_by[task]:
            self.open_dependencies[name] -= 1
            waits = not self.open_dependencies[name] and name in self.graph.wanted and name not in self.children
            if waits:
                heapq.heappush(self.ready, (self.graph.order[name], name))

    def _conclude(self) -> None:
        if not self.run.may_execute(self.call.on_exit):
            self.finish("Failed")
            return
        if self._is_blocked() and (self.ready or self.waiting_loops):
            self.finish("Failed", FAIL_FAST)
            return
        if self.run.resolver is not None:
            self._conclude_resolved()
            return
        fail_fast = self.template["dag"].get("failFast")
        phase = dag_phase(self.graph, self.run.tree, self.node, fail_fast=fail_fast is None or bool(fail_fast))
        if phase == "Running":
            return
        if phase == "Succeeded":
            self.succeed()
        else:
            self.finish(phase, FAIL_FAST if phase == "Failed" and self.is_failing_fast else None)

    def _conclude_resolved(self) -> None:
        """Every failed task makes the DAG fail, also one that others ran after."""
        nodes = [self.run.tree.find(self._name(name)) for name in self.graph.tasks]
        if None in nodes:
            return  # the step was full before all tasks could start
        failed = next((node for node in nodes if node is not None and has_failed(node)), None)
        if failed is None:
            self.succeed()
        else:
            shown = failed.get("message") or ""
            self.finish("Failed", f"task {failed['displayName']} failed" + (f": {shown}" if shown else ""))

    def outputs(self) -> Outputs | None:
        if self.run.resolver is not None:
            return self.run.resolver.dag_outputs(self)
        return super().outputs()


def _exit_hook_only(step: Mapping[str, Any]) -> dict[str, Any]:
    last = (step.get("hooks") or {}).get("exit")
    return {"hooks": {"exit": last}} if last is not None else {}
