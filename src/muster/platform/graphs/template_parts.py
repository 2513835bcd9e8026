"""What the templates and tasks of all kinds of nodes have in common."""

from __future__ import annotations

from muster.kube.objects import Object
from muster.platform.graphs.bindings import BoundInputs, CompileContext, annotations_for, escape_tags, has_tag
from muster.platform.graphs.model import Node, Output
from muster.workflows.executors.pod_template import LONGEST_TEXT

MOST_CHARACTERS = 999
"""Of a text output. Where a Pod's outputs are collected, a longer one makes the node an Error that names it."""

_COMMAND = "MUSTER_COMMAND"


def task(name: str, parents: list[str], bound: BoundInputs | None = None) -> Object:
    made: Object = {"name": name, "template": name}
    if parents:
        made["depends"] = " && ".join(parents)
    arguments: Object = {}
    if bound is not None and bound.arguments:
        arguments["parameters"] = bound.arguments
    if bound is not None and bound.file_arguments:
        arguments["artifacts"] = bound.file_arguments
    return {**made, "arguments": arguments} if arguments else made


def declared(
    node: Node, name: str, bound: BoundInputs, outputs: tuple[Output, ...] = (), *, is_main: bool = True
) -> Object:
    """What every template of a node begins with: its name, inputs and outputs."""
    template: Object = {"name": name}
    annotations = annotations_for(node, name, is_main=is_main)
    if any(output.type == "text" for output in outputs):
        annotations[LONGEST_TEXT] = str(MOST_CHARACTERS)
    if annotations:
        template["annotations"] = annotations
    inputs: Object = {}
    if bound.parameters:
        inputs["parameters"] = [{"name": each} for each in bound.parameters]
    if bound.files:
        inputs["artifacts"] = [{"name": each, "path": path} for each, path in bound.files]
    if inputs:
        template["inputs"] = inputs
    texts = [{"name": o.name, "valueFrom": {"path": o.path}} for o in outputs if o.type == "text"]
    files = [{"name": o.name, "path": o.path} for o in outputs if o.type == "file"]
    if texts or files:
        template["outputs"] = {
            **({"parameters": texts} if texts else {}),
            **({"artifacts": files} if files else {}),
        }
    return template


def retry_strategy(node: Node) -> Object:
    return {"retryStrategy": {"limit": str(node.retries), "retryPolicy": "Always"}} if node.retries else {}


def shell_command(setting: CompileContext, command: str) -> tuple[str, list[Object]]:
    """The text for a shell, and the variables it needs. A command in which Argo would find something to fill in comes
    as a variable itself."""
    if not has_tag(command):
        return command, []
    if setting.run is None:
        return escape_tags(command), []
    return f'eval "${_COMMAND}"', [setting.literals.variable(_COMMAND, command)]
