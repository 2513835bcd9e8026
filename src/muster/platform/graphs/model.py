"""A graph document, read: the same content with every default filled in, as data that cannot change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

Document: TypeAlias = dict[str, Any]
"""A graph document as it is stored: plain JSON. docs/graph.schema.json describes it."""

FORMAT = 1
WORKSPACE = "/tmp/workflow_space"  # noqa: S108  (a container's own)
"""The folder that every node finds, and works in unless its image says otherwise."""
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
    """None: nobody has said yet where it comes from."""
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
    """Only those who work on the workflow see its value, and no Workflow holds it."""


class Mount(NamedTuple):
    root: str
    path: str = ""
    """Where the container finds it; '' where the root says."""
    read_only: bool = False


class Task(NamedTuple):
    type: Literal["monitor", "compute"] = "monitor"
    cluster: str = ""
    skus: int = 1


MONITOR_TASK = Task()


class Role(NamedTuple):
    """The members of one role of a training job. What is None is as the node says."""

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
        """Each once, in the order of the edges."""
        return self._parents.get(name, [])

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        """Of two nodes with one name, the first."""
        return {node.name: node for node in reversed(self.nodes)}

    @cached_property
    def _parents(self) -> dict[str, list[str]]:
        found: dict[str, dict[str, None]] = {}
        for edge in self.edges:
            found.setdefault(edge.after, {})[edge.before] = None
        return {name: list(parents) for name, parents in found.items()}


def is_graph(document: Mapping[str, Any]) -> bool:
    """Whether it is drawn as nodes and edges; else it holds a manifest."""
    return bool(document.get("type", "graph") == "graph")


def read(document: Mapping[str, Any]) -> Graph:
    """The graph in a document that fits the schema."""
    return Graph(
        tuple(_parameter(p) for p in document.get("parameters") or ()),
        tuple(_node(n) for n in document.get("nodes") or ()),
        tuple(Edge(e["from"], e["to"]) for e in document.get("edges") or ()),
    )


class SortOrder:
    """Which nodes have ended before which others start. Edges that lead nowhere, or in circles, are followed as far as
    they lead."""

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
        """A node whose parents are settled is so, too: what is before them, and they."""
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
    )


def read_output(written: Mapping[str, Any]) -> Output:
    return Output(
        written["name"], written.get("path") or "", written.get("type") or "text", written.get("description") or ""
    )


def _input(written: Mapping[str, Any]) -> Input:
    origin, value = written.get("from") or {}, written.get("value")
    source: Source | None = None
    if "parameter" in origin:
        source = FromParameter(origin["parameter"])
    elif "node" in origin:
        source = FromOutput(origin["node"], origin.get("output") or "")
    elif value is not None:
        source = FromValue(value)
    return Input(written["name"], source, written.get("description") or "")


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
