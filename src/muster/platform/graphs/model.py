"""A graph document: what it may contain (SCHEMA), and the same as data with every default filled in.

A new field of a node is described here once: in the schema, in `Node`, and in `_node`, which reads it. templates.py
says what it does, docs/graph.schema.json is generated, and ui/src/graph/node-fields.ts says how the web UI shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from muster.kube.kinds import Schema
from muster.kube.schema import boolean, integer, list_of, number, obj, string

Document: TypeAlias = dict[str, Any]
"""A graph document as it is stored: plain JSON. docs/graph.schema.json describes it."""

FORMAT = 1
WORKSPACE = "/tmp/workflow_space"  # noqa: S108  (a container's own)
"""The folder that exists in every node; nodes run in it unless their image says otherwise."""
RESERVED_PREFIX = "AI_HUB_"
"""Variables that the platform sets."""

OutputType: TypeAlias = Literal["text", "file"]


class Parameter(NamedTuple):
    name: str
    description: str = ""
    default: str | None = None
    required: bool = False


class FromParameter(NamedTuple):
    parameter: str


class FromOutput(NamedTuple):
    node: str
    output: str


class FromValue(NamedTuple):
    value: str


Source: TypeAlias = FromParameter | FromOutput | FromValue


class Input(NamedTuple):
    name: str
    source: Source | None = None
    """None if no source is set yet."""
    description: str = ""


class Output(NamedTuple):
    name: str
    path: str = ""
    type: OutputType = "text"
    description: str = ""


class Variable(NamedTuple):
    name: str
    value: str = ""
    secret: bool = False
    """Only users who work on the workflow see its value, and no Workflow contains it."""


class Mount(NamedTuple):
    root: str
    path: str = ""
    """The mount path; '' for the path of the root."""
    read_only: bool = False


class Task(NamedTuple):
    type: Literal["monitor", "compute"] = "monitor"
    cluster: str = ""
    skus: int = 1


MONITOR_TASK = Task()


class Role(NamedTuple):
    """One role of a training job. A field that is None has the value of the node."""

    name: str
    replicas: int = 1
    command: str | None = None
    image: str | None = None
    task: Task | None = None


class Training(NamedTuple):
    kind: str
    api_version: str = ""
    """'' is the first API that has the kind."""
    roles: tuple[Role, ...] = ()


class ModuleRef(NamedTuple):
    name: str
    version: str


Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "contains"]
OPERATORS: Final[tuple[Operator, ...]] = ("==", "!=", "<", "<=", ">", ">=", "contains")
NUMERIC_OPERATORS: Final = frozenset(("<", "<=", ">", ">="))


class Comparison(NamedTuple):
    left: Source | None
    """None if it is not set yet."""
    operator: Operator
    right: Source | None


class Condition(NamedTuple):
    comparisons: tuple[Comparison, ...]
    match: Literal["all", "any"] = "all"


@dataclass(frozen=True, slots=True)
class Loop:
    """One of `items`, `source` and `count` says what it runs over."""

    items: tuple[str, ...] | None = None
    source: FromParameter | FromOutput | None = None
    """A text that is a JSON list."""
    count: int | None = None
    start: int = 0
    variable: str = "item"
    """The variable that has the item of an iteration."""


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    kind: Literal["plain", "module", "training"] = "plain"
    description: str = ""
    command: str = ""
    image: str = ""
    task: Task = MONITOR_TASK
    retries: int = 0
    env: tuple[Variable, ...] = ()
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    storage: tuple[Mount, ...] = ()
    module: ModuleRef | None = None
    training: Training | None = None
    timeout: str = ""
    """How long one attempt may run, as `parse_timeout` reads it; '' for any time."""
    condition: Condition | None = None
    loop: Loop | None = None
    metrics_pattern: str = ""
    """How metrics are found in its log lines; '' for the usual forms."""


class Edge(NamedTuple):
    before: str
    after: str


@dataclass(frozen=True)
class Graph:
    parameters: tuple[Parameter, ...] = ()
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    def node(self, name: str) -> Node | None:
        return self._by_name.get(name)

    def parents(self, name: str) -> list[str]:
        """The nodes before this one, each once, in the order of the edges."""
        return self._parents.get(name, [])

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        """The nodes by name; the first if two have the same name."""
        return {node.name: node for node in reversed(self.nodes)}

    @cached_property
    def _parents(self) -> dict[str, list[str]]:
        found: dict[str, dict[str, None]] = {}
        for edge in self.edges:
            found.setdefault(edge.after, {})[edge.before] = None
        return {name: list(parents) for name, parents in found.items()}


def is_graph(document: Mapping[str, Any]) -> bool:
    """Whether it consists of nodes and edges; else it contains a manifest."""
    return bool(document.get("type", "graph") == "graph")


def read(document: Mapping[str, Any]) -> Graph:
    """Reads the graph of a document that fits the schema."""
    return Graph(
        tuple(_parameter(p) for p in document.get("parameters") or ()),
        tuple(_node(n) for n in document.get("nodes") or ()),
        tuple(Edge(e["from"], e["to"]) for e in document.get("edges") or ()),
    )


class SortOrder:
    """Which nodes end before which others start. Unknown nodes in edges are ignored; cycles are followed as far as they
    lead."""

    def __init__(self, graph: Graph) -> None:
        self._names = list(dict.fromkeys(node.name for node in graph.nodes))
        self._bits = {name: 1 << number for number, name in enumerate(self._names)}
        parents = {name: [p for p in graph.parents(name) if p in self._bits] for name in self._names}
        self._before: dict[str, int] = {}
        self._settle(parents)
        for name in self._names:  # those in circles, and what comes after them
            if name not in self._before:
                self._before[name] = self._reached(name, parents)

    def is_before(self, first: str, second: str) -> bool:
        return bool(self._before.get(second, 0) & self._bits.get(first, 0)) and first != second

    def before(self, name: str) -> list[str]:
        return [each for each in self._names if self.is_before(each, name)]

    def _settle(self, parents: Mapping[str, list[str]]) -> None:
        """Computes the ancestors of all nodes that are not in or after a cycle."""
        children: dict[str, list[str]] = {name: [] for name in self._names}
        left = {name: len(before) for name, before in parents.items()}
        for name, before in parents.items():
            for parent in before:
                children[parent].append(name)
        ready = [name for name, count in left.items() if not count]
        while ready:
            name = ready.pop()
            found = 0
            for parent in parents[name]:
                found |= self._bits[parent] | self._before[parent]
            self._before[name] = found
            for child in children[name]:
                left[child] -= 1
                if not left[child]:
                    ready.append(child)

    def _reached(self, start: str, parents: Mapping[str, list[str]]) -> int:
        found, waiting = 0, list(parents[start])
        while waiting:
            name = waiting.pop()
            if not found & self._bits[name]:
                found |= self._bits[name]
                waiting += parents[name]
        return found


def _parameter(written: Mapping[str, Any]) -> Parameter:
    return Parameter(
        written["name"], written.get("description") or "", written.get("default"), bool(written.get("required"))
    )


def _node(written: Mapping[str, Any]) -> Node:
    module, training = written.get("module"), written.get("training")
    return Node(
        name=written["name"],
        kind=written.get("kind") or "plain",
        description=written.get("description") or "",
        command=written.get("command") or "",
        image=written.get("image") or "",
        task=_task(written.get("task") or {}),
        retries=written.get("retries") or 0,
        env=tuple(Variable(v["name"], v.get("value") or "", bool(v.get("secret"))) for v in written.get("env") or ()),
        inputs=tuple(_input(i) for i in written.get("inputs") or ()),
        outputs=tuple(read_output(o) for o in written.get("outputs") or ()),
        storage=tuple(
            Mount(m["root"], m.get("path") or "", bool(m.get("readOnly"))) for m in written.get("storage") or ()
        ),
        module=ModuleRef(module["name"], module["version"]) if module else None,
        training=_training(training) if training else None,
        timeout=written.get("timeout") or "",
        condition=_condition(written.get("condition") or {}),
        loop=_loop(written.get("loop") or {}),
        metrics_pattern=written.get("metricsPattern") or "",
    )


def read_output(written: Mapping[str, Any]) -> Output:
    return Output(
        written["name"], written.get("path") or "", written.get("type") or "text", written.get("description") or ""
    )


def _input(written: Mapping[str, Any]) -> Input:
    return Input(written["name"], _source(written), written.get("description") or "")


def _source(written: Mapping[str, Any]) -> Source | None:
    """Of an input, or of one side of a comparison."""
    value = written.get("value")
    return _reference(written.get("from") or {}) or (FromValue(value) if value is not None else None)


def _reference(origin: Mapping[str, Any]) -> FromParameter | FromOutput | None:
    if "parameter" in origin:
        return FromParameter(origin["parameter"])
    return FromOutput(origin["node"], origin.get("output") or "") if "node" in origin else None


def _condition(written: Mapping[str, Any]) -> Condition | None:
    comparisons = tuple(
        Comparison(_source(each.get("left") or {}), each.get("operator") or "==", _source(each.get("right") or {}))
        for each in written.get("comparisons") or ()
    )
    return Condition(comparisons, written.get("match") or "all") if comparisons else None


def _loop(written: Mapping[str, Any]) -> Loop | None:
    items = written.get("items")
    loop = Loop(
        tuple(items) if items else None,
        _reference(written.get("from") or {}),
        written.get("count"),
        written.get("start") or 0,
        written.get("variable") or "item",
    )
    return loop if written else None


_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_UNITS = (86_400, 3_600, 60, 1)


def parse_timeout(text: str) -> int | None:
    """Returns the seconds of `90`, `90s`, `30m` or `1h30m`; None for anything else and for 0."""
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return int(text) or None
    found = _DURATION.fullmatch(text)
    return (
        sum(int(part or 0) * unit for part, unit in zip(found.groups(), _UNITS, strict=True)) or None if found else None
    )


def _task(written: Mapping[str, Any]) -> Task:
    skus = written.get("skus")
    return Task(written.get("type") or "monitor", written.get("cluster") or "", 1 if skus is None else skus)


def _training(written: Mapping[str, Any]) -> Training:
    return Training(
        written["kind"], written.get("apiVersion") or "", tuple(_role(r) for r in written.get("roles") or ())
    )


def _role(written: Mapping[str, Any]) -> Role:
    replicas, task = written.get("replicas"), written.get("task")
    return Role(
        written["name"],
        1 if replicas is None else replicas,
        written.get("command"),
        written.get("image"),
        _task(task) if task else None,
    )


# What a document may contain. validation.py checks what a schema cannot say.

MOST_RETRIES = 100
RANGE = "x-range"
"""The least and the greatest value of a number, in the schema of a node."""
MOST_SKUS = 10_000
LONGEST_COMMAND = 65_536
LONGEST_TEXT = 65_536
LONGEST_MANIFEST = 1_000_000
MOST_NODES = 1_000
MOST_COMPARISONS = 20
MOST_ITEMS = 1_000
LONGEST_ITEM = 1_000
MOST_TIMEOUT = 30 * 86_400
MOST_START = 1_000_000_000


def _text(description: str, longest: int = 1_000, **more: Any) -> Schema:
    return string(description=description, maxLength=longest, **more)


def _number(least: int, most: int, default: int, description: str) -> Schema:
    """A number of a node. `muster.platform.graphs.validation` checks its range."""
    return integer(default=default, description=description) | {RANGE: (least, most)}


_NAME: Final = 100
_TASK: Final = obj(
    {
        "type": string(
            ["monitor", "compute"],
            description="monitor: 100m CPU and 1000M of memory, to watch what runs elsewhere; compute: so many SKUs of "
            "a virtual cluster. monitor if left out.",
            default="monitor",
        ),
        "cluster": _text("The virtual cluster that a compute task runs on.", _NAME),
        "skus": integer(
            maximum=MOST_SKUS,
            default=1,
            description="How many SKUs of it a compute task takes: 1 or more, 1 if left out.",
        ),
    },
    description="What the node may use of the machines. A training node gives it to each of its replicas.",
)
_PARAMETER: Final = obj(
    {
        "name": _text("What nodes refer to it by: letters, digits, _ and -, beginning with a letter.", _NAME),
        "description": _text("For the user who fills it in.", 2_000),
        "default": _text("The value of a run that gives none.", LONGEST_TEXT),
        "required": boolean(default=False, description="A run has to have a value for it: its own, or the default."),
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
                default=False,
                description="Only those who work on the workflow see its value; others get the document without it.",
            ),
        },
        ["name"],
    ),
    maxItems=500,
    description="Environment variables. Names that begin with AI_HUB_ belong to the platform.",
)
_FROM: Final = obj(
    {
        "parameter": _text("The name of an initial parameter.", _NAME),
        "node": _text("The name of a node that has ended before this one starts.", _NAME),
        "output": _text("The name of one of that node's outputs.", _NAME),
    },
    description="Where the value comes from: {parameter} or {node, output}.",
)
_INPUT: Final = obj(
    {
        "name": _text("The command refers to it as $name: letters, digits and _, beginning with a letter.", _NAME),
        "description": _text("What it is for.", 2_000),
        "from": _FROM,
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
            default="text",
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
        "readOnly": boolean(default=False, description="The node may not write to it."),
    },
    ["root"],
    description="A storage root that the node can see.",
)
_MODULE: Final = obj(
    {"name": _text("The module.", _NAME), "version": _text("The version that is pinned.", _NAME)},
    ["name", "version"],
    description="Of a module node: the module that says what runs, which inputs it takes and which outputs it gives.",
)
ROLE_SCHEMA: Final = obj(
    {
        "name": _text("The role, as the kind calls it: Master, Worker, PS, Launcher ...", _NAME),
        "replicas": integer(0, 10_000, default=1, description="How many members the role has; 1 if left out."),
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
        "roles": list_of(ROLE_SCHEMA, maxItems=10, description="The roles, with their replicas."),
    },
    ["kind", "roles"],
    description="Of a training node: the training job that it is.",
)
_SIDE: Final = obj(
    {"from": _FROM, "value": _text("The value itself, instead of `from`.", LONGEST_ITEM)},
    description="One side of a comparison: an initial parameter, a text output of a node before this one, or a value.",
)
_CONDITION: Final = obj(
    {
        "match": string(
            ["all", "any"],
            default="all",
            description="Whether all comparisons have to hold, or one of them. all if left out.",
        ),
        "comparisons": list_of(
            obj(
                {
                    "left": _SIDE,
                    "operator": string(
                        list(OPERATORS),
                        default="==",
                        description="==, != and contains compare texts; <, <=, > and >= compare numbers, and do not "
                        "hold if a side is not a number. == if left out.",
                    ),
                    "right": _SIDE,
                },
                description="A comparison of two values.",
            ),
            maxItems=MOST_COMPARISONS,
            description="The comparisons.",
        ),
    },
    description="The node runs only if this holds; else it is skipped.",
)
_LOOP: Final = obj(
    {
        "items": list_of(
            _text("An item, word for word.", LONGEST_ITEM), maxItems=MOST_ITEMS, description="A fixed list of texts."
        ),
        "from": {**_FROM, "description": "A text that is a JSON list: {parameter} or {node, output}."},
        "count": integer(description=f"The numbers from `start` on, so many: 1 to {MOST_ITEMS}."),
        "start": integer(-MOST_START, MOST_START, default=0, description="The first number of `count`; 0 if left out."),
        "variable": _text("The command refers to the item as $NAME; $item if left out.", _NAME, default="item"),
    },
    description="The node runs once for each item of a list: `items`, `from` or `count`.",
)
NODE_SCHEMA: Final = obj(
    {
        "name": _text("Unique in the graph; any language.", _NAME),
        "kind": string(
            ["plain", "module", "training"],
            description="plain: a command in an image; module: a module; training: a training job. plain if left out.",
            default="plain",
        ),
        "description": _text("What it does.", 2_000),
        "command": _text(
            "Shell text, run by the image's sh in /tmp/workflow_space. Inputs are there as $name.", LONGEST_COMMAND
        ),
        "image": _text("The image it runs in.", 500),
        "task": _TASK,
        "retries": _number(
            0, MOST_RETRIES, 0, f"How often it is tried again when it fails: 0 to {MOST_RETRIES}, 0 if left out."
        ),
        "timeout": _text(
            "How long one attempt may run: seconds, or a duration such as 90s, 30m or 1h30m. Any time if left out.", 20
        ),
        "condition": _CONDITION,
        "loop": _LOOP,
        "env": _ENV,
        "inputs": list_of(_INPUT, maxItems=200, description="Input parameters."),
        "outputs": list_of(
            _OUTPUT, maxItems=200, description="Output parameters. A module node has those of its module."
        ),
        "storage": list_of(_MOUNT, maxItems=50, description="Storage roots that it mounts."),
        "module": _MODULE,
        "training": _TRAINING,
        "metricsPattern": _text(
            "How metrics are found in its log lines: a regular expression (RE2) whose named groups are metrics. "
            "The usual forms, such as loss=0.1, if left out.",
            1_000,
        ),
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
            default="graph",
        ),
        "parameters": list_of(_PARAMETER, maxItems=200, description="Initial parameters."),
        "nodes": list_of(NODE_SCHEMA, maxItems=MOST_NODES, description="The nodes, in the order they were drawn."),
        "edges": list_of(_EDGE, maxItems=20_000, description="Which nodes wait for which."),
        "manifest": _text("Of the type yaml: the manifest of one Argo Workflow.", LONGEST_MANIFEST),
    },
    ["format"],
    description="What runs in a version of a workflow. A version, and so its document, never changes.",
)
"""SKUs and the numbers of nodes (`_number`) are checked by validation.py, whose messages say what to write."""
