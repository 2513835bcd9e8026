"""Imports an Argo Workflow as a version: as a graph if a graph can say all of it, else as the manifest itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.kube.errors import is_count
from muster.kube.objects import Object, spec_of
from muster.kube.quantity import parse_quantity
from muster.platform.graphs.argo_manifest import validate_manifest, workflow_in
from muster.platform.graphs.bindings import NODE, Literals, escape_tags, from_input
from muster.platform.graphs.compile import compile_spec
from muster.platform.graphs.context import Context
from muster.platform.graphs.control_flow_import import FLOW_FIELDS, ITEM, read_flow, timeout_text
from muster.platform.graphs.model import FORMAT, RESERVED_PREFIX, WORKSPACE, Document, read
from muster.platform.graphs.templates import KUEUE_QUEUE, MONITOR, QUEUE, placement_on, queue_metadata
from muster.platform.graphs.validation import only_errors, validate_graph
from muster.platform.messages import make_finding
from muster.platform.records.workflows import Finding, ImportedManifest
from muster.workflows.executors.pod_spec import LONGEST_TEXT

_PLACEMENT = ("nodeSelector", "tolerations", "schedulerName", "priorityClassName")
_TEMPLATE = (
    "name", "annotations", "metadata", "inputs", "outputs", "script", "container", "retryStrategy",
    "activeDeadlineSeconds", *_PLACEMENT,
)  # fmt: skip
_CONTAINER = ("image", "command", "args", "source", "env", "resources", "workingDir", "volumeMounts", "name")
_DISPLAY_NAME = "workflows.argoproj.io/display-name"
_TAG = re.compile(r"\{\{(tasks\.(?P<task>[\w-]+)\.outputs\.(?P<kind>parameters|artifacts)|workflow\.parameters)\."
                  r"(?P<name>[\w-]+)\}\}")  # fmt: skip


class Unmapped(Exception):
    """Something that a graph cannot express."""


@dataclass(slots=True)
class Step:
    node: Object
    texts: dict[str, str]
    """By the template's input parameter, the variable that the command knows it by."""
    files: dict[str, str]
    """By input artifact, its path."""
    outputs: dict[str, Object]
    notes: list[str] = field(default_factory=list)
    """What differs a little in the graph."""

    def connect(self, arguments: Mapping[str, Any], steps: Mapping[str, Step]) -> None:
        """Sets the inputs of the node from the arguments of its task."""
        where = f"step {self.node['name']}"
        only(arguments, ("parameters", "artifacts"), f"{where}: arguments")
        inputs: list[Object] = []
        given = {p["name"]: p for p in arguments.get("parameters") or ()}
        for name, variable in self.texts.items():
            if "loop" in self.node and given.get(name, {}).get("value") == ITEM:
                del given[name]
                self.node["loop"]["variable"] = variable
                continue
            inputs.append({"name": variable, **_source(given.pop(name, {}), "value", steps, where, name)})
        files = {a["name"]: a for a in arguments.get("artifacts") or ()}
        for name, path in self.files.items():
            source = _source(files.pop(name, {}), "from", steps, where, name)
            origin = source.get("from") or {}
            output = next(
                (s.outputs[origin["output"]] for s in steps.values() if s.node["name"] == origin.get("node")), {}
            )
            if output.get("path") != path:
                raise Unmapped(f"{where}: the artifact {name} is put at another path than it had")
            inputs.append({"name": name, **source})
        if given or files:
            raise Unmapped(f"{where}: the argument {next(iter((*given, *files)))} has no input")
        if inputs:
            self.node["inputs"] = inputs


def only(mapping: Mapping[str, Any], fields: Collection[str], where: str) -> None:
    """Raises Unmapped for a field that a graph does not have: nothing is dropped silently."""
    for name, value in mapping.items():
        if name not in fields and value not in (None, "", []):
            raise Unmapped(f"{where}: {name} cannot be part of a graph")


def read_step(
    template: Mapping[str, Any], task: Mapping[str, Any], volumes: Mapping[str, Object], context: Context, *,
    names_itself: bool,
) -> Step:  # fmt: skip
    where = f"template {template.get('name')}"
    only(template, _TEMPLATE, where)
    container = template.get("script") or template.get("container")
    if not container:
        raise Unmapped(f"{where}: a node is a script or a container")
    only(container, _CONTAINER, where)
    annotations = template.get("annotations") or {}
    only(annotations, (NODE, _DISPLAY_NAME, LONGEST_TEXT), f"{where}.annotations")
    shown = annotations.get(NODE) or annotations.get(_DISPLAY_NAME)
    name = str(shown if shown and names_itself else task["name"])
    step = Step({"name": name, "image": str(container.get("image") or "")}, {}, {}, {})
    step.node["command"] = _command(template, container, where)
    _add_task(step, template, container, context, where)
    _add_retries(step, template.get("retryStrategy") or {}, where)
    _add_timeout(step, template.get("activeDeadlineSeconds"), where)
    _add_inputs(step, template.get("inputs") or {}, container.get("env") or (), where)
    _add_outputs(step, template.get("outputs") or {}, where)
    _add_storage(step, container.get("volumeMounts") or (), volumes, context, where)
    if container.get("workingDir") != WORKSPACE:
        if container.get("workingDir"):
            raise Unmapped(f"{where}: workingDir cannot be part of a graph")
        step.notes.append(f"it starts in {WORKSPACE}, not in the folder of its image")
    return step


def _command(template: Mapping[str, Any], container: Mapping[str, Any], where: str) -> str:
    if "script" in template:
        text, shell = container.get("source"), [*(container.get("command") or ()), *(container.get("args") or ())]
        if shell != ["sh"]:
            raise Unmapped(f"{where}: the command of a node is run by sh, not by {' '.join(shell) or 'the image'}")
    else:
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        if len(words) != 3 or words[:2] != ["sh", "-c"]:
            raise Unmapped(f"{where}: the command of a node is a text for sh -c")
        text = _unescape(str(words[2]), where)
    plain = str(text or "").replace(escape_tags("{{"), "\0")
    if "{{" in plain:
        raise Unmapped(f"{where}: the command has {{{{...}}}} in it; a node refers to its inputs as $name")
    return plain.replace("\0", "{{")


def _unescape(text: str, where: str) -> str:
    """The text after Kubernetes has resolved `$$`. Raises Unmapped if it would insert a variable."""
    if re.search(r"(?<!\$)(\$\$)*\$\([\w.-]+\)", text):
        raise Unmapped(f"{where}: Kubernetes would put a variable in place of $(...)")
    return text.replace("$$", "$")


def _add_inputs(step: Step, inputs: Mapping[str, Any], env: Any, where: str) -> None:
    only(inputs, ("parameters", "artifacts"), f"{where}.inputs")
    for artifact in inputs.get("artifacts") or ():
        only(artifact, ("name", "path"), f"{where}: artifact {artifact.get('name')}")
        step.files[artifact["name"]] = str(artifact.get("path") or "")
    wanted = {}
    for parameter in inputs.get("parameters") or ():
        only(parameter, ("name",), f"{where}: parameter {parameter.get('name')}")
        name = parameter["name"]
        wanted[f"{{{{inputs.parameters.{name}}}}}"] = wanted[from_input(name)] = name
    literal: list[Object] = []
    for variable in env:
        name, value = str(variable["name"]), variable.get("value") or ""
        if name.startswith(RESERVED_PREFIX):
            continue
        if variable.get("valueFrom"):
            raise Unmapped(f"{where}: the variable {name} has a valueFrom")
        if value in wanted:
            step.texts[wanted[value]] = name
        elif step.files.get(name) != value:
            plain = value.replace(escape_tags("{{"), "\0")
            if "{{" in plain:
                raise Unmapped(f"{where}: the variable {name} is made of {value}")
            literal.append({"name": name, "value": _unescape(plain.replace("\0", "{{"), where)})
    unused = [name for name in wanted.values() if name not in step.texts]
    if unused:
        raise Unmapped(f"{where}: the input {unused[0]} is no environment variable")
    if literal:
        step.node["env"] = literal


def _add_outputs(step: Step, outputs: Mapping[str, Any], where: str) -> None:
    only(outputs, ("parameters", "artifacts"), f"{where}.outputs")
    found: list[Object] = []
    for parameter in outputs.get("parameters") or ():
        only(parameter, ("name", "valueFrom"), f"{where}: output {parameter.get('name')}")
        only(parameter.get("valueFrom") or {}, ("path",), f"{where}: output {parameter.get('name')}")
        found.append({"name": parameter["name"], "path": str((parameter.get("valueFrom") or {}).get("path") or "")})
    for artifact in outputs.get("artifacts") or ():
        only(artifact, ("name", "path"), f"{where}: output {artifact.get('name')}")
        found.append({"name": artifact["name"], "path": str(artifact.get("path") or ""), "type": "file"})
    step.outputs = {output["name"]: output for output in found}
    if found:
        step.node["outputs"] = found


def _add_task(
    step: Step, template: Mapping[str, Any], container: Mapping[str, Any], context: Context, where: str
) -> None:
    resources = container.get("resources") or {}
    placement = {name: template[name] for name in _PLACEMENT if template.get(name)}
    metadata = template.get("metadata") or {}
    only(metadata, ("annotations", "labels"), f"{where}.metadata")
    only(metadata.get("annotations") or {}, (QUEUE,), f"{where}.metadata.annotations")
    only(metadata.get("labels") or {}, (KUEUE_QUEUE,), f"{where}.metadata.labels")
    queue = {name: value for name, value in metadata.items() if value}
    if not resources and not placement and not queue:
        step.notes.append("it asks for no resources, so it becomes a monitor task of 100m CPU and 1000M of memory")
        return
    amounts = _amounts(resources)
    if amounts == _exact(MONITOR) and not placement and not queue:
        return
    for cluster in context.clusters.values():
        sku = _exact(cluster.sku)
        times = (
            {amounts[name] / amount for name, amount in sku.items() if amount}
            if amounts.keys() == sku.keys()
            else set()
        )
        fits = (
            len(times) == 1
            and placement == placement_on(cluster, cluster.queue, cluster.system)
            and queue == queue_metadata(cluster.queue, cluster.system)
        )
        if fits and (count := times.pop()).denominator == 1 and count >= 1:
            step.node["task"] = {"type": "compute", "cluster": cluster.name, "skus": int(count)}
            return
    raise Unmapped(f"{where}: its resources are those of no virtual cluster")


def _amounts(resources: Mapping[str, Any]) -> dict[str, Any]:
    requests, limits = (_exact(resources.get(kind) or {}) for kind in ("requests", "limits"))
    return requests if requests == limits else {}


def _exact(amounts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parse_quantity(amount) for name, amount in amounts.items()}


def _add_retries(step: Step, strategy: Mapping[str, Any], where: str) -> None:
    if not strategy:
        return
    only(strategy, ("limit", "retryPolicy"), f"{where}.retryStrategy")
    limit, policy = str(strategy.get("limit") or ""), strategy.get("retryPolicy") or "OnFailure"
    if not is_count(limit) or policy not in ("Always", "OnFailure"):
        raise Unmapped(f"{where}: a node is retried a fixed number of times")
    if policy == "OnFailure":
        step.notes.append("it is tried again after errors of the cluster, too")
    step.node["retries"] = int(limit)


def _add_timeout(step: Step, seconds: Any, where: str) -> None:
    if seconds is None:
        return
    if not is_count(str(seconds)) or not int(seconds):
        raise Unmapped(f"{where}: activeDeadlineSeconds is no number")
    step.node["timeout"] = timeout_text(int(seconds))


def _add_storage(step: Step, mounts: Any, volumes: Mapping[str, Object], context: Context, where: str) -> None:
    found: list[Object] = []
    for mount in mounts:
        only(mount, ("name", "mountPath", "readOnly"), f"{where}: volumeMount {mount.get('name')}")
        volume = volumes.get(mount["name"]) or {}
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        path = (volume.get("hostPath") or {}).get("path") or ""
        root = next(
            (
                r
                for r in context.roots.values()
                if (r.claim == claim if claim else path and path == (r.host_path or r.path))
            ),
            None,
        )
        if root is None:
            raise Unmapped(f"{where}: the volume {mount['name']} is no storage root")
        made: Object = {"root": root.name}
        if mount.get("mountPath") != root.path:
            made["path"] = mount.get("mountPath")
        if mount.get("readOnly"):
            made["readOnly"] = True
        found.append(made)
    if found:
        step.node["storage"] = found


def _source(argument: Mapping[str, Any], key: str, steps: Mapping[str, Step], where: str, name: str) -> Object:
    only(argument, ("name", key), f"{where}: argument {name}")
    if argument.get(key) is None:
        raise Unmapped(f"{where}: nothing says what the input {name} is")
    text = str(argument[key])
    found = _TAG.fullmatch(text)
    if found is None:
        if "{{" in text or key == "from":
            raise Unmapped(f"{where}: the argument {name} is made of {text}")
        return {"value": text}
    if found["task"] is None:
        return {"from": {"parameter": found["name"]}}
    return _output(steps, found["task"], found["name"], f"{where}: the argument {name}")


def _output(steps: Mapping[str, Step], task: str, output: str, where: str) -> Object:
    if task not in steps:
        raise Unmapped(f'{where} comes from a task "{task}" that is not there')
    origin = steps[task]
    if output not in origin.outputs:
        raise Unmapped(f"{where} comes from an output that {origin.node['name']} does not have")
    return {"from": {"node": origin.node["name"], "output": output}}


_SPEC = ("entrypoint", "arguments", "templates", "volumes")
_TASK = ("name", "template", "depends", "dependencies", "arguments", *FLOW_FIELDS)


def from_manifest(manifest: str, context: Context) -> ImportedManifest:
    wrong = validate_manifest(manifest, replace(context, allowed=None))
    if wrong:
        return ImportedManifest(None, wrong)
    try:
        document, notes = _graph(workflow_in(manifest), context)
    except Unmapped as reason:
        return _keep_manifest(manifest, context, str(reason))
    wrong = only_errors(validate_graph(document, context))
    if wrong:
        return _keep_manifest(manifest, context, str(wrong[0]))
    try:
        _check_flow(workflow_in(manifest), document, context)
    except Unmapped as reason:
        return _keep_manifest(manifest, context, str(reason))
    return ImportedManifest(document, notes)


def _keep_manifest(manifest: str, context: Context, reason: str) -> ImportedManifest:
    """Keeps the manifest, if the author may run it as it is."""
    wrong = validate_manifest(manifest, context)
    if wrong:
        return ImportedManifest(None, wrong)
    kept: Document = {"format": FORMAT, "type": "yaml", "manifest": manifest}
    return ImportedManifest(kept, [make_finding("manifest", "import.unmapped", detail=reason)])


def _graph(workflow: Object, context: Context) -> tuple[Document, list[Finding]]:
    spec = spec_of(workflow)
    only(spec, _SPEC, "spec")
    templates = {template.get("name"): template for template in spec.get("templates") or ()}
    entry = templates.get(spec.get("entrypoint"))
    if entry is None:
        raise Unmapped(f'spec.entrypoint: there is no template "{spec.get("entrypoint")}"')
    tasks = _tasks(entry)
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    steps: dict[str, Step] = {}
    for task in tasks:
        only(task, _TASK, f"task {task.get('name')}")
        template = templates.get(task.get("template"))
        if template is None:
            raise Unmapped(f'task {task.get("name")}: there is no template "{task.get("template")}"')
        alone = sum(other.get("template") == task.get("template") for other in tasks) == 1
        steps[task["name"]] = read_step(template, task, volumes, context, names_itself=alone)
    names = {task: step.node["name"] for task, step in steps.items()}
    document: Document = {"format": FORMAT, "parameters": _parameters(spec), "nodes": [], "edges": []}
    for task in tasks:
        step = steps[task["name"]]
        step.node |= _flow(task, steps)
        step.connect(task.get("arguments") or {}, steps)
        document["nodes"].append(step.node)
        document["edges"] += [{"from": names[parent], "to": step.node["name"]} for parent in _parents(task, names)]
    notes = [make_finding("", "import.changed", step=s.node["name"], detail=n) for s in steps.values() for n in s.notes]
    return {name: value for name, value in document.items() if value != []}, notes


def _flow(task: Mapping[str, Any], steps: Mapping[str, Step]) -> Object:
    """The condition and the loop of a task."""
    where = f"task {task['name']}: {' and '.join(_written_flow(task))}"
    try:
        return read_flow(task, lambda of, output: _output(steps, of, output, where)["from"])
    except ValueError as error:
        raise Unmapped(f"{where}: {error}") from None


def _check_flow(workflow: Object, document: Document, context: Context) -> None:
    """Raises Unmapped if the conditions and loops of the graph are not exactly those of the manifest."""
    entry = next(t for t in spec_of(workflow)["templates"] if t["name"] == spec_of(workflow)["entrypoint"])
    written = [_written_flow(task) for task in _tasks(entry)]
    if not any(written):
        return
    again = compile_spec(read(document), context, None, Literals())["templates"][0]["dag"]["tasks"]
    for task, before, after in zip(_tasks(entry), written, again, strict=True):
        if before != _written_flow(after):
            raise Unmapped(f"task {task['name']}: {next(iter(before or ['when']))} says more than a node can")


def _written_flow(task: Mapping[str, Any]) -> Object:
    return {name: task[name] for name in FLOW_FIELDS if task.get(name) is not None}


def _tasks(entry: Mapping[str, Any]) -> list[Object]:
    if "dag" not in entry:
        if "steps" in entry:
            raise Unmapped(f"template {entry['name']}: steps cannot be part of a graph")
        return [{"name": entry["name"], "template": entry["name"]}]
    only(entry, ("name", "dag"), f"template {entry['name']}")
    only(entry["dag"], ("tasks",), f"template {entry['name']}.dag")
    return list(entry["dag"].get("tasks") or ())


def _parents(task: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """The tasks that must succeed first. An edge cannot say more than that."""
    if not task.get("depends"):
        return list(task.get("dependencies") or ())
    parents = [word.strip() for word in str(task["depends"]).split("&&")]
    if not set(parents) <= set(names):
        raise Unmapped(f'task {task["name"]}: depends "{task["depends"]}" says more than an edge can')
    return parents


def _parameters(spec: Mapping[str, Any]) -> list[Object]:
    arguments = spec.get("arguments") or {}
    only(arguments, ("parameters",), "spec.arguments")
    found = []
    for parameter in arguments.get("parameters") or ():
        only(parameter, ("name", "value", "description", "default"), f"spec.arguments.parameters {parameter['name']}")
        made: Object = {"name": parameter["name"]}
        if parameter.get("description"):
            made["description"] = str(parameter["description"])
        value = parameter.get("value", parameter.get("default"))
        if value is None:
            made["required"] = True
        elif value != "":
            made["default"] = str(value).replace(escape_tags("{{"), "{{")
        found.append(made)
    return found
