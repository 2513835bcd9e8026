"""`muster top`: shows the CPU and memory usage of nodes and Pods, from the metrics API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo, format_table, warn
from muster.cli.selection import format_nothing_found
from muster.cli.session import AllNamespaces, LabelSelector, Session, on_cluster
from muster.kube.errors import NotFound
from muster.kube.metrics_api import NODE_METRICS, POD_METRICS
from muster.kube.objects import Object, name_of, namespace_of, status_of
from muster.kube.quantity import milli_value, sum_resources, whole_value

_MEBI = 1024 * 1024


@on_cluster
async def top(
    session: Session,
    what: Annotated[str, typer.Argument(metavar="(nodes | pods)")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]")] = None,
    selector: LabelSelector = "",
    all_namespaces: AllNamespaces = False,
    containers: Annotated[bool, typer.Option("--containers", help="Show each container separately.")] = False,
    sort_by: Annotated[str, typer.Option("--sort-by", help="Sort by cpu or memory.")] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print headers.")] = False,
) -> None:
    """Show the resource usage of nodes or Pods."""
    if sort_by not in ("", "cpu", "memory"):
        raise CommandError(f'--sort-by: "{sort_by}" is not a known column; use cpu or memory')
    nodes = what.lower() in ("node", "nodes", "no")
    if not nodes and what.lower() not in ("pod", "pods", "po"):
        raise CommandError(f'"{what}" has no metrics; use nodes or pods')
    kind = NODE_METRICS if nodes else POD_METRICS
    try:
        page = await session.cluster.list(kind, "" if nodes or all_namespaces else session.namespace, labels=selector)
    except NotFound:
        raise CommandError(
            "error: Metrics API not available: this cluster does not measure the usage of nodes and Pods"
        ) from None
    measured = [m for m in page.items if not names or name_of(m) in names]
    missing = set(names or ()) - {name_of(m) for m in measured}
    if missing:
        raise CommandError(f'Error from server (NotFound): no metrics for {what} "{sorted(missing)[0]}"')
    if not measured:
        warn(format_nothing_found("" if nodes or all_namespaces else session.namespace))
        return
    if nodes:
        known = await session.cluster.list(session.cluster.catalogue.of("v1", "Node"))
        headers, rows = node_rows(_sort_metrics(measured, sort_by), {name_of(n): n for n in known.items})
    else:
        headers, rows = pod_rows(_sort_metrics(measured, sort_by), containers=containers, namespaces=all_namespaces)
    lines = format_table(headers, rows)
    echo("\n".join(lines[1:] if no_headers else lines))


def node_rows(metrics: Sequence[Object], nodes: Mapping[str, Object]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for measured in metrics:
        usage = measured.get("usage") or {}
        allocatable = status_of(nodes.get(name_of(measured)) or {}).get("allocatable") or {}
        rows.append([
            name_of(measured),
            f"{milli_value(usage.get('cpu', '0'))}m",
            _percent(milli_value(usage.get("cpu", "0")), milli_value(allocatable.get("cpu", "0"))),
            f"{whole_value(usage.get('memory', '0')) // _MEBI}Mi",
            _percent(whole_value(usage.get("memory", "0")), whole_value(allocatable.get("memory", "0"))),
        ])  # fmt: skip
    return ["NAME", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"], rows


def pod_rows(
    metrics: Sequence[Object], *, containers: bool = False, namespaces: bool = False
) -> tuple[list[str], list[list[str]]]:
    rows = []
    for measured in metrics:
        front = [*([namespace_of(measured)] if namespaces else [])]
        if containers:
            rows += [
                [*front, name_of(measured), str(c.get("name")), *_format_usage(c.get("usage") or {})]
                for c in measured.get("containers") or ()
            ]
        else:
            rows.append([*front, name_of(measured), *_format_usage(_total(measured))])
    headers = [*(["NAMESPACE"] if namespaces else []), *(["POD", "NAME"] if containers else ["NAME"])]
    return [*headers, "CPU(cores)", "MEMORY(bytes)"], rows


def _total(measured: Object) -> Mapping[str, Any]:
    if "usage" in measured:
        usage: Mapping[str, Any] = measured["usage"]
        return usage
    return sum_resources(c.get("usage") or {} for c in measured.get("containers") or ())


def _format_usage(usage: Mapping[str, Any]) -> list[str]:
    return [f"{milli_value(usage.get('cpu', '0'))}m", f"{whole_value(usage.get('memory', '0')) // _MEBI}Mi"]


def _sort_metrics(metrics: Sequence[Object], by: str) -> list[Object]:
    if by:
        return sorted(metrics, key=lambda m: milli_value(_total(m).get(by, "0")), reverse=True)
    return sorted(metrics, key=lambda m: (namespace_of(m), name_of(m)))


def _percent(part: int, total: int) -> str:
    return f"{part * 100 // total}%" if total else "<unknown>"
