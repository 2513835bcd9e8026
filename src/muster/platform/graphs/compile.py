"""Compiles a version to an Argo Workflow: for a run, or to export it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from muster.kube.manifests import dump
from muster.kube.objects import Object
from muster.kube.pod_security import MOUNTS_ANNOTATION, PREFIX, RUN_LABEL
from muster.platform.graphs.argo_manifest import manifest_parameters, workflow_in
from muster.platform.graphs.bindings import (
    ENTRYPOINT,
    TOKEN,
    CompileContext,
    Literals,
    escape_tags,
    has_tag,
    plain_name,
    platform_variables,
    tasks_of,
)
from muster.platform.graphs.context import Context, RunInfo, with_modules
from muster.platform.graphs.control_flow import skippable_nodes
from muster.platform.graphs.control_flow_validation import item_problems
from muster.platform.graphs.model import FromParameter, Graph, Parameter, is_graph, read
from muster.platform.graphs.templates import (
    nodes_that_share_files,
    tasks_and_templates,
    uses_claim,
    volume_claim,
    volumes_of,
)
from muster.platform.graphs.validation import only_errors, validate_graph
from muster.platform.messages import make_finding
from muster.platform.records.workflows import Finding
from muster.workflows.kinds import WORKFLOW
from muster.workflows.task_graph import ROOT, GraphNode, Scope, TaskGraph, to_json, version_graph

MOST_VALUE_BYTES = 100_000
"""An environment variable that is larger cannot be handed to a process."""


class GraphError(ValueError):
    """The document has errors, or the values do not fit it."""

    def __init__(self, found: list[Finding]) -> None:
        super().__init__("\n".join(map(str, found)))
        self.problems = found


def parameters_of(document: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """What a run may fill in."""
    if is_graph(document):
        return read(document).parameters
    return manifest_parameters(document["manifest"])


def inspect(document: Mapping[str, Any]) -> tuple[tuple[Parameter, ...], bytes]:
    """Returns its parameters, and its graph as JSON."""
    return parameters_of(document), orjson.dumps(to_json(task_graph(document)))


def task_graph(document: Mapping[str, Any]) -> TaskGraph:
    """Returns the nodes and edges to draw. Edges to nodes that do not exist are left out."""
    if not is_graph(document):
        return version_graph(workflow_in(document["manifest"]))
    graph = read(document)
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    edges = [
        (places[edge.before], places[edge.after])
        for edge in graph.edges
        if edge.before in places and edge.after in places
    ]
    return TaskGraph({ROOT: Scope([GraphNode(node.name, node.name, type=node.kind) for node in graph.nodes], edges)})


def value_problems(document: Mapping[str, Any], values: Mapping[str, str]) -> list[Finding]:
    """Checks the values for the initial parameters of a run."""
    known = {parameter.name: parameter for parameter in parameters_of(document)}
    found = []
    for name, value in values.items():
        if name not in known:
            found.append(make_finding(f"parameters.{name}", "value.unknown", name=name, parameters=list(known)))
        elif "\0" in value:
            found.append(make_finding(f"parameters.{name}", "value.zero", name=name))
        elif len(value.encode()) > MOST_VALUE_BYTES:
            size = len(value.encode())
            found.append(make_finding(f"parameters.{name}", "value.long", name=name, size=size, most=MOST_VALUE_BYTES))
    for name, parameter in known.items():
        if parameter.required and not values.get(name, parameter.default or ""):
            found.append(make_finding(f"parameters.{name}", "value.missing", name=name))
    return found or list(_list_problems(document, values))


def _list_problems(document: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[Finding]:
    """Checks the values that loops run over. One that is not filled in is an empty list."""
    if not is_graph(document):
        return
    graph = read(document)
    known = {parameter.name: values.get(parameter.name, parameter.default or "") for parameter in graph.parameters}
    for node in graph.nodes:
        source = node.loop.source if node.loop is not None else None
        if isinstance(source, FromParameter) and known.get(source.parameter):
            name = source.parameter
            yield from item_problems(f"parameters.{name}", name, node.name, known[name])


def compile_run(document: Mapping[str, Any], run: RunInfo, context: Context) -> Object:
    """The Workflow. It needs the Secret that `secret_for` makes. Raises GraphError."""
    return _compile(document, run, context)[0]


def secret_for(document: Mapping[str, Any], run: RunInfo, context: Context, token: str) -> Object:
    """Returns the Secret of the run: the token, and texts that Argo must not interpret. Raises GraphError."""
    _, literals = _compile(document, run, context)
    data = {TOKEN: token, **literals.stored}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(run, run.secret),
        "type": "Opaque",
        "data": {key: b64encode(text.encode()).decode() for key, text in data.items()},
    }


def compile_spec(graph: Graph, context: Context, run: RunInfo | None, literals: Literals) -> Object:
    """Returns the spec of the Workflow, for a valid graph. Without a run, its parameters stay open."""
    filled = with_modules(graph, context)
    values = values_of(graph.parameters, run)
    setting = CompileContext(filled, context, tasks_of(filled), literals, values, run, skippable_nodes(filled))
    tasks, templates = tasks_and_templates(setting)
    spec: Object = {"entrypoint": ENTRYPOINT}
    arguments = [_argument(parameter, values) for parameter in graph.parameters]
    shown = [a for a in arguments if run is None or not has_tag(a.get("value") or "")]
    if shown:
        spec["arguments"] = {"parameters": shown}
    if run is not None and run.service_account:
        spec["serviceAccountName"] = run.service_account
    if uses_claim(setting):
        sharing = nodes_that_share_files(setting)
        if sharing and context.claim_class is None:
            raise GraphError([_no_storage(filled, node.name) for node in sharing])
        spec["volumeClaimTemplates"] = [volume_claim(setting)]
    roots = [mount.root for node in filled.nodes if node.kind != "training" for mount in node.storage]
    if roots:
        spec["volumes"] = volumes_of(roots, context)
    spec["templates"] = [{"name": ENTRYPOINT, "dag": {"tasks": tasks}}, *templates]
    return spec


def _no_storage(graph: Graph, name: str) -> Finding:
    place = next(place for place, node in enumerate(graph.nodes) if node.name == name)
    return make_finding(f"nodes[{place}].training", "training.storage", name=name)


def values_of(parameters: tuple[Parameter, ...], run: RunInfo | None) -> dict[str, str]:
    """Returns the known values of the initial parameters by name. Without a run, none are known."""
    if run is None:
        return {}
    return {p.name: run.parameters.get(p.name, p.default or "") for p in parameters}


def _compile(document: Mapping[str, Any], run: RunInfo, context: Context) -> tuple[Object, Literals]:
    wrong = only_errors(validate_graph(document, context))
    if not wrong:
        wrong = value_problems(document, run.parameters)
    if wrong:
        raise GraphError(wrong)
    literals = Literals(run.secret)
    if is_graph(document):
        graph = read(document)
        spec = compile_spec(graph, context, run, literals)
        metadata = _metadata(run, run.name)
        folders = _module_folders(graph, context)
        if folders:
            granted = {MOUNTS_ANNOTATION: orjson.dumps(folders).decode()}
            metadata["annotations"] = {**metadata.get("annotations", {}), **granted}
    else:
        workflow = workflow_in(document["manifest"])
        spec = _filled_in(workflow["spec"], run)
        given = workflow.get("metadata") or {}
        own = _metadata(run, run.name)
        metadata = {
            **own,
            "labels": {**_not_ours(given.get("labels")), **own["labels"]},
            "annotations": {**_not_ours(given.get("annotations")), **(own.get("annotations") or {})},
        }
    return {"apiVersion": WORKFLOW.api_version, "kind": WORKFLOW.kind, "metadata": metadata, "spec": spec}, literals


def _module_folders(graph: Graph, context: Context) -> list[str]:
    """Returns the folders with the code of modules, which Pods of the run may read."""
    used = (context.modules.get(node.module) for node in graph.nodes if node.kind == "module" and node.module)
    return sorted({module.folder for module in used if module is not None and module.folder})


def _not_ours(written: Mapping[str, str] | None) -> dict[str, str]:
    """Without labels and annotations that only the platform sets."""
    return {name: value for name, value in (written or {}).items() if not name.startswith(PREFIX)}


def _metadata(run: RunInfo, name: str) -> Object:
    metadata: Object = {"name": name, "labels": {**run.labels, RUN_LABEL: run.id}}
    if run.namespace:
        metadata["namespace"] = run.namespace
    if run.annotations:
        metadata["annotations"] = dict(run.annotations)
    return metadata


def _argument(parameter: Parameter, values: Mapping[str, str]) -> Object:
    argument: Object = {"name": parameter.name}
    if parameter.description:
        argument["description"] = parameter.description
    value = values.get(parameter.name, parameter.default)
    if value is None and not parameter.required:
        value = ""
    if value is None:
        return argument
    # Where it is not known which value it will be, it cannot go past Argo.
    return {**argument, "value": value if values else escape_tags(value)}


def _filled_in(spec: Object, run: RunInfo) -> Object:
    """Returns the spec of a manifest with the values and variables of the run. Nothing else changes."""
    arguments = spec.get("arguments") or {}
    declared = arguments.get("parameters") or ()
    filled = [
        {**_without(p, "valueFrom"), "value": run.parameters[p["name"]]} if p["name"] in run.parameters else p
        for p in declared
    ]
    variables = platform_variables(run)
    templates = [_with_variables(template, variables) for template in spec.get("templates") or ()]
    more: Object = {}
    if filled:
        more["arguments"] = {**arguments, "parameters": filled}
    if templates:
        more["templates"] = templates
    if run.service_account and not spec.get("serviceAccountName"):
        more["serviceAccountName"] = run.service_account
    return {**spec, **more}


def _with_variables(template: Object, variables: list[Object]) -> Object:
    for kind in ("container", "script"):
        if kind in template:
            return {**template, kind: _container_with(template[kind], variables)}
    if "containerSet" in template:
        group = template["containerSet"]
        containers = [_container_with(container, variables) for container in group.get("containers") or ()]
        return {**template, "containerSet": {**group, "containers": containers}}
    return template


def _container_with(container: Object, variables: list[Object]) -> Object:
    ours = {variable["name"] for variable in variables}
    kept = [variable for variable in container.get("env") or () if variable.get("name") not in ours]
    return {**container, "env": [*kept, *variables]}


def _without(mapping: Mapping[str, Any], *names: str) -> Object:
    return {name: value for name, value in mapping.items() if name not in names}


def to_workflow(document: Mapping[str, Any], context: Context, name: str = "workflow") -> Object:
    """Exports a graph. Raises GraphError."""
    wrong: list[Finding] = only_errors(validate_graph(document, context))
    if wrong:
        raise GraphError(wrong)
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": WORKFLOW.kind,
        "metadata": {"generateName": f"{plain_name(name)}-"},
        "spec": compile_spec(read(document), context, None, Literals()),
    }


def to_yaml(document: Mapping[str, Any], context: Context, name: str = "workflow") -> str:
    """One that was handed in as a manifest is that manifest. Raises GraphError."""
    if not is_graph(document):
        return str(document["manifest"])
    needed = [p.name for p in parameters_of(document) if p.required and p.default is None]
    lines = ["Submit it with: argo submit FILE, or: muster submit FILE"]
    if needed:
        lines[0] += "".join(f" -p {name}=VALUE" for name in needed)
    secrets = [variable.name for node in read(document).nodes for variable in node.env if variable.secret]
    lines.append(
        f"{', '.join(dict.fromkeys(['AI_HUB_TOKEN', *secrets]))} is read from the Secret ai-hub, if there is one."
    )
    return "".join(f"# {line}\n" for line in lines) + dump(to_workflow(document, context, name))
