"""Artifact garbage collection: deletes the artifacts that a workflow does not keep (`artifactGC`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from muster.kube.objects import Object, spec_of, status_of
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.locations import ArtifactError, is_supplied
from muster.workflows.cleanup import Strategy
from muster.workflows.model import Node


class Collected(NamedTuple):
    nodes: dict[str, Node]
    """The changed nodes: their artifacts are marked as deleted."""
    problems: list[str]


def strategy_of(workflow: Object, artifact: Mapping[str, Any]) -> str:
    """Returns the artifact's own strategy, else the workflow's, else Never."""
    for settings in (artifact.get("artifactGC"), _spec(workflow).get("artifactGC")):
        if settings and settings.get("strategy"):
            return str(settings["strategy"])
    return "Never"


def needs_finalizer(workflow: Object) -> bool:
    """Whether the workflow or any template asks for a strategy other than Never."""
    spec = _spec(workflow)
    wishes = [spec.get("artifactGC")]
    for template in spec.get("templates") or ():
        wishes += [a.get("artifactGC") for a in (template.get("outputs") or {}).get("artifacts") or ()]
    return any(wish and (wish.get("strategy") or "Never") != "Never" for wish in wishes)


async def collect_garbage(
    artifacts: ArtifactClient, workflow: Object, nodes: Mapping[str, Node], strategy: Strategy
) -> Collected:
    """Deletes every artifact of the strategy that is not deleted yet. May be repeated: failed deletions are tried
    again."""
    changed: dict[str, Node] = {}
    problems: list[str] = []
    for node, index, artifact in _of_strategy(workflow, nodes, strategy):
        try:
            await artifacts.delete(workflow, artifact)
        except (ArtifactError, OSError) as error:
            problems.append(f"artifact {artifact.get('name')} of node {node['id']} was not deleted: {error}")
            continue
        known = changed.get(node["id"], node)
        listed = list(known["outputs"]["artifacts"])
        listed[index] = {**artifact, "deleted": True}
        changed[node["id"]] = {**known, "outputs": {**known["outputs"], "artifacts": listed}}
    return Collected(changed, problems)


def is_clean(workflow: Object, nodes: Mapping[str, Node]) -> bool:
    """Whether no strategy has anything left to delete, so the finalizer can be removed."""
    return not any(
        True
        for strategy in ("OnWorkflowCompletion", "OnWorkflowDeletion")
        for _ in _of_strategy(workflow, nodes, strategy)
    )


def _of_strategy(
    workflow: Object, nodes: Mapping[str, Node], strategy: str
) -> Iterator[tuple[Node, int, Mapping[str, Any]]]:
    for node in nodes.values():
        if node.get("type") != "Pod":
            continue
        for index, artifact in enumerate((node.get("outputs") or {}).get("artifacts") or ()):
            if not artifact.get("deleted") and is_supplied(artifact) and strategy_of(workflow, artifact) == strategy:
                yield node, index, artifact


def _spec(workflow: Object) -> Mapping[str, Any]:
    """Returns the spec that runs: for a workflow that refers to a template, the one stored in its status."""
    stored: Mapping[str, Any] | None = status_of(workflow).get("storedWorkflowTemplateSpec")
    return stored or spec_of(workflow)
