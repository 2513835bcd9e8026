"""The workflow itself: its entrypoint template, its hooks and its exit handler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muster.workflows.engine import node_tree
from muster.workflows.engine.call import Call
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.hooks import HOOKS, exit_hook, holder_of
from muster.workflows.engine.node_tree import WORKFLOW_PHASE, has_failed
from muster.workflows.engine.scope import Scope, resolve_arguments
from muster.workflows.engine.synchronization import locks_of
from muster.workflows.engine.templates import Context
from muster.workflows.engine.work_queue import Caller
from muster.workflows.lang.environment import evaluate_bool
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.tags import without_marks
from muster.workflows.model import Node

if TYPE_CHECKING:
    from muster.workflows.engine.run import Run

_EXIT = "exit"


class Entrypoint(Caller):
    def __init__(self, run: Run) -> None:
        self.run = run
        self.entry: Call | None = None
        self.hooks: dict[str, Call] = {}
        self.exit: Call | None = None
        self.locked = False

    @property
    def context(self) -> Context:
        # In Argo, the copy of a workflow that takes its spec from a template has no name.
        return Context("local", "" if self.run.workflow_template_ref else self.run.name)

    def restore(self) -> None:
        if self.run.tree.find(self.run.name) is None:
            return
        self._restore_locks()
        self.entry = self._entry()
        self.entry.restore()
        self._set_result_variables()
        for event, hook in self._hook_definitions().items():
            call = self._hook(node_tree.hook(self.run.name, event), hook)
            if call.node is not None:
                self.hooks[event] = call
                call.restore()
        last = exit_hook(self.run.spec, self.run.spec.get("arguments") or {})
        if last is not None and self.run.tree.find(node_tree.on_exit(self.run.name)) is not None:
            self.exit = self._hook(node_tree.on_exit(self.run.name), last, on_exit=True)
            self.exit.restore()

    def call_changed(self, call: Call) -> None:
        self.run.queue.add(self)

    def advance(self) -> None:
        if self.run.finished or not self._acquire_locks():
            return
        if self.entry is None:
            if not self.run.may_begin(self, ()):
                return
            self.entry = self._entry()
            self.entry.start()
        if self.entry.error:
            self.run.finish("Error", f"error in entry template execution: {self.entry.error}")
            return
        node = self.entry.node
        if node is None:
            return
        self._set_result_variables()
        if not self._run_hooks() or not self.entry.is_fulfilled:
            return
        if self._run_exit():
            self._conclude(node)

    def _entry(self) -> Call:
        spec = self.run.spec
        holder = {"template": spec.get("entrypoint")}
        return Call(self.run, self, self.run.name, holder, self.context, spec.get("arguments"))

    def _acquire_locks(self) -> bool:
        if self.locked:
            return True
        written = self.run.spec.get("synchronization")
        if written:
            try:
                waiting = self.run.run_locks.acquire("", locks_of(without_marks(written), self.run.namespace))
            except WorkflowError as error:
                self.run.finish("Failed", f"Failed to acquire the synchronization lock. {error_message(error)}")
                return False
            if waiting is not None:
                if self.run.shutdown == "Terminate":
                    self.run.finish("Succeeded", "")
                elif not self.run.tree.nodes:
                    self.run.set_status(phase="Pending", message=waiting[1])
                else:
                    self.run.set_status(message=waiting[1])
                self.run.run_locks.wait_for_workflow()
                return False
        self.locked = True
        self.run.begin_running()
        return True

    def _restore_locks(self) -> None:
        """The workflow has started, so it held its locks."""
        try:
            locks = locks_of(self.run.final_spec.get("synchronization") or {}, self.run.namespace)
            self.run.run_locks.restore("", locks)
        except WorkflowError:
            return  # the first step reports the error

    def _set_result_variables(self) -> None:
        """Sets the variables that tell hooks and the exit handler how the workflow ended."""
        node = self.entry.node if self.entry is not None else None
        if node is None:
            return
        variables = self.run.variables
        variables["workflow.status"] = WORKFLOW_PHASE[node["phase"]]
        if self.run.spec.get("onExit") or self.run.spec.get("hooks"):
            variables["workflow.failures"] = json.dumps(self._failures(), ensure_ascii=False)

    def _failures(self) -> str:
        nodes = [self.run.nodes[node_id] for node_id in self.run.tree.failures]
        nodes.sort(key=lambda node: (node.get("finishedAt") or "", node["id"]))
        found = [_failure(self.run, node) for node in nodes]
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")) if found else "null"

    def _hook_definitions(self) -> dict[str, Mapping[str, Any]]:
        return {event: hook for event, hook in (self.run.spec.get("hooks") or {}).items() if event != _EXIT}

    def _run_hooks(self) -> bool:
        """Starts the hooks whose condition holds. Returns whether all started hooks have ended."""
        assert self.entry is not None
        for event, hook in self._hook_definitions().items():
            name = node_tree.hook(self.run.name, event)
            if event in self.hooks:
                continue
            try:
                if not hook.get("expression"):
                    raise WorkflowError(f"Expression required for hook {name}")
                if not evaluate_bool(str(hook["expression"]), self.run.variables, self.run.clock.expressions):
                    continue
                call = self.hooks[event] = self._hook(name, hook)
            except (WorkflowError, ExpressionError) as error:
                self.run.tree.mark(self.entry.id, "Error", error_message(error))
                return True
            call.start()
            self.run.tree.link(self.entry.id, call.id)
            if call.error:
                self.run.tree.mark(self.entry.id, "Error", call.error)
        return all(call.is_fulfilled for call in self.hooks.values())

    def _hook(self, name: str, hook: Mapping[str, Any], *, on_exit: bool = False) -> Call:
        arguments = hook.get("arguments") or {}
        if arguments:
            scope = Scope()
            scope.add_outputs("workflow", self.run.outputs)
            arguments = resolve_arguments(arguments, scope, self.run.variables, self.run.clock.expressions)
        return Call(
            self.run,
            self,
            name,
            holder_of(hook),
            self.context,
            arguments,
            on_exit=on_exit,
            flag={"hooked": True},
            position=(HOOKS, int(on_exit)),
        )

    def _run_exit(self) -> bool:
        """Runs the exit handler. Returns whether it is done or not needed."""
        last = exit_hook(self.run.spec, self.run.spec.get("arguments") or {})
        if last is None or (self.exit is None and not self.run.may_execute(True)):
            return True
        if self.exit is None:
            try:
                if last.get("expression"):
                    self.run.warn_once("ExitExpression", "hooks.exit.expression is ignored: it always runs at the end")
                self.exit = self._hook(node_tree.on_exit(self.run.name), last, on_exit=True)
            except (WorkflowError, ExpressionError) as error:
                self.run.finish("Error", f"error in exit template execution : {error_message(error)}")
                return False
            self.exit.start()
        if self.exit.error:
            self.run.finish("Error", f"error in exit template execution : {self.exit.error}")
            return False
        return self.exit.is_fulfilled

    def _conclude(self, node: Node) -> None:
        node = self.run.tree.nodes[node["id"]]
        phase = WORKFLOW_PHASE[node["phase"]]
        message = node.get("message") or ""
        if node.get("daemoned"):
            phase, message = "Succeeded", ""
        if has_failed(node) and self.run.shutdown:
            message = f"Stopped with strategy '{self.run.shutdown}'"
        last = self.exit.node if self.exit is not None else None
        if phase == "Succeeded":
            message = ""
            if last is not None and has_failed(last):
                phase, message = WORKFLOW_PHASE[last["phase"]], last.get("message") or ""
        self.run.finish(phase, message)


def _failure(run: Run, node: Node) -> dict[str, str]:
    template = str((node.get("templateRef") or {}).get("template") or node.get("templateName") or "")
    return {
        "displayName": node.get("displayName") or "",
        "message": node.get("message") or "",
        "templateName": template,
        "phase": node["phase"],
        "podName": node_tree.pod_name(run.name, node["name"], template),
        "finishedAt": node.get("finishedAt") or "",
    }
