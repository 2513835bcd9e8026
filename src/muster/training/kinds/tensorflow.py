"""TFJob: Chief (or Master), PS, Workers and Evaluator, which find each other through TF_CONFIG."""

from __future__ import annotations

from typing import Any

import orjson

from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object, spec_of
from muster.kube.schema import BOOLEAN, string
from muster.training.kinds.base import KubeflowJobKind
from muster.training.kinds.schemas import kubeflow_kind
from muster.training.model import Addresses, JobOutcome, Replica, ReplicaCounts, TrainingJob, Wiring


def _kind(kind: str, plural: str) -> Kind:
    return kubeflow_kind(
        kind,
        plural,
        replica_specs="tfReplicaSpecs",
        extra={"successPolicy": string(["", "AllWorkers"]), "enableDynamicWorker": BOOLEAN},
    )


class TensorFlow(KubeflowJobKind):
    kind = _kind("TFJob", "tfjobs")
    container, port_name, port = "tensorflow", "tfjob-port", 2222
    replica_specs = "tfReplicaSpecs"
    roles = ("Chief", "Master", "PS", "Worker", "Evaluator")

    def validate(self, obj: Object) -> list[Cause]:
        specs = spec_of(obj).get(self.replica_specs) or {}
        chiefs = [r for r in specs if self.role_name(r) in ("Chief", "Master")]
        causes = super().validate(obj)
        if len(chiefs) > 1:
            causes.append(Cause(f"spec.tfReplicaSpecs.{chiefs[1]}", "there can be a Chief or a Master, not both"))
        return causes

    def lead(self, job: TrainingJob) -> Replica | None:
        chief = next((role for role in ("Chief", "Master") if job.role(role)), "Worker")
        return Replica(chief, 0)

    def is_running(self, job: TrainingJob, counts: ReplicaCounts) -> bool:
        chief = next((role for role in ("Chief", "Master") if role in counts), None)
        return counts[chief].running > 0 if chief else any(count.running for count in counts.values())

    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring:
        if job.size == 1:
            return Wiring()  # there are no peers: TensorFlow then runs on its own
        cluster = {role.name.lower(): [_address(addresses, member) for member in role.members()] for role in job.roles}
        task = {"type": replica.role.lower(), "index": replica.index}
        config: dict[str, Any] = {"cluster": cluster, "task": task, "environment": "cloud"}
        if spec_of(job.object).get("enableDynamicWorker"):
            config = {"sparseCluster": _sparse(cluster, replica), "task": task}
        return Wiring({"TF_CONFIG": orjson.dumps(config).decode()}, only_container=self.container)

    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        for chief in ("Chief", "Master"):
            if chief in counts:
                return JobOutcome(True) if counts[chief].succeeded else None
        if "Worker" not in counts:
            return None
        if spec_of(job.object).get("successPolicy") == "AllWorkers":
            return JobOutcome(True) if counts["Worker"].succeeded >= max(1, job.count("Worker")) else None
        return JobOutcome(True) if 0 in counts["Worker"].done else None


class AihcTensorFlow(TensorFlow):
    """The same job under AIHC's name."""

    kind = _kind("TensorFlowJob", "tensorflowjobs")


def _address(addresses: Addresses, member: Replica) -> str:
    end = addresses[member]
    return f"{end.full_host}:{end.port}"


def _sparse(cluster: dict[str, list[str]], replica: Replica) -> dict[str, Any]:
    """A worker learns of itself and all parameter servers, a parameter server only of itself. So workers may come and
    go without a change for the others."""
    if replica.role == "PS":
        return {"worker": {}, "ps": [cluster["ps"][replica.index]]}
    own = cluster[replica.role.lower()][replica.index]
    return {"worker": {str(replica.index): own}, "ps": cluster.get("ps", [])}
