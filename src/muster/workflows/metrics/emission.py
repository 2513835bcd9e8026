"""Tells the registry what begins and what ends in a run. To be asked after every step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from muster.kube.objects import Object
from muster.workflows.engine.errors import Refused
from muster.workflows.engine.run import Run
from muster.workflows.engine.templates import Context
from muster.workflows.metrics.registry import Registry
from muster.workflows.model import Node

_ENDED = frozenset(("Succeeded", "Failed", "Error"))
_SILENT = frozenset(("StepGroup", "TaskGroup", "Skipped", "Container"))


class Emitter:
    """One for each run that is loaded. What has ended before that has been counted before."""

    def __init__(self, registry: Registry, run: Run) -> None:
        self._registry = registry
        self._begun = {key for key, node in run.nodes.items() if node.get("startedAt")}
        self._ended = {key for key, node in run.nodes.items() if node.get("phase") in _ENDED}
        self._is_begun = bool(run.nodes)
        self._known: dict[tuple[str, ...], Sequence[Mapping[str, Any]]] = {}

    def emit(self, workflow: Object, run: Run, changed: Iterable[str], now: datetime) -> list[str]:
        """Of the nodes that a step has changed, and of the workflow itself. Answers what is wrong with any metric."""
        problems: list[str] = []
        told = {**workflow, "status": run.status}
        for key in changed:
            node = run.nodes[key]
            if node.get("type") in _SILENT or (node.get("nodeFlag") or {}).get("retried"):
                continue
            has_ended = node.get("phase") in _ENDED
            if key in (self._ended if has_ended else self._begun):
                continue
            (self._ended if has_ended else self._begun).add(key)
            metrics = self._metrics_of(run, node)
            if metrics:
                problems += self._registry.record(told, node, metrics, run.variables, now=now, has_ended=has_ended)
        own = (run.spec.get("metrics") or {}).get("prometheus") or ()
        if own and (run.finished or not self._is_begun):
            problems += self._registry.record(told, None, own, run.variables, now=now, has_ended=run.finished)
        self._is_begun = True
        return problems

    def _metrics_of(self, run: Run, node: Node) -> Sequence[Mapping[str, Any]]:
        """Looked up once for all nodes of a template."""
        ref = node.get("templateRef") or {}
        place = (
            str(node.get("templateScope")),
            str(node.get("templateName") or ""),
            str(ref.get("name") or ""),
            str(ref.get("template") or ""),
        )
        if place not in self._known:
            kind, _, name = place[0].partition("/")
            holder = {"templateRef": ref} if ref else {"template": place[1]}
            try:
                _, template = run.templates.resolve(holder, Context(kind, name))
                self._known[place] = (template.get("metrics") or {}).get("prometheus") or ()
            except Refused:  # an inline template has no name to be found by
                self._known[place] = ()
        return self._known[place]
