"""Validates where values come from: the inputs of nodes, and the sources of conditions and loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.platform.graphs.model import (
    FromOutput,
    FromParameter,
    Graph,
    Node,
    Output,
    SortOrder,
    Source,
)
from muster.platform.messages import make_finding
from muster.platform.records.workflows import Finding


def input_problems(
    graph: Graph, node: Node, written: Mapping[str, Any], path: str, order: SortOrder
) -> Iterator[Finding]:
    """`graph` has its modules filled in."""
    places: dict[str, str] = {}
    for index, given in enumerate(node.inputs):
        where = f"{path}.inputs[{index}]"
        if is_ambiguous(written["inputs"][index]):
            yield make_finding(where, "input.ambiguous", name=given.name)
            continue
        if given.source is None:
            yield make_finding(where, "input.unbound", name=given.name)
            continue
        found = list(source_problems(graph, node, given.source, where, order))
        yield from found
        output = None if found else file_of(graph, given.source)
        if output is None:
            continue
        if (origin_node := graph.node(getattr(given.source, "node", ""))) is not None and origin_node.loop is not None:
            yield make_finding(f"{where}.from", "input.loop-file", name=given.name, node=origin_node.name)
        if output.path in places:
            other = places[output.path]
            yield make_finding(f"{where}.from", "input.path", name=given.name, other=other, path=output.path)
        places.setdefault(output.path, given.name)


def is_ambiguous(written: Mapping[str, Any]) -> bool:
    """Whether an input, or a side of a comparison, has more than one source."""
    origin = written.get("from") or {}
    return ("parameter" in origin) + bool({"node", "output"} & origin.keys()) + (written.get("value") is not None) > 1


def file_of(graph: Graph, source: Source | None) -> Output | None:
    """The output behind a source, if that is a file or folder."""
    if not isinstance(source, FromOutput):
        return None
    origin = graph.node(source.node)
    outputs = origin.outputs if origin is not None else ()
    return next((o for o in outputs if o.name == source.output and o.type == "file"), None)


def source_problems(graph: Graph, node: Node, source: Source | None, where: str, order: SortOrder) -> Iterator[Finding]:
    if isinstance(source, FromParameter):
        names = [p.name for p in graph.parameters]
        if source.parameter not in names:
            yield make_finding(
                f"{where}.from.parameter", "input.parameter", parameter=source.parameter, parameters=names
            )
    elif isinstance(source, FromOutput):
        origin = graph.node(source.node)
        if source.node == node.name:
            yield make_finding(f"{where}.from.node", "input.self", name=node.name)
            return
        if origin is None:
            yield make_finding(f"{where}.from.node", "input.node", node=source.node, nodes=order.before(node.name))
            return
        outputs = [output.name for output in origin.outputs]
        if source.output not in outputs:
            yield make_finding(
                f"{where}.from.output", "input.output", node=source.node, output=source.output, outputs=outputs
            )
        if not order.is_before(source.node, node.name):
            earlier = order.before(node.name)
            yield make_finding(
                f"{where}.from", "input.ancestor", node=source.node, name=node.name, output=source.output, nodes=earlier
            )
