"""JAXJob: equal Workers. Worker 0 is the coordinator that the others connect to."""

from __future__ import annotations

from muster.kube.kinds import Scale
from muster.training.kinds.base import KubeflowJobKind
from muster.training.kinds.schemas import kubeflow_kind
from muster.training.model import Addresses, JobOutcome, Replica, ReplicaCounts, TrainingJob, Wiring


class Jax(KubeflowJobKind):
    kind = kubeflow_kind(
        "JAXJob",
        "jaxjobs",
        replica_specs="jaxReplicaSpecs",
        scale=Scale(
            replicas=".spec.jaxReplicaSpecs.Worker.replicas",
            status_replicas=".status.replicaStatuses.Worker.active",
            selector=".status.replicaStatuses.Worker.selector",
        ),
    )
    container, port_name, port = "jax", "jaxjob-port", 6666
    replica_specs = "jaxReplicaSpecs"
    roles = ("Worker",)

    def lead(self, job: TrainingJob) -> Replica | None:
        return Replica("Worker", 0)

    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring:
        coordinator = addresses[Replica("Worker", 0)]
        return Wiring({
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_ADDRESS": coordinator.host,
            "COORDINATOR_PORT": str(coordinator.port),
            "NUM_PROCESSES": str(job.size),
            "PROCESS_ID": str(replica.index),
        })  # fmt: skip

    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        return JobOutcome(True) if counts["Worker"].succeeded >= max(1, job.count("Worker")) else None
