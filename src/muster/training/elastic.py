"""Jobs that may grow and shrink: within which bounds, and who does it for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.kube.errors import Cause
from muster.kube.objects import Object, owner_reference
from muster.training.model import TrainingJob
from muster.training.names import job_labels


def elastic_problems(policy: Mapping[str, Any], workers: int | None, path: str) -> list[Cause]:
    """`workers` as written at `path`, be it when the job is made or when it is scaled."""
    low, high = policy.get("minReplicas"), policy.get("maxReplicas")
    if low is not None and high is not None and low > high:
        return [Cause("spec.elasticPolicy.minReplicas", f"{low} is more than maxReplicas, {high}")]
    if workers is not None and low is not None and workers < low:
        return [Cause(path, f"{workers} is less than elasticPolicy.minReplicas, {low}")]
    if workers is not None and high is not None and workers > high:
        return [Cause(path, f"{workers} is more than elasticPolicy.maxReplicas, {high}")]
    return []


def autoscaler(job: TrainingJob, policy: Mapping[str, Any]) -> Sequence[Object]:
    """Only where the policy says by which metrics."""
    if not policy.get("metrics"):
        return ()
    target = {"apiVersion": job.object["apiVersion"], "kind": job.kind, "name": job.name}
    workers = job.count("Worker")
    return (
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "labels": job_labels(job),
                "ownerReferences": [owner_reference(job.object)],
            },
            "spec": {
                "scaleTargetRef": target,
                "minReplicas": policy.get("minReplicas") or workers,
                "maxReplicas": policy.get("maxReplicas") or workers,
                "metrics": list(policy["metrics"]),
            },
        },
    )
