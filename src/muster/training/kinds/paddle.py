"""PaddleJob of kubeflow.org/v1: Workers that meet at worker 0 (Collective), or a Master and Workers (PS)."""

from __future__ import annotations

from collections.abc import Sequence

from muster.kube.errors import Cause
from muster.kube.kinds import Scale
from muster.kube.objects import Object, spec_of
from muster.kube.schema import INT32, obj
from muster.training.kinds.base import KubeflowJobKind, build_autoscalers, validate_elastic_policy
from muster.training.kinds.schemas import METRICS, kubeflow_kind
from muster.training.model import Addresses, JobOutcome, Replica, ReplicaCounts, TrainingJob, Wiring


class Paddle(KubeflowJobKind):
    kind = kubeflow_kind(
        "PaddleJob",
        "paddlejobs",
        replica_specs="paddleReplicaSpecs",
        extra={
            "elasticPolicy": obj({
                "minReplicas": INT32,
                "maxReplicas": INT32,
                "maxRestarts": INT32,
                "metrics": METRICS,
            })
        },
        scale=Scale(
            replicas=".spec.paddleReplicaSpecs.Worker.replicas",
            status_replicas=".status.replicaStatuses.Worker.active",
            selector=".status.replicaStatuses.Worker.selector",
        ),
    )  # fmt: skip
    container, port_name, port = "paddle", "master", 36543
    replica_specs = "paddleReplicaSpecs"
    roles = ("Master", "Worker")
    restart = "OnFailure"

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        specs = {self.role_name(r): s for r, s in (spec.get(self.replica_specs) or {}).items()}
        workers = int((specs["Worker"] or {}).get("replicas", 1)) if "Worker" in specs else None
        bounds = validate_elastic_policy(
            spec.get("elasticPolicy") or {}, workers, "spec.paddleReplicaSpecs.Worker.replicas"
        )
        return [*super().validate(obj), *bounds]

    def companions(self, job: TrainingJob, addresses: Addresses) -> Sequence[Object]:
        return build_autoscalers(job, spec_of(job.object).get("elasticPolicy") or {})

    def lead(self, job: TrainingJob) -> Replica | None:
        return Replica("Master" if job.role("Master") else "Worker", 0)

    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring:
        meeting_point = Replica("Master" if job.role("Master") else "Worker", 0)
        end = addresses[meeting_point]
        env: dict[str, str | Object] = {
            "PYTHONUNBUFFERED": "1",
            "PADDLE_JOB_ID": job.name,
            "PADDLE_NNODES": str(job.size),
        }
        if replica == meeting_point and end.domain:
            # The launcher serves the rendezvous only if the address is its own, which it cannot tell from a name.
            env["POD_IP_DUMMY"] = {"fieldRef": {"fieldPath": "status.podIP"}}
            env["PADDLE_MASTER"] = f"$(POD_IP_DUMMY):{end.port}"
        else:
            env["PADDLE_MASTER"] = f"{end.host}:{end.port}"
        if job.role("Master") is not None:
            env["PADDLE_SERVER_NUM" if replica.role == "Master" else "PADDLE_TRAINER_NUM"] = "1"
        return Wiring(env)

    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        if job.role("Master") is not None:
            return JobOutcome(True) if counts["Master"].succeeded else None
        wanted = 1 if spec_of(job.object).get("elasticPolicy") else job.count("Worker")
        return JobOutcome(True) if counts["Worker"].succeeded >= max(1, wanted) else None
