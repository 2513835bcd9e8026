"""Findings about a graph: a code with values that a user interface can translate, and the English text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    """Where, as in `nodes[1].inputs[0].from`; '' is the document as a whole."""
    code: str
    message: str
    fix: str
    """What to write instead."""
    arguments: dict[str, Any] = field(default_factory=dict)
    is_warning: bool = False
    """The document can be stored and run all the same."""

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.message}; {self.fix}" if self.fix else f"{place}{self.message}"

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "code": self.code,
            "message": self.message,
            "fix": self.fix,
            "arguments": self.arguments,
            "severity": "warning" if self.is_warning else "error",
        }


class Text(NamedTuple):
    message: str
    fix: str = ""
    is_warning: bool = False


def make_finding(where: str, code: str, /, **arguments: Any) -> Finding:
    """Arguments that are lists are joined by commas in the text."""
    text = TEXTS[code]
    shown = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in arguments.items()
    }
    return Finding(where, code, text.message.format(**shown), text.fix.format(**shown), arguments, text.is_warning)


_NAME_FIX = "use letters, digits{more}, beginning with a letter, at most 63"
_IDENTIFIER = _NAME_FIX.format(more=" and _")
_REFERABLE = _NAME_FIX.format(more=", _ and -")

TEXTS: Final[dict[str, Text]] = {
    # The document
    "schema": Text("{detail}", "see docs/graph.schema.json for what may be written here"),
    "graph.empty": Text("the graph has no node", "add at least one node"),
    "type.field": Text('"{field}" has no meaning in a document of the type {type}', "leave it out, or change the type"),
    # Names
    "parameter.name": Text('"{name}" cannot be the name of an initial parameter', _REFERABLE),
    "parameter.duplicate": Text('there are two initial parameters "{name}"', "rename one of them"),
    "node.name": Text(
        '"{name}" cannot be the name of a node',
        "write 1 to 63 characters on one line, without {{{{, /, or blanks at either end",
    ),
    "node.duplicate": Text('there are two nodes "{name}"', "rename one of them"),
    "input.name": Text(
        '"{name}" cannot be the name of an input: the command could not refer to it as ${name}', _IDENTIFIER
    ),
    "input.duplicate": Text('the node has two inputs "{name}"', "rename one of them"),
    "output.name": Text('"{name}" cannot be the name of an output', _REFERABLE),
    "output.duplicate": Text('the node has two outputs "{name}"', "rename one of them"),
    "env.name": Text('"{name}" cannot be the name of an environment variable', _IDENTIFIER),
    "env.duplicate": Text('the environment variable "{name}" is set twice', "remove one of them"),
    "env.secret": Text(
        '"{name}" looks like a secret that everybody can read', "tick secret if it is one", is_warning=True
    ),
    "env.secret-value": Text('the secret "{name}" has no value', "write it again: you were not shown the old one"),
    "env.input": Text(
        '"{name}" is both an input and an environment variable, and there can be one of that name',
        "rename one of them",
    ),
    "name.reserved": Text(
        '"{name}" is reserved: names that begin with AI_HUB_ are set by the platform', "choose another name"
    ),
    "input.shell": Text('an input "{name}" would replace what the shell needs under that name', "choose another name"),
    # Edges
    "edge.unknown": Text('there is no node "{name}"', "write the name of a node: {nodes}"),
    "edge.self": Text('"{name}" would wait for itself', "remove this edge"),
    "edge.duplicate": Text('"{before}" already comes before "{after}"', "remove this edge", is_warning=True),
    "cycle": Text("these nodes wait for each other in a circle: {cycle}", "remove one of the edges between them"),
    # Where inputs come from
    "input.unbound": Text(
        'nothing says where the input "{name}" comes from',
        "choose an initial parameter, an output of an earlier node, or write a value",
    ),
    "input.ambiguous": Text(
        'the input "{name}" comes from more than one place', "keep one of from.parameter, from.node and value"
    ),
    "input.parameter": Text('there is no initial parameter "{parameter}"', "choose one of {parameters}, or add it"),
    "input.node": Text('there is no node "{node}"', "choose one of the nodes before this one: {nodes}"),
    "input.output": Text('"{node}" has no output "{output}"', "choose one of its outputs: {outputs}"),
    "input.ancestor": Text(
        '"{node}" does not come before "{name}", so its output "{output}" may not be there yet',
        'draw an edge from "{node}" (or from a node after it) to "{name}", or choose one of {nodes}',
    ),
    "input.self": Text('"{name}" cannot take an output of its own', "choose an output of a node before it"),
    "input.path": Text(
        'the files of the inputs "{name}" and "{other}" would both be unpacked at {path}',
        "let the nodes that make them write to different paths",
    ),
    "input.unused": Text(
        'the command does not use the input "{name}"', "write ${name} where it is needed, or remove it", is_warning=True
    ),
    # Commands and images
    "command.missing": Text('"{name}" has no command', "write what it is to run"),
    "command.undeclared": Text(
        "the command uses ${name}, but no input or environment variable is called so",
        "declare an input {name}, or write \\${name} if the dollar is meant as such",
        is_warning=True,
    ),
    "image.missing": Text('"{name}" has no image', "write the image that its command runs in"),
    "image.name": Text('"{image}" cannot be the name of an image', "write it as in python:3.11, or team/train:1.0"),
    "retries.range": Text("{retries} retries are not possible", "write a number from 0 to {most}"),
    # Outputs
    "output.path": Text(
        'the output "{name}" needs the path of the file it is written to, not "{path}"',
        "write an absolute path without .., such as /tmp/workflow_space/{name}",
    ),
    "output.same-path": Text('the outputs "{name}" and "{other}" have the same path', "write them to different files"),
    "output.training": Text(
        'the output "{name}" of a training job is at {path}, which its replicas do not share',
        "write it below /tmp/workflow_space",
    ),
    # Tasks
    "task.sku": Text("a compute task of {skus} SKUs gets nothing", "write 1 or more"),
    "task.no-cluster": Text("a compute task needs a virtual cluster", "choose one of {clusters}"),
    "task.cluster": Text('there is no virtual cluster "{cluster}"', "choose one of {clusters}"),
    "task.forbidden": Text(
        'you may not use the virtual cluster "{cluster}"', "choose one of {clusters}, or ask an admin"
    ),
    "task.monitor": Text(
        "a monitor task has fixed resources, and no virtual cluster", 'leave out cluster and skus, or choose "compute"'
    ),
    # Storage
    "storage.root": Text('there is no storage root "{root}"', "choose one of {roots}, or ask an admin to add it"),
    "storage.forbidden": Text('you may not use the storage root "{root}"', "choose one of {roots}, or ask an admin"),
    "storage.read-only": Text('the storage root "{root}" cannot be written to', "tick read-only"),
    "storage.path": Text('"{path}" is no place for a storage root', "write an absolute path below /, without .."),
    "storage.same-path": Text("two storage roots would be mounted at {path}", "give one of them another path"),
    "storage.covers": Text("{path} is where the node's own files are", "mount the storage root at another path"),
    # Modules
    "module.missing": Text('"{name}" is a module node without a module', "choose a module and a version"),
    "module.unknown": Text('there is no module "{module}"', "choose one of {modules}"),
    "module.version": Text('the module "{module}" has no version "{version}"', "choose one of {versions}"),
    "module.forbidden": Text(
        '"{module}" {version} is not published, and not yours', "choose a published version, or ask its author"
    ),
    "module.retired": Text(
        '"{module}" {version} is deprecated, and only for workflows that use it already', "choose a newer version"
    ),
    "module.deprecated": Text('"{module}" {version} is deprecated', "choose a newer version", is_warning=True),
    "module.input": Text(
        'the module "{module}" takes the input "{input}", which is not set', "say where it comes from, or write a value"
    ),
    "module.no-input": Text('the module "{module}" takes no input "{input}"', "remove it, or choose one of {inputs}"),
    "module.field": Text("a module node has the {field} of its module", "leave it out"),
    "kind.field": Text('"{field}" has no meaning in a {kind} node', "leave it out, or change the kind of the node"),
    # Training
    "training.missing": Text('"{name}" is a training node without a training job', "choose a kind and its replicas"),
    "training.kind": Text('there is no training job of the kind "{kind}"', "choose one of {kinds}"),
    "training.role": Text('a {kind} has no role "{role}"', "choose one of {roles}"),
    "training.duplicate": Text('the role "{role}" is there twice', "remove one of them"),
    "training.empty": Text("the training job has no replicas", "give one of the roles {roles} at least 1"),
    "training.invalid": Text("{detail}", "change the roles or their replicas"),
    # A manifest
    "manifest.missing": Text("the manifest is missing", "paste an Argo Workflow"),
    "manifest.unreadable": Text("{detail}", "correct the YAML"),
    "manifest.kind": Text("the manifest is a {kind}, not a Workflow", "paste one object of kind Workflow"),
    "manifest.invalid": Text("{detail}", "correct the manifest"),
    "manifest.confined": Text("{detail}", "or ask an admin to store it for you"),
    # The values of a run
    "value.unknown": Text('there is no initial parameter "{name}"', "choose one of {parameters}"),
    "value.missing": Text('"{name}" needs a value', "fill it in"),
    "value.long": Text('the value of "{name}" has {size} bytes', "write at most {most}, and pass more as a file"),
    "value.zero": Text('the value of "{name}" holds a character that no environment variable can hold', "remove it"),
    # What an imported manifest says that a graph cannot
    "import.changed": Text('step "{step}": {detail}', "change it in the graph if that will not do", is_warning=True),
    "import.unmapped": Text("{detail}", "the manifest is kept as it is, and runs as it is", is_warning=True),
}  # fmt: skip
