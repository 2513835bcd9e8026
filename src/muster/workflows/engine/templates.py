"""Finds templates (in the workflow, in a WorkflowTemplate, inline) and fills in their inputs."""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple

from muster.kube.objects import Object, spec_of
from muster.kube.pod_security import PREFIX
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lang.tags import find_tags_in, mark_value, substitute, without_marks
from muster.workflows.model import ClusterView, NodeType, Template

# Fills in the inputs of a template: arguments, defaults and tags.


ABSENT = "__argo-internal.absent-optional-output__"
"""An argument that is only a reference to an output that was never produced: treated as not given."""
_PARAMETER_FIELDS = ("name", "default", "value", "valueFrom", "globalName", "enum", "description")


def to_text(value: Any) -> str:
    """Returns text as it is, and `3`, `true` and lists as JSON."""
    return value if isinstance(value, str) else to_json(value)


def parameters_json(parameters: Iterable[Mapping[str, Any]]) -> str:
    """Returns the value of `{{workflow.parameters}}` and `{{inputs.parameters}}`."""
    listed = [_parameter_fields(p) for p in parameters]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":")) if listed else "null"


def _parameter_fields(parameter: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {f: parameter[f] for f in _PARAMETER_FIELDS if parameter.get(f) is not None}
    for field in ("default", "value"):
        if field in out:
            out[field] = to_text(out[field])
    return out


ConfigMaps = Callable[[str], Mapping[str, str] | None]

_NO_LOCATION = frozenset(
    (
        "name", "path", "mode", "from", "fromExpression", "optional", "subPath", "recurseMode", "archive",
        "archiveLogs", "globalName", "deleted", "artifactGC",
    )
)  # fmt: skip
"""Fields of an artifact that are not a location."""


def fill_inputs(
    template: Template,
    arguments: Mapping[str, Any],
    variables: Mapping[str, str],
    own: MutableMapping[str, str],
    config_maps: ConfigMaps,
    clock: Clock,
    *,
    takes_only_inputs: bool = False,
) -> Template:
    """Returns the template with its inputs filled in.

    `variables` are those of the workflow, `own` those of this node (`pod.name`). `takes_only_inputs` says that the
    template refers to neither. Raises WorkflowError and ExpressionError.
    """
    inputs = template.get("inputs")
    if inputs:
        given = {p["name"]: p for p in arguments.get("parameters") or ()}
        files = {a["name"]: a for a in arguments.get("artifacts") or ()}
        filled = dict(inputs)
        if inputs.get("parameters"):
            filled["parameters"] = [
                _fill_parameter(p, given.get(p["name"]), variables, config_maps, clock) for p in inputs["parameters"]
            ]
        if inputs.get("artifacts"):
            filled["artifacts"] = [_fill_artifact(a, files.get(a["name"])) for a in inputs["artifacts"]]
        template = {**template, "inputs": filled}
    return substitute_template(template, variables, own, clock, takes_only_inputs=takes_only_inputs)


def substitute_template(
    template: Template,
    variables: Mapping[str, str],
    own: MutableMapping[str, str],
    clock: Clock,
    *,
    takes_only_inputs: bool = False,
) -> Template:
    """Substitutes the workflow's variables first, then the inputs, which may contain them."""
    scope = ChainMap(own, dict(variables) if not isinstance(variables, dict) else variables)
    if not takes_only_inputs:
        template = substitute(template, scope, allow_unresolved=True, clock=clock, mark=True)
    elif template.get("inputs"):
        filled = substitute(template["inputs"], scope, allow_unresolved=True, clock=clock, mark=True)
        template = {**template, "inputs": filled}
    inputs, outputs = template.get("inputs") or {}, template.get("outputs") or {}
    local = dict[str, str](own)
    for parameter in inputs.get("parameters") or ():
        if parameter.get("value") is not None:
            local[f"inputs.parameters.{parameter['name']}"] = without_marks(parameter["value"])
    local["inputs.parameters"] = without_marks(parameters_json(inputs.get("parameters") or ()))
    for direction, artifacts in (("inputs", inputs), ("outputs", outputs)):
        for artifact in artifacts.get("artifacts") or ():
            if artifact.get("path"):
                local[f"{direction}.artifacts.{artifact['name']}.path"] = artifact["path"]
    for parameter in outputs.get("parameters") or ():
        path = (parameter.get("valueFrom") or {}).get("path")
        if path:
            local[f"outputs.parameters.{parameter['name']}.path"] = path
    result: Template = substitute(
        template, ChainMap(local, scope.maps[1]), allow_unresolved=True, clock=clock, mark=True
    )
    return result


def takes_only_inputs(template: Template) -> bool:
    """Whether all tags of a template refer to its own inputs and outputs, so one substitution is enough."""
    try:
        found = list(find_tags_in(template))
    except ExpressionError:
        return False
    return all(not tag.is_expression and tag.path.startswith(("inputs.", "outputs.")) for tag in found)


_RESERVED_NAME = re.compile(r"muster\.dev/[\w.-]+")


def check_reserved_names(written: Template, filled: Template) -> None:
    """Raises WorkflowError if a reserved label or annotation appears only when a template of a restricted namespace is
    filled in, where the checks of what was written did not see it."""
    for field in ("labels", "annotations"):
        known = (written.get("metadata") or {}).get(field) or {}
        for name in without_marks((filled.get("metadata") or {}).get(field) or {}):
            if name.startswith(PREFIX) and name not in known:
                raise WorkflowError(f"metadata.{field}: {name} is reserved for the server")
    texts = [str((template.get("resource") or {}).get("manifest") or "") for template in (written, filled)]
    known_names, names = (set(_RESERVED_NAME.findall(without_marks(text))) for text in texts)
    if names - known_names:
        raise WorkflowError(f"resource.manifest: {min(names - known_names)} is reserved for the server")


def has_location(artifact: Mapping[str, Any]) -> bool:
    return any(value is not None for name, value in artifact.items() if name not in _NO_LOCATION)


def _fill_parameter(
    declared: Mapping[str, Any],
    given: Mapping[str, Any] | None,
    variables: Mapping[str, str],
    config_maps: ConfigMaps,
    clock: Clock,
) -> dict[str, Any]:
    parameter = dict(declared)
    name = parameter["name"]
    if parameter.get("value") is None and parameter.get("default") is not None:
        parameter["value"] = parameter["default"]
    if given is not None and given.get("value") == ABSENT:
        if parameter.get("value") is None and not parameter.get("valueFrom"):
            raise WorkflowError(
                f"inputs.parameters.{name}: argument references an absent optional "
                "(skipped/omitted node output with no default)"
            )
    elif given is not None:
        parameter.pop("value", None)
        parameter.pop("valueFrom", None)
        field = "value" if given.get("value") is not None else "valueFrom"
        if given.get(field) is not None:
            parameter[field] = given[field]
    source = parameter.get("valueFrom") or {}
    if source.get("configMapKeyRef"):
        where = f"inputs.parameters.{name}"
        parameter["value"] = mark_value(config_map_value(source, where, variables, config_maps, clock))
    elif parameter.get("value") is None:
        raise WorkflowError(f"inputs.parameters.{name} was not supplied")
    parameter["value"] = to_text(parameter["value"])
    return parameter


def config_map_value(
    source: Mapping[str, Any], where: str, variables: Mapping[str, str], config_maps: ConfigMaps, clock: Clock
) -> str:
    """Returns the value of a `configMapKeyRef`, or the default next to it. Raises WorkflowError."""
    ref = substitute(source["configMapKeyRef"], variables, clock=clock)
    data = config_maps(str(ref.get("name") or ""))
    if data is not None and ref.get("key") in data:
        return data[ref["key"]]
    if source.get("default") is not None:
        return to_text(source["default"])
    if ref.get("optional"):
        return ""
    missing = f"ConfigMap '{ref.get('name')}' does not exist" if data is None else f"it has no key '{ref.get('key')}'"
    raise WorkflowError(f"unable to retrieve {where} from ConfigMap '{ref.get('name')}': {missing}")


def _fill_artifact(declared: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    name = declared["name"]
    if not declared.get("optional") and not has_location(declared):
        if given is None:
            raise WorkflowError(f"inputs.artifacts.{name} was not supplied")
        if not has_location(given):
            raise WorkflowError(f"inputs.artifacts.{name} missing location information")
    if given is None:
        return dict(declared)
    artifact = {field: value for field, value in given.items() if field not in ("path", "mode", "recurseMode")}
    for field in ("path", "mode", "recurseMode"):
        if declared.get(field) is not None:
            artifact[field] = declared[field]
    if declared.get("optional"):
        artifact["optional"] = True
    return artifact


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


def type_of(template: Mapping[str, Any]) -> str:
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
