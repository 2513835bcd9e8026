"""What a DAG has come to once nothing in it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from muster.workflows.engine.graph import Graph
from muster.workflows.engine.phases import COMPLETED, FAILED, continues_on, is_fulfilled
from muster.workflows.engine.tree import Tree
from muster.workflows.model import Node, Phase


def phase_of(graph: Graph, tree: Tree, boundary: Node, *, fail_fast: bool) -> Phase:
    """Running while a target has not been looked at. A target that did not run takes the phase of those before it,
    and failure weighs more than success."""
    found = _target_phases(graph, tree, boundary)
    result: Phase = "Succeeded"
    for name in graph.targets:
        phase = found[tree.id_of(f"{boundary['name']}.{name}")]
        if phase is None:
            result = "Running"
            if not fail_fast:
                break
        elif phase in FAILED:
            if continues_on(graph.tasks[name].get("continueOn"), phase):
                continue
            result = phase
            if fail_fast:
                break
    return result


def _target_phases(graph: Graph, tree: Tree, boundary: Node) -> dict[str, Phase | None]:
    targets: dict[str, Phase | None] = {tree.id_of(f"{boundary['name']}.{name}"): None for name in graph.targets}
    seen: set[tuple[str, Phase]] = set()
    queue: deque[tuple[str, Phase]] = deque()

    def add(ids: Iterable[str], phase: Phase) -> None:
        for node_id in ids:
            if (node_id, phase) not in seen and node_id in tree.nodes:
                seen.add((node_id, phase))
                queue.append((node_id, phase))

    add(boundary.get("children") or (), "Succeeded")
    while queue:
        node_id, branch = queue.popleft()
        node = tree.nodes[node_id]
        if not is_fulfilled(node):
            continue
        if node["phase"] in COMPLETED:
            branch = node["phase"]
        if node_id in targets and targets[node_id] not in FAILED:
            targets[node_id] = branch
        add(_after(node, tree), branch)
    return targets


def _after(node: Node, tree: Tree) -> list[str]:
    """Of a node with retries, what comes after its attempts: those do not matter themselves."""
    if node["type"] != "Retry":
        return node.get("children") or []
    found: list[str] = []
    for child in reversed(list(tree.children(node["id"]))):
        flag = child.get("nodeFlag") or {}
        if flag.get("hooked") and not flag.get("retried"):
            found.append(child["id"])
        else:
            found.extend(child.get("children") or ())
    return found
