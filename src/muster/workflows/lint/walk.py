"""Walks through a workflow: which template a step runs, and every template once, in Argo's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from muster.kube.objects import Object, name_of
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.tags import substitute
from muster.workflows.lint.field_rules import Findings, Globals, Scope
from muster.workflows.lint.inputs_outputs import add_global_outputs, visible_suffixes

Lookup: TypeAlias = Callable[[str, bool], Object | None]
"""(name, cluster_scope) -> the WorkflowTemplate or ClusterWorkflowTemplate of this name."""


@dataclass(slots=True, eq=False)
class Holder:
    """An object with templates."""

    key: str
    spec: Mapping[str, Any]
    path: str
    findings: Findings
    defaults: Mapping[str, Any]
    """Its templateDefaults. Argo ignores those of a ClusterWorkflowTemplate that another one refers to."""
    templates: dict[str, tuple[str, Mapping[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        self.templates = {}
        for index, template in enumerate(self.spec.get("templates") or ()):
            self.templates.setdefault(template.get("name") or "", (f"{self.path}.templates[{index}]", template))


@dataclass(slots=True, eq=False)
class Frame:
    """A template that is being checked."""

    template: Mapping[str, Any]
    path: str
    holder: Holder
    values: Mapping[str, str]
    """Known values of its tags."""
    visible: frozenset[str] = frozenset()
    """Names it sees from the template it is written in."""
    is_entrypoint: bool = False

    @property
    def name(self) -> str:
        return str(self.template.get("name") or "")

    def filled(self, text: str) -> str:
        """Returns the text with its known tags filled in."""
        if "{{" not in text:
            return text
        try:
            return str(substitute(text, self.values, allow_unresolved=True))
        except ExpressionError:
            return text


@dataclass(slots=True, eq=False)
class Callee:
    """What a step runs. Without a frame it is unknown; `open` if only the object was not available."""

    frame: Frame | None = None
    open: bool = False


class TemplateWalk:
    def __init__(self, everywhere: Globals, lookup: Lookup | None) -> None:
        self.everywhere = everywhere
        self._lookup = lookup
        self._visited: set[tuple[str, str]] = set()
        self._holders: dict[tuple[str, bool], Holder | None] = {}
        self._suffixes: dict[int, tuple[list[str], list[str]]] = {}

    def run(self, visit: Callable[[TemplateWalk, Frame], Iterator[Frame]], frame: Frame) -> None:
        """Visits a template and, before it continues, each template it asks for. Uses a stack, because templates may be
        nested deeper than Python's recursion limit."""
        open_visits = [visit(self, frame)]
        while open_visits:
            wanted = next(open_visits[-1], None)
            if wanted is None:
                open_visits.pop()
            else:
                open_visits.append(visit(self, wanted))

    def is_first_visit(self, frame: Frame) -> bool:
        key = (frame.holder.key, frame.path)
        if key in self._visited:
            return False
        self._visited.add(key)
        return True

    def resolve(self, step: Mapping[str, Any], caller: Frame, path: str) -> Callee:
        """Returns what a step, task or hook runs, and reports problems of the reference."""
        findings, holder = caller.holder.findings, caller.holder
        reference, name, inline = step.get("templateRef"), step.get("template") or "", step.get("inline")
        if reference is not None:
            if name:
                findings.add(
                    f"{path}.template", "template name cannot be specified with templateRef.; keep one of them"
                )
                return Callee()
            return self._referenced(reference, caller, f"{path}.templateRef")
        named = self.named(name, caller, f"{path}.template") if name else None
        if name and named is None:
            return Callee()
        if inline is not None:
            return Callee(Frame(inline, f"{path}.inline", holder, caller.values, _inputs(caller)))
        if named is None:
            findings.add(path, "failed to get a template: write template, templateRef or inline")
            return Callee()
        return Callee(named)

    def named(self, name: str, caller: Frame, path: str) -> Frame | None:
        """Returns a template of the same object."""
        name, holder = caller.filled(name), caller.holder
        found = holder.templates.get(name)
        if found is None:
            meant = holder.findings.suggestion(name, holder.templates)
            holder.findings.add(path, f"template name '{name}' undefined{meant}")
            return None
        return Frame(found[1], found[0], holder, self.everywhere.values)

    def holder(self, name: str, cluster_scope: bool, findings: Findings, at: str) -> Holder | None:
        """Returns a template object by name; None if it does not exist or cannot be looked up."""
        key = (name, cluster_scope)
        if key not in self._holders:
            found = self._lookup(name, cluster_scope) if self._lookup else None
            self._holders[key] = None if found is None else holder_of(found, findings, at)
        return self._holders[key]

    @property
    def can_look_up(self) -> bool:
        return self._lookup is not None

    def add_outputs(self, scope: Scope, callee: Callee, prefix: str, *, of_items: bool) -> None:
        """Returns what other steps or tasks of the template see of this one."""
        if callee.open:
            scope.open.add(f"{prefix}.")
            return
        template = callee.frame.template if callee.frame is not None else {}
        suffixes = self._suffixes.get(id(template))
        if suffixes is None:
            suffixes = visible_suffixes(template)
            if callee.frame is not None:
                self._suffixes[id(template)] = suffixes
        names = scope.names
        for suffix in suffixes[0]:
            names.add(prefix + suffix)
        if callee.frame is None:
            return
        if of_items:
            names.update(prefix + suffix for suffix in suffixes[1])
        if template.get("outputs"):
            add_global_outputs(template, scope)

    def _referenced(self, reference: Mapping[str, Any], caller: Frame, path: str) -> Callee:
        findings = caller.holder.findings
        name = caller.filled(reference.get("name") or "")
        template = caller.filled(reference.get("template") or "")
        if not name:
            findings.add(f"{path}.name", "resource name is required")
        if not template:
            findings.add(f"{path}.template", "template name is required")
        if not name or not template or "{{" in name or "{{" in template:
            return Callee()
        if not self.can_look_up:
            return Callee(open=True)
        cluster_scope = bool(reference.get("clusterScope"))
        holder = self.holder(name, cluster_scope, findings, path)
        kind = "ClusterWorkflowTemplate" if cluster_scope else "WorkflowTemplate"
        if holder is None:
            message = f'template reference {name}.{template} not found: there is no {kind} "{name}"'
            findings.add(f"{path}.name", message)
            return Callee()
        found = holder.templates.get(template)
        if found is None:
            meant = findings.suggestion(template, holder.templates)
            message = f'template reference {name}.{template} not found: {kind} "{name}" has no such template{meant}'
            findings.add(f"{path}.template", message)
            return Callee()
        return Callee(Frame(found[1], found[0], holder, self.everywhere.values))


def holder_of(obj: Object, findings: Findings, at: str) -> Holder:
    """An object that others take templates from; its problems are reported at the field `at`."""
    kind, spec = obj.get("kind") or "WorkflowTemplate", obj.get("spec") or {}
    title = f'{kind} "{name_of(obj)}"'
    defaults = {} if kind == "ClusterWorkflowTemplate" else spec.get("templateDefaults") or {}
    return Holder(title, spec, "spec", findings.elsewhere(at, title), defaults)


def _inputs(frame: Frame) -> frozenset[str]:
    names = {f"inputs.parameters.{p.get('name')}" for p in (frame.template.get("inputs") or {}).get("parameters") or ()}
    return frame.visible | names
