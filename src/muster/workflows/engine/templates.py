"""Finds templates: in the workflow, in a WorkflowTemplate it refers to, or inline in a step; and merges specs and
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.kube.objects import Object, spec_of
from muster.workflows.engine.arguments import takes_only_inputs
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.model import ClusterView, NodeType, Template

_KEYS = {
    "templates": "name",
    "parameters": "name",
    "artifacts": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "sidecars": "name",
    "containers": "name",
    "tasks": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "tolerations": "key",
}
"""Lists that are merged by item, and the field that identifies an item. Other lists are replaced."""


def merge_specs(base: Any, over: Any, name: str = "") -> Any:
    """Returns `over` merged over `base`; neither is changed."""
    if isinstance(base, dict) and isinstance(over, dict):
        out = dict(base)
        for field, value in over.items():
            out[field] = merge_specs(base[field], value, field) if field in base else value
        return out
    key = _KEYS.get(name)
    if key is not None and isinstance(base, list) and isinstance(over, list):
        return _merge_lists(base, over, key)
    return base if over is None else over


def merge_workflow_spec(spec: Object, template_spec: Object) -> Object:
    """Returns the spec of a Workflow with a `workflowTemplateRef`: its own merged over the template's. An argument's
    value, valueFrom and default are taken from one of the two only."""
    out: Object = merge_specs(template_spec, spec)
    hooks = {**(template_spec.get("hooks") or {}), **(spec.get("hooks") or {})}
    if hooks:
        out["hooks"] = hooks
    out.pop("suspend", None)
    if spec.get("suspend") is not None:
        out["suspend"] = spec["suspend"]
    parameters = (out.get("arguments") or {}).get("parameters")
    if parameters:
        mine = {p["name"]: p for source in (template_spec, spec) for p in _with_value(source)}
        out["arguments"] = {**out["arguments"], "parameters": [mine.get(p["name"], p) for p in parameters]}
    return out


def _with_value(spec: Object) -> list[Object]:
    parameters = (spec.get("arguments") or {}).get("parameters") or []
    return [p for p in parameters if any(p.get(f) is not None for f in ("value", "valueFrom", "default"))]


def _merge_lists(base: list[Any], over: list[Any], key: str) -> list[Any]:
    mine = {item.get(key): item for item in over if isinstance(item, dict)}
    known = {item.get(key) for item in base if isinstance(item, dict)}
    kept = [
        merge_specs(item, mine[item.get(key)]) if isinstance(item, dict) and item.get(key) in mine else item
        for item in base
    ]
    return kept + [item for item in over if not (isinstance(item, dict) and item.get(key) in known)]


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
    """Where template names are looked up."""

    kind: str
    """`local`: the workflow itself; `namespaced`: a WorkflowTemplate; `cluster`: a ClusterWorkflowTemplate."""
    name: str

    @property
    def scope(self) -> str:
        """The value of a node's templateScope."""
        return f"{self.kind}/{self.name}"


def type_of(template: Template) -> str:
    """Returns the type of a template, or ''."""
    for name in TYPES:
        if template.get(name) is not None:
            return name
    return ""


def node_type(template: Template) -> NodeType:
    """Returns the type of the node that runs a template."""
    return _NODE_TYPES.get(type_of(template), "Pod")


class Templates:
    """The templates of one run. Those from outside the workflow are stored in its status, because they may change."""

    def __init__(self, spec: Object, stored: Mapping[str, Template]) -> None:
        self.spec = spec
        self.stored = dict(stored)
        self.view: ClusterView | None = None
        self.has_new_stored = False
        self._local = {t.get("name"): t for t in spec.get("templates") or ()}
        self._ready: dict[str, Template] = {}
        self._plain: set[int] = set()

    def resolve(self, holder: Mapping[str, Any], context: Context) -> tuple[Context, Template]:
        """Returns the template that a step, task or hook names, with defaults, and the context in which it looks up
        others. Raises WorkflowError."""
        inline, ref, name = holder.get("inline"), holder.get("templateRef"), holder.get("template")
        if inline is not None:
            return context, self._inline(inline, holder, context)
        if ref:
            inner = Context("cluster" if ref.get("clusterScope") else "namespaced", str(ref.get("name") or ""))
            return inner, self._find(inner, str(ref.get("template") or ""))
        if name:
            return context, self._find(context, str(name))
        raise WorkflowError(f"'{holder.get('name') or ''}' has no template: set template, templateRef or inline")

    def takes_only_inputs(self, template: Template) -> bool:
        """Whether a template that `resolve` returned refers only to its own inputs and outputs."""
        return id(template) in self._plain

    def _inline(self, inline: Template, holder: Mapping[str, Any], context: Context) -> Template:
        if context.kind != "local":
            key = f"{context.scope}/inline/{holder.get('name') or ''}"
            if key not in self.stored:
                self._store(key, inline)
        return self._with_defaults(inline)

    def _find(self, context: Context, name: str) -> Template:
        key = f"{context.scope}/{name}"
        if key not in self._ready:
            template = (
                self._local_template(name) if context.kind == "local" else self._external_template(context, name, key)
            )
            ready = self._ready[key] = self._with_defaults(template)
            if takes_only_inputs(ready):
                self._plain.add(id(ready))
        return self._ready[key]

    def _local_template(self, name: str) -> Template:
        template = self._local.get(name)
        if template is None:
            raise WorkflowError(f"template {name} not found")
        return _with_pod_metadata(template, self.spec)

    def _external_template(self, context: Context, name: str, key: str) -> Template:
        if key in self.stored:
            return self.stored[key]
        found = self.view.template(context.name, cluster_scope=context.kind == "cluster") if self.view else None
        if found is None:
            raise WorkflowError(
                f"{'cluster ' if context.kind == 'cluster' else ''}workflow template {context.name} not found"
            )
        spec = spec_of(found)
        template = next((t for t in spec.get("templates") or () if t.get("name") == name), None)
        if template is None:
            raise WorkflowError(f"template {name} not found in workflow template {context.name}")
        template = _with_pod_metadata(template, spec)
        self._store(key, template)
        return template

    def _store(self, key: str, template: Template) -> None:
        self.stored = {**self.stored, key: template}
        self.has_new_stored = True

    def _with_defaults(self, template: Template) -> Template:
        kind = type_of(template)
        if not kind:
            raise WorkflowError(
                f"template '{template.get('name') or ''}' has no type: set one of {', '.join(TYPES[:-1])}"
            )
        defaults = self.spec.get("templateDefaults")
        if not defaults:
            return template
        fitting = {name: value for name, value in defaults.items() if name not in TYPES or name == kind}
        completed: Template = merge_specs(fitting, template)
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
