"""Everything that makes workflows run in a box."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from muster.embedded.box import Box
from muster.workflows.artifacts.artifacts import Artifacts
from muster.workflows.artifacts.garbage import collect_garbage, needs_finalizer
from muster.workflows.cleanup.controller import CleanupController
from muster.workflows.controller import WorkflowController
from muster.workflows.cron.controller import CronController
from muster.workflows.lint import problems
from muster.workflows.metrics.registry import Registry
from muster.workflows.model import Leaves, Report
from muster.workflows.pods.leaves import PodLeaves
from muster.workflows.requests.leaves import HttpLeaves
from muster.workflows.resources.leaves import ResourceLeaves
from muster.workflows.resources.manifest_from import from_artifacts
from muster.workflows.resources.permission import permissions


class Orchestration(NamedTuple):
    """What others want of the part that runs workflows."""

    artifacts: Artifacts
    metrics: Registry


def look_after_workflows(box: Box) -> Orchestration:
    cluster, home = box.cluster, box.settings.home / "workflows"
    artifacts = Artifacts(cluster, home)
    metrics = Registry()
    read_manifest = from_artifacts(artifacts, home / "manifests")

    def leaves(report: Report) -> dict[str, Leaves]:
        return {
            "pod": PodLeaves(cluster, report, agent=box.settings.agent, home=home, artifacts=artifacts),
            "resource": ResourceLeaves(cluster, report, read_artifact=read_manifest, may=permissions(box.identity)),
            "http": HttpLeaves(cluster, report),
        }

    box.look_after(WorkflowController(cluster, box.recorder("workflow-controller"), leaves, problems, metrics))
    box.look_after(CronController(cluster, box.recorder("cron-controller")))
    cleanup = CleanupController(
        cluster,
        box.recorder("workflow-cleanup"),
        collect=partial(collect_garbage, artifacts),
        wants_collection=needs_finalizer,
    )
    box.look_after(cleanup)
    return Orchestration(artifacts, metrics)
