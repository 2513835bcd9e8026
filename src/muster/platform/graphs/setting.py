"""What all templates of one Workflow are made from, and how the inputs of a node reach it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.kube.objects import Object
from muster.platform.graphs.context import Context, Run
from muster.platform.graphs.model import FromOutput, FromParameter, FromValue, Graph, Input, Node, Output
from muster.platform.graphs.names import Tasks
from muster.platform.graphs.verbatim import UNBOUND_SECRET, Literals, from_input, has_tag

TOKEN = "AI_HUB_TOKEN"  # noqa: S105  (the name of a variable)
RUN_LABEL = "muster.dev/run"
TASK_LABEL = "muster.dev/task"
"""On training jobs and their Pods: the task that made them."""
NODE = "muster.dev/node"
"""Annotation of a template: the node it belongs to, as its author calls it."""

_DISPLAY_NAME = "workflows.argoproj.io/display-name"
_SHOWABLE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-.]{0,61}[a-zA-Z0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Setting:
    graph: Graph
    """With its modules filled in."""
    context: Context
    tasks: Mapping[str, Tasks]
    literals: Literals
    values: Mapping[str, str]
    """Of the initial parameters, as far as they are known."""
    run: Run | None


@dataclass(slots=True)
class Bound:
    """How a node's inputs reach it: arguments of its task, inputs of its template, variables of its containers."""

    arguments: list[Object] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    """Inputs that the template takes as parameters."""
    file_arguments: list[Object] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    """Inputs that are files or folders, with their paths."""
    env: list[Object] = field(default_factory=list)
    """Those whose values are known by now."""


def bind(setting: Setting, node: Node) -> Bound:
    bound = Bound()
    for given in node.inputs:
        _bind(setting, given, bound)
    return bound


def environment(setting: Setting, node: Node, bound: Bound) -> list[Object]:
    """Of a container of the node's own template."""
    own = own_variables(setting, node)
    late = [{"name": name, "value": from_input(name)} for name in bound.parameters]
    return [*own, *bound.env, *late, *platform_variables(setting.run)]


def own_variables(setting: Setting, node: Node) -> list[Object]:
    """What the node's author, and that of its module, have set."""
    literals = setting.literals
    return [literals.variable(variable.name, variable.value, secret=variable.secret) for variable in node.env]


def platform_variables(run: Run | None) -> list[Object]:
    """What every container is told by the platform. Outside of it, a token may be put into a Secret."""
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
    """So that those who look at the Workflow see the author's name."""
    if node.name == template:
        return {}
    shown = {_DISPLAY_NAME: node.name} if is_main and _SHOWABLE.fullmatch(node.name) else {}
    return {NODE: node.name, **shown}


def output_of(graph: Graph, source: FromOutput) -> Output:
    """Of a graph without problems."""
    origin = graph.node(source.node)
    assert origin is not None
    return next(output for output in origin.outputs if output.name == source.output)


def _bind(setting: Setting, given: Input, bound: Bound) -> None:
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


def _bind_text(setting: Setting, name: str, value: str, argument: str, bound: Bound) -> None:
    """A value in which Argo would find something to fill in goes past it."""
    if has_tag(value):
        bound.env.append(setting.literals.variable(name, value))
        return
    bound.arguments.append({"name": name, "value": argument})
    bound.parameters.append(name)
