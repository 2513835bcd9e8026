"""Estimates how long a workflow and its nodes will take: as long as in the last workflow of the same template or
CronWorkflow that succeeded. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import ceil
from typing import Any, NamedTuple

from muster.kube.objects import Object, creation_order, labels_of, name_of, namespace_of, parse_time, status_of
from muster.workflows.model import PHASE_LABEL, Node

_ORIGINS = (
    "workflows.argoproj.io/workflow-template",
    "workflows.argoproj.io/cluster-workflow-template",
    "workflows.argoproj.io/cron-workflow",
)


class Estimates(NamedTuple):
    """In seconds. Nodes are known by their name without that of the workflow."""

    workflow: int = 0
    nodes: Mapping[str, int] = {}


def origins_of(workflow: Object) -> list[Hashable]:
    """Returns what a workflow was created from. Workflows with the same origin are comparable."""
    labels, namespace = labels_of(workflow), namespace_of(workflow)
    return [(namespace, label, labels[label]) for label in _ORIGINS if label in labels]


def succeeded_origins_of(workflow: Object) -> list[Hashable]:
    """For an index of the workflows that estimates are made from."""
    return origins_of(workflow) if labels_of(workflow).get(PHASE_LABEL) == "Succeeded" else []


def newest_of(workflows: Iterable[Object]) -> Object | None:
    return max(workflows, key=creation_order, default=None)


def estimate(baseline: Object, nodes: Mapping[str, Node]) -> Estimates:
    """Returns how long the nodes of an earlier workflow took."""
    prefix = name_of(baseline)
    found = {str(node["name"]).removeprefix(prefix): _seconds(node) for node in nodes.values()}
    return Estimates(_seconds(status_of(baseline)), {name: seconds for name, seconds in found.items() if seconds})


def _seconds(times: Mapping[str, Any]) -> int:
    """A fraction counts as a whole second: 0 means that nothing is known."""
    started, finished = times.get("startedAt"), times.get("finishedAt")
    if not started or not finished:
        return 0
    return max(1, ceil((parse_time(finished) - parse_time(started)).total_seconds()))
