"""A steps template: groups run one after another, the steps of a group in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from muster.workflows.engine.call import Call
from muster.workflows.engine.composite import FAIL_FAST, CompositeNode
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.hooks import Child
from muster.workflows.engine.loops import expand_loop, is_loop
from muster.workflows.engine.node_tree import continues_on, has_failed, is_ended
from muster.workflows.engine.scope import Scope, resolve_step
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.tags import without_marks
from muster.workflows.model import Node, Phase


class Group:
    """Steps that run in parallel."""

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.waiting: deque[Child] = deque()
        self.started: dict[str, Child] = {}
        self.open = 0
        self.error = ""


class Steps(CompositeNode):
    prefix = "steps"
    group: Group | None = None
    index = 0

    def start(self) -> None:
        self.open("Steps", "Running")
        self._prepare()
        self.run.queue.add(self)

    def restore(self) -> None:
        self._prepare()
        for index in range(len(self.groups)):
            node = self.run.tree.find(self._group_name(index))
            if node is None or not is_ended(node) or has_failed(node):
                break
            self.index = index
            self._restore_daemons(node)
            self._add_to_scope(index)
            self.index = index + 1
        if self.index < len(self.groups) and self.run.tree.find(self._group_name(self.index)) is not None:
            self.group = self._expand_group()
            self._restore_group(self.group)
        self.run.queue.add(self)

    def advance(self) -> None:
        if is_ended(self.node):
            return
        while True:
            if self.group is None:
                if self.index >= len(self.groups):
                    self.succeed()
                    return
                if self.run.is_step_full(self):
                    return
                self.group = self._begin_group()
            group = self.group
            self._update_children(group)
            self._start_waiting(group)
            self._update_children(group)
            if group.open or (group.waiting and not group.error and not self.is_failing_fast):
                return
            if not self._close(group):
                return
            self.group = None
            self.index += 1

    def child_names(self) -> Iterable[str]:
        return self.done

    def scope_of(self, name: str) -> Scope | None:
        return self.done.get(name)

    def outbound_nodes(self) -> list[str]:
        tree = self.run.tree
        last = tree.find(self._group_name(min(self.index, len(self.groups) - 1)))
        if last is None:
            return self.node.get("outboundNodes") or []
        return [end for step in last.get("children") or () for end in tree.outbound(step)]

    def _prepare(self) -> None:
        self.groups: list[list[Mapping[str, Any]]] = list(self.template["steps"])
        self.done: dict[str, Scope] = {}
        """The results of the steps of earlier groups."""
        self.prepare_children()

    def _group_name(self, index: int) -> str:
        return f"{self.name}[{index}]"

    def _begin_group(self) -> Group:
        name = self._group_name(self.index)
        is_new = self.run.tree.find(name) is None
        if is_new:
            self.add_node(name, "StepGroup", "Running", {})
        self._link_group(name)
        group = self._expand_group()
        if not is_new:  # a retry restarted an earlier group, whose daemon was needed again
            self._restore_group(group)
        return group

    def _link_group(self, name: str) -> None:
        """Links the group to the outbound nodes of the group before."""
        tree, child = self.run.tree, self.run.tree.id_of(name)
        if self.index == 0:
            tree.link(self.id, child)
            return
        before = tree.id_of(self._group_name(self.index - 1))
        steps = list(tree.nodes[before].get("children") or ()) if before in tree.nodes else []
        for parent in [end for step in steps for end in tree.outbound(step)] or [before]:
            tree.link(parent, child)

    def _expand_group(self) -> Group:
        """Returns the group's steps with references resolved, one for each item of a loop."""
        group = Group(self._group_name(self.index), self.index)
        self.run.clock.seed(group.name)
        try:
            found: list[Mapping[str, Any]] = []
            for written in self.groups[self.index]:
                scope = self.variables_for(written)
                step = resolve_step(written, scope, self.run.variables, self.run.clock.expressions)
                if not is_loop(step):
                    found.append(step)
                    continue
                items = expand_loop(
                    step, scope.texts(self.run.variables), self.run.clock.expressions, self.run.tree.budget
                )
                found.extend(item.step for item in items)
                if not items:
                    found.append({**step, "when": "", "_empty": True})
        except (WorkflowError, ExpressionError) as error:
            group.error = f"failed to resolve references: {error_message(error)}"
            return group
        group.waiting.extend(
            self.new_child(f"{group.name}.{step['name']}", step, group.index, index) for index, step in enumerate(found)
        )
        return group

    def _restore_group(self, group: Group) -> None:
        waiting, group.waiting = group.waiting, deque()
        for child in waiting:
            if not child.exists:
                group.waiting.append(child)
                continue
            group.started[child.name] = child
            group.open += 1
            self.restore_child(child)

    def _restore_daemons(self, group: Node) -> None:
        """Restores the daemons of a group that is otherwise done."""
        if any(child.get("daemoned") for child in self.run.tree.children(group["id"])):
            for child in self._expand_group().waiting:
                if child.call is not None and child.exists:
                    child.call.restore()

    def _start_waiting(self, group: Group) -> None:
        while group.waiting and not group.error and not self.is_failing_fast:
            if self.run.is_step_full(self):
                return
            child = group.waiting[0]
            runs = self._should_run(child, group)
            if runs and child.call is not None and not self._has_room(child.call):
                return
            group.waiting.popleft()
            group.started[child.name] = child
            group.open += 1
            if runs and child.call is not None:
                child.call.start()
                if child.call.error and not group.error:
                    group.error = f"step group deemed errored due to child {child.name} error: {child.call.error}"
            self.run.tree.link(self.run.tree.id_of(group.name), child.id)
            self.changed_children.append(child)

    def _has_room(self, call: Call) -> bool:
        return self.run.may_start(self, call.position, self.id, self.template)

    def _should_run(self, child: Child, group: Group) -> bool:
        """Whether the step runs. If not, its node says why."""
        step = child.step
        if step.get("_empty"):
            self._skip(child, "Skipped", "Skipped, empty params")
            return False
        when = without_marks(str(step.get("when") or ""))
        if not when:
            return True
        try:
            if evaluate_when(when):
                return True
        except ExpressionError as error:
            group.error = error_message(error)
            self._skip(child, "Error", group.error)
            return False
        self._skip(child, "Skipped", f"when '{when}' evaluated false")
        return False

    def _skip(self, child: Child, phase: Phase, message: str) -> None:
        self.add_node(child.name, "Skipped", phase, child.step, message)

    def _update_children(self, group: Group) -> None:
        while self.changed_children:
            child = self.changed_children.popleft()
            if child.settled or child.name not in group.started:
                continue
            if child.update(self.hooks, early=True):
                group.open -= 1
            if child.call is not None and child.call.error and not group.error:
                group.error = f"step group deemed errored due to child {child.name} error: {child.call.error}"
            group.error = group.error or child.error

    def _close(self, group: Group) -> bool:
        """Ends the group. Returns whether the next one may start."""
        group_id = self.run.tree.id_of(group.name)
        phase, message = self._group_phase(group)
        self.run.tree.update_progress(group_id)
        node = self.run.tree.mark(group_id, phase, message)
        if has_failed(node):
            self.finish("Failed", node.get("message") or "")
            return False
        try:
            self._add_to_scope(group.index)
        except ExpressionError as error:
            self.fail_body(error_message(error))
            return False
        return True

    def _group_phase(self, group: Group) -> tuple[Phase, str]:
        if group.error:
            return "Error", group.error
        if self.is_failing_fast and group.waiting:
            return "Failed", FAIL_FAST
        for child in group.started.values():
            node = self.run.tree.nodes[child.id]
            if has_failed(node) and not continues_on(child.step.get("continueOn"), node["phase"]):
                return "Failed", FAIL_FAST if self.is_failing_fast else f"child '{child.id}' failed"
        return "Succeeded", ""

    def _add_to_scope(self, index: int) -> None:
        """Adds the results of a group's steps for the steps that follow."""
        tree = self.run.tree
        group = tree.nodes[tree.id_of(self._group_name(index))]
        for step in self.groups[index]:
            name, prefix = f"{group['name']}.{step['name']}", f"steps.{step['name']}"
            node, scope = tree.find(name), Scope()
            if node is not None:
                scope.add_node(prefix, node, tree)
                if node["phase"] in ("Skipped", "Omitted") and not node.get("outputs"):
                    self.add_skipped_outputs(scope, step["name"], step, with_artifacts=True)
            else:
                scope.add_loop(prefix, self._items_of(group, name))
                scope.add_node(prefix, group, tree)
            self.done[str(step["name"])] = scope

    def _items_of(self, group: Node, name: str) -> list[Node]:
        found = self.run.tree.children(group["id"])
        return [n for n in found if n["name"].startswith(f"{name}(") and n["type"] != "Skipped"]
