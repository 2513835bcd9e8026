"""How the nodes of a graph are called inside a Workflow, which allows less than people do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from muster.platform.graphs.model import Graph, Node

ENTRYPOINT = "main"
_LONGEST = 40


class Tasks(NamedTuple):
    """The tasks that a node becomes; '' where it needs none. A training node whose inputs or outputs are files has one
    before and one after it, which carry them."""

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
    """By node, of a graph with its modules filled in. Names that are fine stay as they are; the same graph always gets
    the same names."""
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
    """The opposite: by the name of a task, the node."""
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
    """Something like it that every part of a Workflow may be called."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST].strip("-")
    if not plain:
        return "node"
    return plain if plain[0].isalpha() else f"node-{plain}"[:_LONGEST].strip("-")


def _free(wanted: str, full: str, taken: set[str]) -> str:
    """The name, or with a few digits of the full one behind it if that is taken already, or says nothing."""
    name, salt = wanted, full
    while name in taken or (name == "node" and full != "node"):
        name = f"{wanted}-{sha256(salt.encode()).hexdigest()[:6]}"
        salt += "'"
        if name not in taken:
            break
    taken.add(name)
    return name
