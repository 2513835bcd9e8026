"""How nodes, inputs and texts of a graph are named, bound and escaped inside an Argo Workflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from muster.kube.objects import Object
from muster.platform.graphs.context import Context, RunInfo
from muster.platform.graphs.model import FromOutput, FromParameter, FromValue, Graph, Input, Node, Output

ENTRYPOINT = "main"
_LONGEST = 40


class Tasks(NamedTuple):
    """The names of a node's tasks; '' if there is none. A training node with files as inputs or outputs has a task
    before and after it that transfers them."""

    main: str
    inputs: str = ""
    outputs: str = ""

    @property
    def first(self) -> str:
        return self.inputs or self.main

    @property
    def last(self) -> str:
        return self.outputs or self.main


def tasks_of(graph: Graph) -> dict[str, Tasks]:
    """Returns the tasks by node, of a graph with its modules filled in. Valid names stay as they are. The same graph
    always gets the same names."""
    taken = {ENTRYPOINT}
    names: dict[str, str] = {}
    for node in sorted(graph.nodes, key=lambda n: (plain_name(n.name) != n.name, n.name)):
        names[node.name] = _free(plain_name(node.name), node.name, taken)
    tasks: dict[str, Tasks] = {}
    for node in graph.nodes:
        name = names[node.name]
        before = _free(f"{name}-inputs", f"{node.name} inputs", taken) if takes_files(graph, node) else ""
        after = _free(f"{name}-outputs", f"{node.name} outputs", taken) if gives_outputs(node) else ""
        tasks[node.name] = Tasks(name, before, after)
    return tasks


def nodes_by_task(tasks: Mapping[str, Tasks]) -> dict[str, str]:
    """The reverse: the node by the name of a task."""
    return {task: node for node, names in tasks.items() for task in names if task}


def takes_files(graph: Graph, node: Node) -> bool:
    """Whether something has to carry files into a training job."""
    if node.kind != "training":
        return False
    for given in node.inputs:
        origin = graph.node(getattr(given.source, "node", ""))
        wanted = getattr(given.source, "output", "")
        if origin is not None and any(o.name == wanted and o.type == "file" for o in origin.outputs):
            return True
    return False


def gives_outputs(node: Node) -> bool:
    return node.kind == "training" and bool(node.outputs)


def plain_name(name: str) -> str:
    """A similar name that is valid for every part of a Workflow."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST].strip("-")
    if not plain:
        return "node"
    return plain if plain[0].isalpha() else f"node-{plain}"[:_LONGEST].strip("-")


def _free(wanted: str, full: str, taken: set[str]) -> str:
    """The name, with a few hex digits appended if it is taken or says nothing."""
    name, salt = wanted, full
    while name in taken or (name == "node" and full != "node"):
        name = f"{wanted}-{sha256(salt.encode()).hexdigest()[:6]}"
        salt += "'"
        if name not in taken:
            break
    taken.add(name)
    return name


_DOLLARS = re.compile(r"\$\$+|\$(?=\()")
_TAG = "{{"

UNBOUND_SECRET = "ai-hub"  # noqa: S105  (the name of one)
"""The Secret that an exported manifest reads secret values from."""


def has_tag(text: str) -> bool:
    """Whether Argo would try to replace something in it."""
    return _TAG in text


def is_changed_on_the_way(script: str) -> bool:
    """Whether a script would not reach its shell as it is: Argo replaces tags, and hands the template to its executor
    in an environment variable, where Kubernetes halves dollars."""
    return has_tag(script) or "$$" in script


def escape_dollars(text: str) -> str:
    """Escapes the text so that Kubernetes restores it: it halves several dollars, and one before a bracket."""
    return _DOLLARS.sub(lambda found: found[0] * 2, text)


def escape_tags(text: str) -> str:
    """Escapes the text so that Argo restores it, unless it contains a tag that Argo knows."""
    return text.replace(_TAG, "{{='{{'}}")


def from_input(name: str) -> str:
    """The value of a template's input, for the environment of its container."""
    return f"{{{{=replace(inputs.parameters['{name}'], '$', '$$')}}}}"


def from_input_as_json(name: str) -> str:
    """The same, quoted: for a manifest inside of a template."""
    return f"{{{{=toJson(replace(inputs.parameters['{name}'], '$', '$$'))}}}}"


class Literals:
    """Environment variables with known values. Secret values, and values that Argo or Kubernetes would change, are
    stored in a Secret, which neither reads. Without a Secret, they are escaped as far as possible."""

    def __init__(self, secret: str = "") -> None:
        self.secret = secret
        self.stored: dict[str, str] = {}
        """What the Secret has to hold."""

    def variable(self, name: str, text: str, *, secret: bool = False) -> dict[str, Any]:
        if secret and not self.secret:
            reference = {"name": UNBOUND_SECRET, "key": name, "optional": True}
            return {"name": name, "valueFrom": {"secretKeyRef": reference}}
        if not self.secret:
            return {"name": name, "value": escape_tags(escape_dollars(text))}
        if secret or has_tag(text) or escape_dollars(text) != text:
            return self.stored_variable(name, text)
        return {"name": name, "value": text}

    def stored_variable(self, name: str, text: str) -> dict[str, Any]:
        """A variable whose value is in the Secret."""
        key = f"text-{sha256(text.encode()).hexdigest()[:16]}"
        self.stored[key] = text
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": key}}}

    def stored_item(self, name: str, items: Sequence[str], number: str) -> dict[str, Any]:
        """A variable whose value is an item of a list in the Secret. `number` becomes the number of the item."""
        key = f"items-{sha256(repr(items).encode()).hexdigest()[:16]}"
        self.stored |= {f"{key}-{place}": item for place, item in enumerate(items)}
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": self.secret, "key": f"{key}-{number}"}}}


TOKEN = "AI_HUB_TOKEN"  # noqa: S105  (the name of a variable)
NODE = "muster.dev/node"
"""Annotation of a template: the node it belongs to, by its original name."""

_DISPLAY_NAME = "workflows.argoproj.io/display-name"
_SHOWABLE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-.]{0,61}[a-zA-Z0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class CompileContext:
    graph: Graph
    """With its modules filled in."""
    context: Context
    tasks: Mapping[str, Tasks]
    literals: Literals
    values: Mapping[str, str]
    """The known values of the initial parameters."""
    run: RunInfo | None
    skippable: frozenset[str] = frozenset()
    """The nodes that may be skipped although nothing fails."""


@dataclass(slots=True)
class BoundInputs:
    """How a node gets its inputs: arguments of its task, inputs of its template, variables of its containers."""

    arguments: list[Object] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    """Inputs that the template takes as parameters."""
    hidden: list[str] = field(default_factory=list)
    """Parameters of the template that are no variables of its containers."""
    file_arguments: list[Object] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    """Inputs that are files or folders, with their paths."""
    env: list[Object] = field(default_factory=list)
    """Variables with values that are already known."""


def bind_inputs(setting: CompileContext, node: Node) -> BoundInputs:
    bound = BoundInputs()
    for given in node.inputs:
        _bind(setting, given, bound)
    return bound


def container_env(setting: CompileContext, node: Node, bound: BoundInputs) -> list[Object]:
    """The environment of a container of the node's own template."""
    own = own_variables(setting, node)
    late = [{"name": name, "value": from_input(name)} for name in bound.parameters]
    return [*own, *bound.env, *late, *platform_variables(setting.run)]


def own_variables(setting: CompileContext, node: Node) -> list[Object]:
    """The variables set by the author of the node and of its module."""
    literals = setting.literals
    return [literals.variable(variable.name, variable.value, secret=variable.secret) for variable in node.env]


def platform_variables(run: RunInfo | None) -> list[Object]:
    """The variables that the platform sets in every container. In an exported manifest the token comes from a
    Secret."""
    if run is None:
        reference = {"name": UNBOUND_SECRET, "key": TOKEN, "optional": True}
        return [
            {"name": "AI_HUB_WORKFLOW_RUN_ID", "value": "{{workflow.uid}}"},
            {"name": TOKEN, "valueFrom": {"secretKeyRef": reference}},
        ]
    return [
        {"name": "AI_HUB_USER_ID", "value": run.user},
        {"name": "AI_HUB_WORKFLOW_RUN_ID", "value": run.id},
        {"name": TOKEN, "valueFrom": {"secretKeyRef": {"name": run.secret, "key": TOKEN}}},
    ]


def annotations_for(node: Node, template: str, *, is_main: bool) -> dict[str, str]:
    """Shows the original name of the node in the Workflow."""
    if node.name == template:
        return {}
    shown = {_DISPLAY_NAME: node.name} if is_main and _SHOWABLE.fullmatch(node.name) else {}
    return {NODE: node.name, **shown}


def output_of(graph: Graph, source: FromOutput) -> Output:
    """The output behind a source, in a valid graph."""
    origin = graph.node(source.node)
    assert origin is not None
    return next(output for output in origin.outputs if output.name == source.output)


def _bind(setting: CompileContext, given: Input, bound: BoundInputs) -> None:
    source = given.source
    if isinstance(source, FromValue):
        _bind_text(setting, given.name, source.value, source.value, bound)
    elif isinstance(source, FromParameter):
        value = setting.values.get(source.parameter, "")
        _bind_text(setting, given.name, value, f"{{{{workflow.parameters.{source.parameter}}}}}", bound)
    elif isinstance(source, FromOutput):
        task, output = setting.tasks[source.node].last, output_of(setting.graph, source)
        if output.type == "text":
            tag = f"{{{{tasks.{task}.outputs.parameters.{output.name}}}}}"
            bound.arguments.append({"name": given.name, "value": tag})
            bound.parameters.append(given.name)
            return
        tag = f"{{{{tasks.{task}.outputs.artifacts.{output.name}}}}}"
        bound.file_arguments.append({"name": given.name, "from": tag})
        bound.files.append((given.name, output.path))
        bound.env.append(setting.literals.variable(given.name, output.path))


def _bind_text(setting: CompileContext, name: str, value: str, argument: str, bound: BoundInputs) -> None:
    """A value with Argo tags is passed as an environment variable instead."""
    if has_tag(value):
        bound.env.append(setting.literals.variable(name, value))
        return
    bound.arguments.append({"name": name, "value": argument})
    bound.parameters.append(name)
