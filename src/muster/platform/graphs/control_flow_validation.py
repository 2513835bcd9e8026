"""Validates the timeouts, conditions and loops of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.platform.graphs.control_flow import ListError, is_number, parse_items
from muster.platform.graphs.model import (
    LONGEST_ITEM,
    MOST_ITEMS,
    MOST_TIMEOUT,
    NUMERIC_OPERATORS,
    FromParameter,
    FromValue,
    Graph,
    Loop,
    Node,
    SortOrder,
    parse_timeout,
)
from muster.platform.graphs.source_validation import file_of, is_ambiguous, source_problems
from muster.platform.graphs.templates import find_job_kind, has_run_policy
from muster.platform.messages import make_finding
from muster.platform.records.workflows import Finding

MOST_LIST_BYTES = 100_000
"""The largest fixed list: it becomes a part of the Workflow or of its Secret."""


def flow_problems(
    graph: Graph, node: Node, written: Mapping[str, Any], path: str, order: SortOrder
) -> Iterator[Finding]:
    """`graph` has its modules filled in."""
    yield from _timeout_problems(node, f"{path}.timeout")
    if node.condition is not None:
        yield from _condition_problems(graph, node, written["condition"]["comparisons"], f"{path}.condition", order)
    if node.loop is not None:
        yield from _loop_problems(graph, node, node.loop, written["loop"], f"{path}.loop", order)


def item_problems(path: str, name: str, node: str, text: str) -> Iterator[Finding]:
    """Checks the value of an initial parameter that a loop runs over."""
    try:
        items = parse_items(text)
    except ListError as error:
        yield make_finding(path, "value.list", name=name, node=node, detail=str(error))
        return
    if len(items) > MOST_ITEMS:
        yield make_finding(path, "value.items", name=name, node=node, count=len(items), most=MOST_ITEMS)
    if any("\0" in item for item in items):
        yield make_finding(path, "value.zero", name=name)
    long = next((item for item in items if len(item) > LONGEST_ITEM), None)
    if long is not None:
        yield make_finding(path, "value.item", name=name, node=node, size=len(long), most=LONGEST_ITEM)


def _timeout_problems(node: Node, path: str) -> Iterator[Finding]:
    if not node.timeout:
        return
    seconds = parse_timeout(node.timeout)
    if seconds is None or seconds > MOST_TIMEOUT:
        yield make_finding(path, "timeout.value", value=node.timeout, days=MOST_TIMEOUT // 86_400)
    job_kind = find_job_kind(node.training) if node.kind == "training" and node.training is not None else None
    if job_kind is not None and node.training is not None and not has_run_policy(job_kind):
        kind = f"{job_kind.kind.api_version} {node.training.kind}"
        yield make_finding(path, "timeout.training", kind=kind)


def _condition_problems(
    graph: Graph, node: Node, written: list[Mapping[str, Any]], path: str, order: SortOrder
) -> Iterator[Finding]:
    assert node.condition is not None
    for index, comparison in enumerate(node.condition.comparisons):
        for side, source in (("left", comparison.left), ("right", comparison.right)):
            where = f"{path}.comparisons[{index}].{side}"
            if is_ambiguous(written[index].get(side) or {}):
                yield make_finding(where, "condition.ambiguous", name=node.name)
                continue
            if source is None:
                yield make_finding(where, f"condition.{side}", name=node.name)
                continue
            found = list(source_problems(graph, node, source, where, order))
            yield from found
            if not found and (output := file_of(graph, source)) is not None:
                yield make_finding(f"{where}.from", "flow.file", name=node.name, output=output.name)
            if isinstance(source, FromValue):
                if comparison.operator in NUMERIC_OPERATORS and not is_number(source.value):
                    value, operator = source.value, comparison.operator
                    yield make_finding(f"{where}.value", "condition.number", value=value, operator=operator)
                elif "\0" in source.value:
                    yield make_finding(f"{where}.value", "flow.zero", name=node.name)


def _loop_problems(
    graph: Graph, node: Node, loop: Loop, written: Mapping[str, Any], path: str, order: SortOrder
) -> Iterator[Finding]:
    given = (loop.items is not None) + (loop.count is not None) + bool(written.get("from"))
    if given != 1:
        yield make_finding(path, "loop.ambiguous" if given else "loop.missing", name=node.name)
        return
    if loop.count is not None and not 1 <= loop.count <= MOST_ITEMS:
        yield make_finding(f"{path}.count", "number.range", value=loop.count, least=1, most=MOST_ITEMS)
    if loop.items is not None:
        size = sum(len(item.encode()) for item in loop.items)
        if size > MOST_LIST_BYTES:
            yield make_finding(f"{path}.items", "loop.size", name=node.name, size=size, most=MOST_LIST_BYTES)
        for index, item in enumerate(loop.items):
            if "\0" in item:
                yield make_finding(f"{path}.items[{index}]", "flow.zero", name=node.name)
    if loop.items is None and loop.count is None:
        yield from _list_problems(graph, node, loop, written, path, order)
    if node.kind == "training" and (node.outputs or any(file_of(graph, each.source) for each in node.inputs)):
        yield make_finding(path, "loop.training", name=node.name)


def _list_problems(
    graph: Graph, node: Node, loop: Loop, written: Mapping[str, Any], path: str, order: SortOrder
) -> Iterator[Finding]:
    if loop.source is None or is_ambiguous(written):
        yield make_finding(f"{path}.from", "loop.missing", name=node.name)
        return
    found = list(source_problems(graph, node, loop.source, path, order))
    yield from found
    if found:
        return
    if (output := file_of(graph, loop.source)) is not None:
        yield make_finding(f"{path}.from", "flow.file", name=node.name, output=output.name)
    if isinstance(loop.source, FromParameter):
        name = loop.source.parameter
        default = next((p.default for p in graph.parameters if p.name == name), None)
        if default:
            yield from item_problems(f"{path}.from.parameter", name, node.name, default)
