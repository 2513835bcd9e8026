"""What a graph document may hold. The one source of docs/graph.schema.json;
`muster.platform.graphs.validation` says what a schema cannot."""

from __future__ import annotations

from typing import Any, Final

from muster.kube.kinds import Schema
from muster.kube.schema import boolean, integer, list_of, number, obj, string
from muster.platform.graphs.model import FORMAT
from muster.platform.graphs.templates import training_kinds

MOST_RETRIES = 100
MOST_SKUS = 10_000
LONGEST_COMMAND = 65_536
LONGEST_TEXT = 65_536
LONGEST_MANIFEST = 1_000_000
MOST_NODES = 1_000


def _text(description: str, longest: int = 1_000, **more: Any) -> Schema:
    return string(description=description, maxLength=longest, **more)


_NAME: Final = 100
_TASK: Final = obj(
    {
        "type": string(
            ["monitor", "compute"],
            description="monitor: 100m CPU and 1000M of memory, to watch what runs elsewhere; compute: so many SKUs of "
            "a virtual cluster. monitor if left out.",
        ),
        "cluster": _text("The virtual cluster that a compute task runs on.", _NAME),
        "skus": integer(
            maximum=MOST_SKUS, description="How many SKUs of it a compute task takes: 1 or more, 1 if left out."
        ),
    },
    description="What the node may use of the machines. A training node gives it to each of its replicas.",
)
_PARAMETER: Final = obj(
    {
        "name": _text("What nodes refer to it by: letters, digits, _ and -, beginning with a letter.", _NAME),
        "description": _text("For whoever fills it in.", 2_000),
        "default": _text("The value of a run that gives none.", LONGEST_TEXT),
        "required": boolean(description="A run has to have a value for it: its own, or the default."),
    },
    ["name"],
    description="An initial parameter: filled in when a run is created, for all nodes to refer to.",
)
_ENV: Final = list_of(
    obj(
        {
            "name": _text("A name as shells have it: letters, digits and _.", 253),
            "value": _text("Its value, word for word.", LONGEST_TEXT),
            "secret": boolean(
                description="Only those who work on the workflow see its value; others get the document without it."
            ),
        },
        ["name"],
    ),
    maxItems=500,
    description="Environment variables. Names that begin with AI_HUB_ belong to the platform.",
)
_INPUT: Final = obj(
    {
        "name": _text("The command refers to it as $name: letters, digits and _, beginning with a letter.", _NAME),
        "description": _text("What it is for.", 2_000),
        "from": obj(
            {
                "parameter": _text("The name of an initial parameter.", _NAME),
                "node": _text("The name of a node that has ended before this one starts.", _NAME),
                "output": _text("The name of one of that node's outputs.", _NAME),
            },
            description="Where the value comes from: {parameter} or {node, output}.",
        ),
        "value": _text("The value itself, instead of `from`.", LONGEST_TEXT),
    },
    ["name"],
    description="An input parameter. A text arrives as it is; a file or folder is unpacked at the path it had, and the "
    "value is that path.",
)
_OUTPUT: Final = obj(
    {
        "name": _text("What other nodes refer to it by: letters, digits, _ and -, beginning with a letter.", _NAME),
        "path": _text("The file (or, for the type file, folder) that the node writes. Absolute.", 1_000),
        "type": string(
            ["text", "file"],
            description="text: what is in the file is the value, less than 1000 characters; file: the file or folder "
            "is packed and unpacked at the same path in the nodes that use it. text if left out.",
        ),
        "description": _text("What it is.", 2_000),
    },
    ["name"],
    description="An output parameter.",
)
_MOUNT: Final = obj(
    {
        "root": _text("The name of a storage root.", _NAME),
        "path": _text("Where the node finds it; where the root says, if left out. Absolute.", 1_000),
        "readOnly": boolean(description="The node may not write to it."),
    },
    ["root"],
    description="A storage root that the node can see.",
)
_MODULE: Final = obj(
    {"name": _text("The module.", _NAME), "version": _text("The version that is pinned.", _NAME)},
    ["name", "version"],
    description="Of a module node: the module that says what runs, which inputs it takes and which outputs it gives.",
)
_ROLE: Final = obj(
    {
        "name": _text("The role, as the kind calls it: Master, Worker, PS, Launcher ...", _NAME),
        "replicas": integer(0, 10_000, description="How many members the role has; 1 if left out."),
        "command": _text("In place of the node's command.", LONGEST_COMMAND),
        "image": _text("In place of the node's image.", 500),
        "task": _TASK,
    },
    ["name"],
    description="One role of a training job. What it does not say is as the node says.",
)
_TRAINING: Final = obj(
    {
        "kind": _text("PyTorchJob, TFJob, XGBoostJob, MPIJob, PaddleJob, JAXJob ...", _NAME),
        "apiVersion": _text(
            "Tells kinds of one name apart: kubeflow.org/v1 if left out, batch.paddlepaddle.org/v1 for PaddleCloud's "
            "PaddleJob.",
            _NAME,
        ),
        "roles": list_of(_ROLE, maxItems=10, description="The roles, with their replicas."),
    },
    ["kind", "roles"],
    description="Of a training node: the training job that it is.",
)
_NODE: Final = obj(
    {
        "name": _text("Unique in the graph; any language.", _NAME),
        "kind": string(
            ["plain", "module", "training"],
            description="plain: a command in an image; module: a module; training: a training job. plain if left out.",
        ),
        "description": _text("What it does.", 2_000),
        "command": _text(
            "Shell text, run by the image's sh in /tmp/workflow_space. Inputs are there as $name.", LONGEST_COMMAND
        ),
        "image": _text("The image it runs in.", 500),
        "task": _TASK,
        "retries": integer(
            description=f"How often it is tried again when it fails: 0 to {MOST_RETRIES}, 0 if left out."
        ),
        "env": _ENV,
        "inputs": list_of(_INPUT, maxItems=200, description="Input parameters."),
        "outputs": list_of(
            _OUTPUT, maxItems=200, description="Output parameters. A module node has those of its module."
        ),
        "storage": list_of(_MOUNT, maxItems=50, description="Storage roots that it mounts."),
        "module": _MODULE,
        "training": _TRAINING,
        "position": obj(
            {"x": number(description="From the left."), "y": number(description="From the top.")},
            ["x", "y"],
            description="Where it is drawn. Says nothing about how it runs.",
        ),
    },
    ["name"],
    description="A node: one step of the workflow.",
)
_EDGE: Final = obj(
    {
        "from": _text("The node that has to end first, and well.", _NAME),
        "to": _text("The node that waits for it.", _NAME),
    },
    ["from", "to"],
    description="An order between two nodes.",
)
SCHEMA: Final = obj(
    {
        "format": integer(FORMAT, FORMAT, description="The version of this format."),
        "type": string(
            ["graph", "yaml"],
            description="graph: parameters, nodes and edges; yaml: an Argo Workflow, as it was handed in. graph if "
            "left out.",
        ),
        "parameters": list_of(_PARAMETER, maxItems=200, description="Initial parameters."),
        "nodes": list_of(_NODE, maxItems=MOST_NODES, description="The nodes, in the order they were drawn."),
        "edges": list_of(_EDGE, maxItems=20_000, description="Which nodes wait for which."),
        "manifest": _text("Of the type yaml: the manifest of one Argo Workflow.", LONGEST_MANIFEST),
    },
    ["format"],
    description="What runs in a version of a workflow. A version, and so its document, never changes.",
)
"""Numbers with a rule of their own (SKUs, retries) are checked with the other rules, which say what to write."""


def json_schema() -> dict[str, Any]:
    """The same, as JSON Schema. `x-kinds` lists the kinds of training jobs; the web UI is built from it."""
    exported = _exported(SCHEMA)
    exported["properties"]["nodes"]["items"]["properties"]["training"]["x-kinds"] = training_kinds()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A graph document of Muster",
        **exported,
    }


def _exported(schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key.startswith("x-") or key == "format":
            continue
        if key == "properties":
            found[key] = {name: _exported(sub) for name, sub in value.items()}
        elif key == "items":
            found[key] = _exported(value)
        else:
            found[key] = value
    if schema.get("type") == "object":
        found["additionalProperties"] = False
    return found


if __name__ == "__main__":
    import json

    print(json.dumps(json_schema(), indent=2))
