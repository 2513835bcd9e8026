"""One node of a run in detail: inputs, outputs, how it ran, its Pods and their events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.platform.graphs.bindings import NODE
from muster.platform.graphs.compile import values_of
from muster.platform.graphs.context import RunInfo
from muster.platform.graphs.control_flow import LOOP_INDEX, compare, items_of
from muster.platform.graphs.model import FromOutput, FromParameter, FromValue, Graph, Node, Source
from muster.platform.runs.status import leaves_of, split_iteration
from muster.workflows.engine.scope import join_results

PLATFORM_VARIABLES = ("AI_HUB_USER_ID", "AI_HUB_TOKEN", "AI_HUB_WORKFLOW_RUN_ID")


def inputs_of(
    node: Node | None, graph: Graph, workflow: Object | None, name: str, parameters: Mapping[str, str]
) -> list[dict[str, Any]]:
    """With their values, as far as they are known."""
    leaf = _leaf(workflow, name, "inputs")
    came = {p["name"]: p.get("value") for p in (leaf.get("inputs") or {}).get("parameters") or ()}
    files = {a["name"]: a.get("path") for a in (leaf.get("inputs") or {}).get("artifacts") or ()}
    if node is None:
        texts = [_value(each, "text", value) for each, value in came.items()]
        return texts + [_value(each, "file", path, path) for each, path in files.items()]
    initial = values_of(graph.parameters, RunInfo("", "", "", "", parameters=parameters))
    found = []
    for given in node.inputs:
        source, value, kind, path = given.source, came.get(given.name), "text", ""
        origin = ""
        if isinstance(source, FromParameter):
            origin = source.parameter
            value = initial.get(source.parameter) if value is None else value
        elif isinstance(source, FromValue):
            value = source.value
        elif isinstance(source, FromOutput):
            origin = f"{source.node}.{source.output}"
            if given.name in files or _is_file(graph, source):
                kind, path = "file", str(files.get(given.name) or _path(graph, source))
                value = path
        found.append({**_value(given.name, kind, value, path), "from": origin, "description": given.description})
    if node.loop is not None and (item := item_of(node, workflow, name, known=initial)) is not None:
        found.append({**_value(node.loop.variable, "text", item), "from": "", "description": ""})
    return found


def item_of(
    node: Node | None, workflow: Object | None, name: str, *, known: Mapping[str, str] | None = None
) -> str | None:
    """Returns the item of an iteration; None for other nodes. The items of some loops are in the Secret of the run, and
    the iteration knows only their numbers: without the initial parameters, that number is returned."""
    iteration = split_iteration(name)
    if node is None or node.loop is None or iteration is None or iteration[0] != node.name:
        return None
    leaf = _leaf(workflow, name, "inputs")
    came = {p["name"]: p.get("value") for p in (leaf.get("inputs") or {}).get("parameters") or ()}
    if node.loop.variable in came:
        return str(came[node.loop.variable])
    if known is None:
        return str(came.get(LOOP_INDEX, iteration[1]))
    items = items_of(node.loop, known)
    return items[iteration[1]] if items is not None and iteration[1] < len(items) else None


def outputs_of(node: Node | None, workflow: Object | None, name: str) -> list[dict[str, Any]]:
    """The declared outputs, with their values if they are known."""
    leaf = _leaf(workflow, name, "outputs")
    outputs = leaf.get("outputs") or {}
    texts = {p["name"]: p.get("value") for p in outputs.get("parameters") or ()}
    if node is not None and node.loop is not None and name == node.name and workflow is not None:
        outputs, texts = {}, loop_outputs(workflow, name)
    files = {a["name"]: a for a in outputs.get("artifacts") or () if a.get("name") != "main-logs"}
    if node is None:
        plain = [{**_value(each, "text", value), "ready": value is not None} for each, value in texts.items()]
        more = [{**_value(n, "file", a.get("path"), str(a.get("path") or "")), "ready": True} for n, a in files.items()]
        return plain + more
    found = []
    for output in node.outputs:
        ready = output.name in files if output.type == "file" else texts.get(output.name) is not None
        value = output.path if output.type == "file" else texts.get(output.name)
        made = _value(output.name, output.type, value if ready else None, output.path)
        found.append({**made, "ready": ready, "description": output.description})
    return found


def loop_outputs(workflow: Object, name: str) -> dict[str, str]:
    """Returns the text outputs of a loop, as the nodes after it get them; none if it has not succeeded."""
    found: dict[int, Mapping[str, Any]] = {}
    for each, leaves in leaves_of(workflow).items():
        iteration = split_iteration(each)
        if iteration is not None and iteration[0] == name and leaves:
            found[iteration[1]] = leaves[-1]
    if not all(leaf.get("phase") == "Succeeded" for leaf in found.values()):
        return {}
    lists: dict[str, list[str]] = {}
    for _, leaf in sorted(found.items()):
        for parameter in (leaf.get("outputs") or {}).get("parameters") or ():
            lists.setdefault(str(parameter["name"]), []).append(str(parameter.get("value") or ""))
    return {each: join_results(texts) for each, texts in lists.items()}


def describe_condition(
    node: Node | None, workflow: Object | None, parameters: Mapping[str, str], graph: Graph
) -> dict[str, Any] | None:
    """The condition of a node with the values that it compares."""
    if node is None or node.condition is None:
        return None
    initial = values_of(graph.parameters, RunInfo("", "", "", "", parameters=parameters))

    def side(source: Source | None) -> dict[str, Any]:
        if isinstance(source, FromParameter):
            return {"origin": source.parameter, "value": initial.get(source.parameter)}
        if isinstance(source, FromOutput):
            outputs = outputs_of(graph.node(source.node), workflow, source.node)
            value = next((each["value"] for each in outputs if each["name"] == source.output), None)
            return {"origin": f"{source.node}.{source.output}", "value": value}
        return {"origin": "", "value": source.value if source is not None else None}

    found = []
    for comparison in node.condition.comparisons:
        left, right = side(comparison.left), side(comparison.right)
        known = left["value"] is not None and right["value"] is not None
        holds = compare(left["value"], comparison.operator, right["value"]) if known else None
        found.append({"left": left, "operator": comparison.operator, "right": right, "holds": holds})
    return {"match": node.condition.match, "comparisons": found}


def artifact_in(workflow: Object, name: str, output: str) -> dict[str, Any] | None:
    """The stored artifact of a file output."""
    for leaf in reversed(leaves_of(workflow).get(name) or []):
        for artifact in (leaf.get("outputs") or {}).get("artifacts") or ():
            if artifact.get("name") == output:
                return dict(artifact)
    return None


def describe_execution(node: Node | None, workflow: Object | None, name: str) -> dict[str, Any]:
    """Command, image, environment, resources."""
    template = template_of(workflow, name)
    container = template.get("script") or template.get("container") or {}
    words = [*map(str, container.get("command") or ()), *map(str, container.get("args") or ())]
    command = str(container.get("source") or " ".join(words))
    if node is not None and node.command:
        command = node.command
    own = {variable.name: variable for variable in node.env} if node is not None else {}
    skip = {given.name for given in node.inputs} if node is not None else set()
    if node is not None and node.loop is not None:
        skip.add(node.loop.variable)  # an input, although it may be in the Secret of the run
    env = []
    for variable in container.get("env") or [{"name": v.name, "value": v.value} for v in own.values()]:
        called = str(variable.get("name"))
        if called in skip or called == "MUSTER_COMMAND":
            continue
        written = own.get(called)
        secret = written.secret if written is not None else "valueFrom" in variable
        value = written.value if written is not None else str(variable.get("value") or "").replace("$$", "$")
        env.append({"name": called, "value": None if secret else value, "secret": secret})
    image = container.get("image") or (node.image if node is not None else "")
    return {
        "command": command,
        "image": str(image or ""),
        "working_dir": str(container.get("workingDir") or ""),
        "env": env,
        "resources": (container.get("resources") or {}).get("requests") or {},
        "node_selector": template.get("nodeSelector") or {},
        "mounts": [
            {"path": m.get("mountPath"), "name": str(m.get("name", "")), "read_only": bool(m.get("readOnly"))}
            for m in container.get("volumeMounts") or ()
        ],
    }


def template_of(workflow: Object | None, name: str) -> Mapping[str, Any]:
    """The template of a node; for a training node, that of the job."""
    templates = spec_of(workflow or {}).get("templates") or ()
    own = [t for t in templates if ((t.get("annotations") or {}).get(NODE) or t.get("name")) == name]
    own.sort(key=lambda template: "resource" not in template)
    if own:
        return dict(own[0])
    leaf = _leaf(workflow, name, "inputs")
    return next((dict(t) for t in templates if t.get("name") == leaf.get("templateName")), {})


def containers_of(pod: Object) -> list[dict[str, Any]]:
    """The containers of the Pod, init containers first."""
    spec, status = spec_of(pod), status_of(pod)
    found = []
    for kind, states in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
        by_name = {state.get("name"): state for state in status.get(states) or ()}
        for container in spec.get(kind) or ():
            state = by_name.get(container["name"]) or {}
            found.append(_container(container, state))
    return found


def pod_summary(pod: Object) -> dict[str, Any]:
    status = status_of(pod)
    return {
        "name": name_of(pod),
        "phase": str(status.get("phase") or "Pending"),
        "host": str(spec_of(pod).get("nodeName") or ""),
        "address": str(status.get("podIP") or ""),
        "message": str(status.get("message") or _unscheduled(status)),
        "containers": containers_of(pod),
    }


def event_summary(event: Object) -> dict[str, Any]:
    involved = event.get("involvedObject") or {}
    return {
        "time": event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"),
        "type": str(event.get("type") or "Normal"),
        "reason": str(event.get("reason") or ""),
        "object": f"{involved.get('kind', '')}/{involved.get('name', '')}",
        "message": str(event.get("message") or ""),
        "count": int(event.get("count") or 1),
    }


def _container(container: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    kind, now = next(iter((state.get("state") or {"waiting": {}}).items()))
    return {
        "name": str(container["name"]),
        "image": str(container.get("image") or ""),
        "state": kind,
        "reason": str(now.get("reason") or ""),
        "message": str(now.get("message") or ""),
        "exit_code": now.get("exitCode"),
        "restarts": int(state.get("restartCount") or 0),
        "started": now.get("startedAt"),
        "finished": now.get("finishedAt"),
    }


def _unscheduled(status: Mapping[str, Any]) -> str:
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    return next((str(c.get("message") or "") for c in conditions if c.get("reason") == "Unschedulable"), "")


def _leaf(workflow: Object | None, name: str, direction: str) -> Mapping[str, Any]:
    """The last attempt of the node that has such data."""
    all_leaves = leaves_of(workflow) if workflow is not None else {}
    leaves = all_leaves.get(name) or []
    if not leaves and direction == "inputs":
        # All iterations of a loop have the inputs of the loop.
        leaves = next((own for each, own in all_leaves.items() if (split_iteration(each) or ("",))[0] == name), [])
    told = [leaf for leaf in leaves if any((leaf.get(direction) or {}).get(k) for k in ("parameters", "artifacts"))]
    return (told or leaves or [{}])[-1]


def _value(name: str, kind: str, value: Any, path: str | None = "") -> dict[str, Any]:
    return {"name": name, "type": kind, "value": None if value is None else str(value), "path": path or ""}


def _is_file(graph: Graph, source: FromOutput) -> bool:
    return bool(_path(graph, source, only="file"))


def _path(graph: Graph, source: FromOutput, only: str = "") -> str:
    origin = graph.node(source.node)
    outputs = origin.outputs if origin is not None else ()
    return next((o.path for o in outputs if o.name == source.output and only in ("", o.type)), "")
