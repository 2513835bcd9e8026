"""A step or task with its lifecycle hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from muster.workflows.engine import node_tree
from muster.workflows.engine.call import Call
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.node_tree import is_completed, is_fulfilled
from muster.workflows.engine.scope import Scope, last_attempt, resolve_arguments
from muster.workflows.engine.templates import Context
from muster.workflows.engine.work_queue import Caller
from muster.workflows.lang.environment import evaluate_bool
from muster.workflows.lang.errors import ExpressionError

if TYPE_CHECKING:
    from muster.workflows.engine.run import Run

_EXIT = "exit"
HOOKS = 1 << 60
"""Sorts hooks after everything else inside a step."""


class Child:
    """Settled once its node and its hooks are fulfilled."""

    __slots__ = ("call", "error", "hooks", "id", "name", "run", "settled", "step")

    def __init__(self, run: Run, name: str, step: Mapping[str, Any], call: Call | None) -> None:
        self.run = run
        self.name = name
        self.id = run.tree.id_of(name)
        self.step = step
        self.call = call
        self.settled = False
        self.error = ""
        """Why one of its hooks could not run at all."""
        self.hooks: dict[str, Call] | None = {} if step.get("hooks") or step.get("onExit") else None
        if call is not None:
            call.child = self

    @property
    def exists(self) -> bool:
        return self.id in self.run.tree.nodes

    def restore_hooks(self, maker: HookFactory) -> None:
        """Restores the hooks whose nodes exist."""
        if self.hooks is None:
            return
        for event, hook in _hooks_of(self.step, self.run.spec).items():
            call = maker.new_hook(self, event, hook, {})
            if call.node is not None:
                call.arguments = maker.arguments(self, hook) if not call.is_fulfilled else {}
                self.hooks[event] = call
                call.restore()

    def update(self, maker: HookFactory, *, early: bool) -> bool:
        """Runs the hooks whose condition holds. Returns whether the child is settled. With `early`, hooks may run while
        it is Pending."""
        if self.settled:
            return True
        node = self.run.tree.nodes[self.id]
        fulfilled = is_fulfilled(node)
        if self.hooks is not None and (fulfilled or early or node["phase"] == "Running"):
            self._run_hooks(maker, is_over=is_completed(node))
        if not fulfilled:
            return False
        self.settled = self.hooks is None or all(hook.is_fulfilled for hook in self.hooks.values())
        return self.settled

    def _run_hooks(self, maker: HookFactory, *, is_over: bool) -> None:
        assert self.hooks is not None
        for event, hook in _hooks_of(self.step, self.run.spec).items():
            if event in self.hooks:
                self.error = self.error or self.hooks[event].error
                continue
            if event == _EXIT and not (is_over and self.run.may_execute(True)):
                continue
            try:
                if not self._is_due(event, hook, maker):
                    continue
                call = maker.new_hook(self, event, hook, maker.arguments(self, hook))
            except (WorkflowError, ExpressionError) as error:
                self.error = error_message(error)
                return
            self.hooks[event] = call
            call.start()
            self.run.tree.link(self.id, call.id)
            self.error = self.error or call.error

    def _is_due(self, event: str, hook: Mapping[str, Any], maker: HookFactory) -> bool:
        expression = hook.get("expression")
        if not expression:
            if event != _EXIT:
                raise WorkflowError(f"Expression required for hook {node_tree.hook(self.name, event)}")
            return True
        return evaluate_bool(
            str(expression), maker.scope_of(self).texts(self.run.variables), self.run.clock.expressions
        )


class HookFactory:
    """Creates the hooks of the steps or tasks of one template."""

    def __init__(
        self, run: Run, caller: Caller, context: Context, boundary: str, depth: int, word: str,
        scope_of: Callable[[Child], Scope],
    ) -> None:  # fmt: skip
        self.run = run
        self.caller = caller
        self.context = context
        self.boundary = boundary
        self.depth = depth
        self.word = word
        self.base_scope_of = scope_of

    def scope_of(self, child: Child) -> Scope:
        """Returns what a hook's expression sees: the scope of the step, and the step's own state."""
        scope = Scope()
        scope.include(self.base_scope_of(child))
        prefix, node = self.prefix(child), self.run.tree.nodes[child.id]
        scope.add_node(prefix, last_attempt(node, self.run.tree) or node, self.run.tree)
        scope.parameters[f"{prefix}.status"] = node["phase"]
        return scope

    def prefix(self, child: Child) -> str:
        return f"{self.word}.{child.step.get('name')}"

    def arguments(self, child: Child, hook: Mapping[str, Any]) -> dict[str, Any]:
        arguments = hook.get("arguments") or {}
        if not arguments:
            return {}
        return resolve_arguments(arguments, self.scope_of(child), self.run.variables, self.run.clock.expressions)

    def new_hook(self, child: Child, event: str, hook: Mapping[str, Any], arguments: Mapping[str, Any]) -> Call:
        is_exit = event == _EXIT
        call = Call(
            self.run,
            self.caller,
            node_tree.on_exit(child.name) if is_exit else node_tree.hook(child.name, event),
            holder_of(hook),
            self.context,
            arguments,
            boundary=self.boundary,
            on_exit=is_exit,
            flag={"hooked": True},
            depth=self.depth,
            position=(*(child.call.position if child.call is not None else ()), HOOKS, int(is_exit)),
        )
        call.child = child
        return call


def holder_of(hook: Mapping[str, Any]) -> dict[str, Any]:
    return {field: hook[field] for field in ("template", "templateRef") if hook.get(field)}


def exit_hook(holder: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the exit hook of a step, a task or the workflow. Without arguments of its own it gets the workflow's."""
    if holder.get("onExit"):
        return {"template": holder["onExit"], "arguments": arguments}
    hook = (holder.get("hooks") or {}).get(_EXIT)
    if hook is None:
        return None
    own = hook.get("arguments") or {}
    return hook if own.get("parameters") or own.get("artifacts") else {**hook, "arguments": arguments}


def _hooks_of(step: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    hooks = {event: hook for event, hook in (step.get("hooks") or {}).items() if event != _EXIT}
    last = exit_hook(step, spec.get("arguments") or {})
    return {**hooks, _EXIT: last} if last is not None else hooks
