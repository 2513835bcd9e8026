"""What the tasks of a DAG know of one another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from muster.workflows.engine.errors import Refused
from muster.workflows.engine.graph import Graph
from muster.workflows.engine.phases import is_ended, is_fulfilled
from muster.workflows.engine.scope import Scope, mentioned
from muster.workflows.engine.work import Work


class TaskScopes:
    """Looks only at tasks that somebody names: a task may have thousands before it."""

    def __init__(self, dag: Work, graph: Graph) -> None:
        self._dag = dag
        self._graph = graph
        self._known: dict[str, Scope] = {}

    def seen_by(self, text: Mapping[str, Any]) -> Scope:
        """The inputs of the template, the outputs of the workflow, and of the tasks that are done those that the text
        names."""
        scope = Scope(self._dag.template)
        scope.add_outputs("workflow", self._dag.run.outputs)
        names = mentioned(json.dumps(text, ensure_ascii=False, default=str))
        for name in self._graph.tasks if names is None else names:
            known = self._of(name)
            if known is not None:
                scope.include(known)
        return scope

    def _of(self, task: str) -> Scope | None:
        if task in self._known:
            return self._known[task]
        tree = self._dag.run.tree
        node = tree.named(f"{self._dag.name}.{task}") if task in self._graph.tasks else None
        if node is None or not is_fulfilled(node):
            return None
        scope, prefix = Scope(), f"tasks.{task}"
        if node["type"] == "TaskGroup":
            own = f"{node['name']}("
            scope.add_loop(prefix, [n for n in tree.children(node["id"]) if n["name"].startswith(own)])
        scope.add_node(prefix, node, tree)
        if node["phase"] in ("Skipped", "Omitted") and not node.get("outputs"):
            self._add_skipped(scope, prefix, self._graph.tasks[task])
        if is_ended(node):
            self._known[task] = scope
        return scope

    def _add_skipped(self, scope: Scope, prefix: str, task: Mapping[str, Any]) -> None:
        try:
            _, template = self._dag.run.templates.resolve(task, self._dag.call.inner)
        except Refused:
            return
        scope.add_skipped(prefix, template, with_artifacts=False)
