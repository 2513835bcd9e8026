"""One use of a template: by a step, a task, a hook or the workflow itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muster.kube.budgets import setting_name
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.node_tree import is_ended, is_fulfilled
from muster.workflows.engine.synchronization import Lock, locks_of
from muster.workflows.engine.templates import POD_TYPES, Context, check_reserved_names, fill_inputs, node_type, type_of
from muster.workflows.engine.work_queue import Caller, Parent, Position, Work
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.limits import text_created
from muster.workflows.lang.tags import without_marks
from muster.workflows.model import Node, NodeType, Phase, Template

if TYPE_CHECKING:
    from muster.workflows.engine.hooks import Child
    from muster.workflows.engine.run import Run

_NAMES = ("template", "templateRef")
_DISPLAY_NAME = "workflows.argoproj.io/display-name"
_VALID_DISPLAY_NAME = re.compile(r"^[a-zA-Z0-9][a-zA-Z0-9-.]{0,61}[a-zA-Z0-9]$")


class Call(Parent):
    def __init__(
        self,
        run: Run,
        caller: Caller,
        name: str,
        holder: Mapping[str, Any],
        context: Context,
        arguments: Mapping[str, Any] | None,
        *,
        boundary: str = "",
        on_exit: bool = False,
        flag: dict[str, bool] | None = None,
        depth: int = 1,
        position: Position = (),
    ) -> None:
        self.run = run
        self.caller = caller
        self.name = name
        self.id = run.tree.id_of(name)
        self.holder = {**holder, **without_marks({field: holder[field] for field in _NAMES if field in holder})}
        self.context = context
        self.arguments = arguments or {}
        self.boundary = boundary
        self.on_exit = on_exit
        self.flag = flag
        self.depth = depth
        self.position = position
        self.child: Child | None = None
        self.error = ""
        self.inner = context
        self.template: Template = {}
        self.work: Work | None = None
        self.memo: dict[str, Any] | None = None
        self.text_size = 0
        """Characters of the template that were filled in."""

    @property
    def node(self) -> Node | None:
        return self.run.tree.nodes.get(self.id)

    @property
    def is_fulfilled(self) -> bool:
        node = self.node
        return node is not None and is_fulfilled(node)

    def start(self) -> None:
        if self._prepare():
            self.enter()

    def restore(self) -> None:
        """Restores a call whose node exists."""
        node = self.run.tree.nodes[self.id]
        if is_ended(node):
            return
        if not self._prepare():
            return
        if (node.get("synchronizationStatus") or {}).get("waiting"):
            self.run.run_locks.wait(self, str(node["synchronizationStatus"]["waiting"]))
            return
        self._restore_locks()
        self.work = self.run.work_for(self)
        self.work.restore()

    def enter(self) -> None:
        """Runs the template, unless it waits for a lock or its result is memoized."""
        unlocked = True
        if self.template.get("synchronization"):
            unlocked = self._acquire_locks()
        if not unlocked:
            return
        if self.template.get("memoize") and self._is_memoized():
            return
        self.work = self.run.work_for(self)
        self.work.start()

    def work_changed(self, work: Work) -> None:
        node = self.run.tree.nodes[self.id]
        if work.error:
            self.error = work.error
        if is_fulfilled(node):
            self.run.run_locks.release(self)
        self.caller.call_changed(self)

    def fail(self, message: str) -> None:
        """The template cannot run at all."""
        self.error = message
        if self.node is not None:
            self.run.tree.mark(self.id, "Error", message)
        else:
            self.new_node(self.name, "Skipped", "Error", None, message)
        self.caller.call_changed(self)

    def new_node(
        self, name: str, kind: NodeType, phase: Phase, template: Template | None, message: str = "",
        flag: dict[str, bool] | None = None,
    ) -> Node:  # fmt: skip
        node = self.run.new_node(name, kind, phase, self.holder, self.context, self.boundary, message)
        flag = flag if flag is not None else self.flag
        if flag is not None:
            node["nodeFlag"] = flag
        if template is not None:
            self._describe(node, template)
        return self.run.tree.add(node)

    def _describe(self, node: Node, template: Template) -> None:
        inputs = without_marks(template.get("inputs") or {})
        filled = {field: inputs[field] for field in ("parameters", "artifacts") if inputs.get(field)}
        if filled:
            node["inputs"] = filled
        if self.memo is not None:
            node["memoizationStatus"] = self.memo
        elif template.get("memoize"):
            memoize = without_marks(template["memoize"])
            cache = ((memoize.get("cache") or {}).get("configMap") or {}).get("name") or ""
            node["memoizationStatus"] = {"hit": False, "key": str(memoize.get("key") or ""), "cacheName": cache}
        shown = without_marks((template.get("annotations") or {}).get(_DISPLAY_NAME))
        if shown and node["type"] != "Container":
            node["displayName"] = shown

    def _prepare(self) -> bool:
        """Finds the template and fills in its inputs."""
        deepest = self.run.budgets.workflow_depth
        if self.depth >= deepest:
            levels = f"templates may be nested {deepest - 1} levels deep: see {setting_name('workflow_depth')}"
            self.fail(f"Maximum recursion depth exceeded: {levels} in config.yaml")
            return False
        before = text_created()
        try:
            self.inner, template = self.run.templates.resolve(self.holder, self.context)
            self.template = self._fill_inputs(template)
            self.text_size = text_created() - before
        except (WorkflowError, ExpressionError) as error:
            self.fail(error_message(error))
            return False
        return True

    def _fill_inputs(self, template: Template) -> Template:
        own = {"node.name": self.name}
        if type_of(template) in POD_TYPES and not self.run.retry_strategy(template):
            own["pod.name"] = self.run.pod_name(self.name, template)
        step = str(self.holder.get("name") or "")
        if step:
            own["tasks.name"] = own["steps.name"] = step
        self.run.clock.seed(self.id)
        plain = self.run.templates.takes_only_inputs(template)
        filled = fill_inputs(
            template,
            self.arguments,
            self.run.variables,
            own,
            self.run.config_map,
            self.run.clock.expressions,
            takes_only_inputs=plain,
        )
        if self.run.view.restricted:
            check_reserved_names(template, filled)
        shown = (filled.get("annotations") or {}).get(_DISPLAY_NAME)
        if shown and not _VALID_DISPLAY_NAME.match(shown):
            raise WorkflowError(f"displayName must match the regex {_VALID_DISPLAY_NAME.pattern}")
        return filled

    def _locks(self) -> list[Lock]:
        return locks_of(without_marks(self.template["synchronization"]), self.run.namespace)

    def _acquire_locks(self) -> bool:
        """Acquires all locks. If one is taken, the node waits and the result is False."""
        try:
            waiting = self.run.run_locks.acquire(self.id, self._locks())
        except WorkflowError as error:
            self.fail(error_message(error))
            return False
        if waiting is None:
            if self.node is not None:
                self.run.tree.change(self.id, synchronizationStatus=None, message=None)
            return True
        lock, message = waiting
        if self.node is None:
            kind: NodeType = "Retry" if self.run.retry_strategy(self.template) else node_type(self.template)
            self.new_node(self.name, kind, "Pending", self.template, message)
        self.run.tree.change(self.id, synchronizationStatus={"waiting": lock}, message=message)
        self.run.run_locks.wait(self, lock)
        self.caller.call_changed(self)
        return False

    def _restore_locks(self) -> None:
        if self.template.get("synchronization"):
            try:
                self.run.run_locks.restore(self.id, self._locks())
            except WorkflowError as error:
                self.fail(error_message(error))

    def _is_memoized(self) -> bool:
        try:
            self.memo, outputs = self.run.find_memo(without_marks(self.template["memoize"]))
        except WorkflowError as error:
            self.fail(error_message(error))
            return True
        if self.memo is None or not self.memo["hit"]:
            if self.node is not None:
                self.run.tree.change(self.id, memoizationStatus=self.memo)
            return False
        if self.node is None:
            kind: NodeType = "Retry" if self.run.retry_strategy(self.template) else node_type(self.template)
            self.new_node(self.name, kind, "Pending", self.template)
        self.run.tree.change(self.id, memoizationStatus=self.memo, outputs=outputs or None)
        self.run.tree.mark(self.id, "Succeeded")
        self.run.add_outputs(outputs)
        self.run.run_locks.release(self)
        self.caller.call_changed(self)
        return True
