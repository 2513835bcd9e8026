"""Where templates are found: in the workflow, in a WorkflowTemplate it refers to, or inline in a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.kube.objects import Object, spec_of
from muster.workflows.engine.arguments import takes_only_inputs
from muster.workflows.engine.errors import Refused
from muster.workflows.engine.merging import merged
from muster.workflows.model import NodeType, Template, World

TYPES = ("container", "containerSet", "steps", "dag", "script", "resource", "data", "suspend", "http", "plugin")
POD_TYPES = frozenset(("container", "containerSet", "script", "resource", "data"))
_NODE_TYPES: Mapping[str, NodeType] = {
    "steps": "Steps",
    "dag": "DAG",
    "suspend": "Suspend",
    "http": "HTTP",
    "plugin": "Plugin",
}


class Context(NamedTuple):
    """Where the names of templates are looked up."""

    kind: str
    """`local`: the workflow itself; `namespaced`: a WorkflowTemplate; `cluster`: a ClusterWorkflowTemplate."""
    name: str

    @property
    def scope(self) -> str:
        """As a node's templateScope has it."""
        return f"{self.kind}/{self.name}"


def type_of(template: Template) -> str:
    """Which of the kinds of templates it is; '' for none."""
    for name in TYPES:
        if template.get(name) is not None:
            return name
    return ""


def node_type(template: Template) -> NodeType:
    """The type of the node that does a template's work."""
    return _NODE_TYPES.get(type_of(template), "Pod")


class Templates:
    """The templates of one run. What is found outside of the workflow is stored: it may change while the run lasts."""

    def __init__(self, spec: Object, stored: Mapping[str, Template]) -> None:
        self.spec = spec
        self.stored = dict(stored)
        self.world: World | None = None
        self.stored_more = False
        self._local = {t.get("name"): t for t in spec.get("templates") or ()}
        self._ready: dict[str, Template] = {}
        self._plain: set[int] = set()

    def resolve(self, holder: Mapping[str, Any], context: Context) -> tuple[Context, Template]:
        """The template that a step, task or hook names, its defaults filled in, and the context in which that one
        looks for others. Raises Refused."""
        inline, ref, name = holder.get("inline"), holder.get("templateRef"), holder.get("template")
        if inline is not None:
            return context, self._inline(inline, holder, context)
        if ref:
            inner = Context("cluster" if ref.get("clusterScope") else "namespaced", str(ref.get("name") or ""))
            return inner, self._found(inner, str(ref.get("template") or ""))
        if name:
            return context, self._found(context, str(name))
        raise Refused(f"'{holder.get('name') or ''}' names no template: it needs template, templateRef or inline")

    def takes_only_inputs(self, template: Template) -> bool:
        """Whether a template that `resolve` found names nothing but its own inputs and outputs."""
        return id(template) in self._plain

    def _inline(self, inline: Template, holder: Mapping[str, Any], context: Context) -> Template:
        if context.kind != "local":
            key = f"{context.scope}/inline/{holder.get('name') or ''}"
            if key not in self.stored:
                self._store(key, inline)
        return self._completed(inline)

    def _found(self, context: Context, name: str) -> Template:
        key = f"{context.scope}/{name}"
        if key not in self._ready:
            template = (
                self._local_template(name) if context.kind == "local" else self._outer_template(context, name, key)
            )
            ready = self._ready[key] = self._completed(template)
            if takes_only_inputs(ready):
                self._plain.add(id(ready))
        return self._ready[key]

    def _local_template(self, name: str) -> Template:
        template = self._local.get(name)
        if template is None:
            raise Refused(f"template {name} not found")
        return _with_pod_metadata(template, self.spec)

    def _outer_template(self, context: Context, name: str, key: str) -> Template:
        if key in self.stored:
            return self.stored[key]
        found = self.world.template(context.name, cluster_scope=context.kind == "cluster") if self.world else None
        if found is None:
            raise Refused(
                f"{'cluster ' if context.kind == 'cluster' else ''}workflow template {context.name} not found"
            )
        spec = spec_of(found)
        template = next((t for t in spec.get("templates") or () if t.get("name") == name), None)
        if template is None:
            raise Refused(f"template {name} not found in workflow template {context.name}")
        template = _with_pod_metadata(template, spec)
        self._store(key, template)
        return template

    def _store(self, key: str, template: Template) -> None:
        self.stored = {**self.stored, key: template}
        self.stored_more = True

    def _completed(self, template: Template) -> Template:
        kind = type_of(template)
        if not kind:
            raise Refused(
                f"template '{template.get('name') or ''}' has no type: it needs one of {', '.join(TYPES[:-1])}"
            )
        defaults = self.spec.get("templateDefaults")
        if not defaults:
            return template
        fitting = {name: value for name, value in defaults.items() if name not in TYPES or name == kind}
        completed: Template = merged(fitting, template)
        return completed


def _with_pod_metadata(template: Template, spec: Object) -> Template:
    extra = spec.get("podMetadata")
    if not extra:
        return template
    own = template.get("metadata") or {}
    joined = {
        field: {**(extra.get(field) or {}), **(own.get(field) or {})}
        for field in ("labels", "annotations")
        if extra.get(field) or own.get(field)
    }
    return {**template, "metadata": {**own, **joined}}
