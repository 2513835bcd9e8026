"""What steps and dag templates have in common: a node whose children run other templates."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from muster.workflows.engine.call import Call
from muster.workflows.engine.errors import WorkflowError, error_message
from muster.workflows.engine.hooks import Child, HookFactory
from muster.workflows.engine.scope import Scope, mentioned_steps, resolve_outputs
from muster.workflows.engine.work_queue import Caller, Work
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.model import NodeType, Outputs, Phase

FAIL_FAST = "template has failed or errored children and failFast enabled"


class CompositeNode(Work, Caller):
    prefix: ClassVar[str]
    """How children refer to one another: `steps` or `tasks`."""

    def call_changed(self, call: Call) -> None:
        if call.child is not None:
            self.changed_children.append(call.child)
            self.run.queue.add(self)

    def variables_for(self, text: Mapping[str, Any]) -> Scope:
        """Returns the template's inputs, the workflow's outputs, and the results of the children that the text refers
        to. The scopes of others are not built: there may be thousands."""
        scope = Scope(self.template)
        scope.add_outputs("workflow", self.run.outputs)
        names = mentioned_steps(json.dumps(text, ensure_ascii=False, default=str))
        for name in self.child_names() if names is None else names:
            known = self.scope_of(name)
            if known is not None:
                scope.include(known)
        return scope

    @abstractmethod
    def child_names(self) -> Iterable[str]:
        """Returns the steps or tasks whose results may be known."""

    @abstractmethod
    def scope_of(self, name: str) -> Scope | None:
        """Returns the results of a step or task, or None while there are none."""

    @abstractmethod
    def outbound_nodes(self) -> list[str]:
        """Returns the nodes at the end of the template, to which the next ones are linked."""

    def prepare_children(self) -> None:
        self.changed_children: deque[Child] = deque()
        """Children whose node has changed."""
        self.hooks = HookFactory(
            self.run,
            self,
            self.call.inner,
            self.id,
            self.call.depth + 1,
            self.prefix,
            lambda child: self.variables_for(child.step),
        )

    @property
    def is_failing_fast(self) -> bool:
        return bool(self.template.get("failFast")) and self.run.tree.counts[self.id].failed > 0

    def new_child(self, name: str, step: Mapping[str, Any], *position: int) -> Child:
        call = Call(
            self.run,
            self,
            name,
            step,
            self.call.inner,
            step.get("arguments"),
            boundary=self.id,
            on_exit=self.call.on_exit,
            depth=self.call.depth + 1,
            position=(*self.call.position, *position),
        )
        return Child(self.run, name, step, call)

    def restore_child(self, child: Child) -> None:
        if child.call is not None and child.call.node is not None:
            child.call.restore()
        child.restore_hooks(self.hooks)
        self.changed_children.append(child)

    def add_node(self, name: str, kind: NodeType, phase: Phase, step: Mapping[str, Any], message: str = "") -> None:
        """Adds a node that runs no template: a group, or a child that is skipped."""
        node = self.run.new_node(name, kind, phase, step, self.call.inner, self.id, message)
        node["nodeFlag"] = {}
        self.run.tree.add(node)

    def add_skipped_outputs(self, scope: Scope, name: str, step: Mapping[str, Any], *, with_artifacts: bool) -> None:
        """Adds the declared outputs of a step or task that did not run."""
        try:
            _, template = self.run.templates.resolve(step, self.call.inner)
        except WorkflowError:
            return
        scope.add_skipped(f"{self.prefix}.{name}", template, with_artifacts=with_artifacts)

    def outputs(self) -> Outputs | None:
        """Returns the template's outputs, once its children have ended. Raises WorkflowError and ExpressionError."""
        scope = self.variables_for(self.template["outputs"]) if self.template.get("outputs") else Scope()
        return resolve_outputs(self.template, scope, self.run.variables, self.run.clock.expressions)

    def succeed(self) -> None:
        try:
            outputs = self.outputs()
        except (WorkflowError, ExpressionError) as error:
            self.fail_body(error_message(error))
            return
        if outputs is not None:
            self.run.tree.change(self.id, outputs=outputs)
            self.run.add_outputs(outputs)
        self.finish("Succeeded")
        self.run.store_memo(self.node)

    def finish(self, phase: Phase, message: str | None = None) -> None:
        self._wind_up()
        self.run.live.pop(self.id, None)
        self.run.tree.close(self.id, phase, message)
        self.parent.work_changed(self)

    def fail_body(self, message: str) -> None:
        """Ends as an Error after children have run."""
        self._wind_up()
        self.fail(message)

    def _wind_up(self) -> None:
        self.run.tree.change(self.id, outboundNodes=self.outbound_nodes() or None)
        self.run.daemons.dismiss(self.id)
