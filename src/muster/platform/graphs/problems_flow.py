"""What is wrong between nodes: edges, circles, and inputs that cannot be had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.platform.graphs.messages import Problem, problem
from muster.platform.graphs.model import Edge, FromOutput, FromParameter, Graph, Input, Node, Order, Output


def edge_problems(graph: Graph) -> Iterator[Problem]:
    names = [node.name for node in graph.nodes]
    known = set(names)
    seen: set[Edge] = set()
    for index, edge in enumerate(graph.edges):
        for end, name in (("from", edge.before), ("to", edge.after)):
            if name not in known:
                yield problem(f"edges[{index}].{end}", "edge.unknown", name=name, nodes=names)
        if edge.before == edge.after:
            yield problem(f"edges[{index}]", "edge.self", name=edge.before)
        elif edge in seen:
            yield problem(f"edges[{index}]", "edge.duplicate", before=edge.before, after=edge.after)
        seen.add(edge)
    for cycle in _cycles(graph):
        index = graph.edges.index(Edge(cycle[-1], cycle[0]))
        yield problem(f"edges[{index}]", "cycle", cycle=" -> ".join([*cycle, cycle[0]]), nodes=cycle)


def input_problems(graph: Graph, node: Node, written: Mapping[str, Any], path: str, order: Order) -> Iterator[Problem]:
    """`graph` has its modules filled in."""
    places: dict[str, str] = {}
    for index, given in enumerate(node.inputs):
        where = f"{path}.inputs[{index}]"
        raw = written["inputs"][index]
        origin = raw.get("from") or {}
        if ("parameter" in origin) + bool({"node", "output"} & origin.keys()) + (raw.get("value") is not None) > 1:
            yield problem(where, "input.ambiguous", name=given.name)
            continue
        if given.source is None:
            yield problem(where, "input.unbound", name=given.name)
            continue
        found = list(_source_problems(graph, node, given, where, order))
        yield from found
        output = None if found else file_of(graph, given)
        if output is None:
            continue
        if output.path in places:
            other = places[output.path]
            yield problem(f"{where}.from", "input.path", name=given.name, other=other, path=output.path)
        places.setdefault(output.path, given.name)


def file_of(graph: Graph, given: Input) -> Output | None:
    """The output behind an input, if that is a file or folder."""
    if not isinstance(given.source, FromOutput):
        return None
    origin = graph.node(given.source.node)
    outputs = origin.outputs if origin is not None else ()
    return next((o for o in outputs if o.name == given.source.output and o.type == "file"), None)


def _source_problems(graph: Graph, node: Node, given: Input, where: str, order: Order) -> Iterator[Problem]:
    source = given.source
    if isinstance(source, FromParameter):
        names = [p.name for p in graph.parameters]
        if source.parameter not in names:
            yield problem(f"{where}.from.parameter", "input.parameter", parameter=source.parameter, parameters=names)
    elif isinstance(source, FromOutput):
        origin = graph.node(source.node)
        if source.node == node.name:
            yield problem(f"{where}.from.node", "input.self", name=node.name)
            return
        if origin is None:
            yield problem(f"{where}.from.node", "input.node", node=source.node, nodes=order.before(node.name))
            return
        outputs = [output.name for output in origin.outputs]
        if source.output not in outputs:
            yield problem(
                f"{where}.from.output", "input.output", node=source.node, output=source.output, outputs=outputs
            )
        if not order.is_before(source.node, node.name):
            earlier = order.before(node.name)
            yield problem(
                f"{where}.from", "input.ancestor", node=source.node, name=node.name, output=source.output, nodes=earlier
            )


def _cycles(graph: Graph) -> list[list[str]]:
    """One circle for each group of nodes that wait for each other."""
    known = {node.name for node in graph.nodes}
    after: dict[str, list[str]] = {name: [] for name in known}
    for edge in graph.edges:
        if edge.before in known and edge.after in known and edge.before != edge.after:
            after[edge.before].append(edge.after)
    done: set[str] = set()
    cycles: list[list[str]] = []
    for node in graph.nodes:
        if node.name in done:
            continue
        # Depth first, without recursion: `trail` is the way from `node` to where we are.
        trail: list[str] = [node.name]
        choices = [iter(after[node.name])]
        on_trail = {node.name}
        caught = False
        while choices:
            step = next(choices[-1], None)
            if step is None:
                done.add(trail[-1])
                on_trail.discard(trail.pop())
                choices.pop()
            elif step in on_trail:
                if not caught:
                    cycles.append(trail[trail.index(step) :])
                    caught = True
            elif step not in done:
                trail.append(step)
                on_trail.add(step)
                choices.append(iter(after[step]))
    return cycles
