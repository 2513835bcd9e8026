"""PyTorchJob: a Master (optional) and Workers that meet at the master's address, or elastic Workers.

Elastic Workers meet at a rendezvous and may come and go between `minReplicas` and `maxReplicas`.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from muster.kube.errors import Cause
from muster.kube.kinds import Scale
from muster.kube.objects import Object, spec_of
from muster.training.kinds.base import KubeflowJobKind, build_autoscalers, validate_elastic_policy
from muster.training.kinds.schemas import ELASTIC_POLICY, NPROC_PER_NODE, kubeflow_kind
from muster.training.model import Addresses, JobOutcome, Replica, ReplicaCount, ReplicaCounts, TrainingJob, Wiring


class PyTorch(KubeflowJobKind):
    kind = kubeflow_kind(
        "PyTorchJob",
        "pytorchjobs",
        replica_specs="pytorchReplicaSpecs",
        extra={"elasticPolicy": ELASTIC_POLICY, "nprocPerNode": NPROC_PER_NODE},
        scale=Scale(
            replicas=".spec.pytorchReplicaSpecs.Worker.replicas",
            status_replicas=".status.replicaStatuses.Worker.active",
            selector=".status.replicaStatuses.Worker.selector",
        ),
    )
    container, port_name, port = "pytorch", "pytorchjob-port", 23456
    replica_specs = "pytorchReplicaSpecs"
    roles = ("Master", "Worker")
    restart = "OnFailure"

    def __init__(self, *, waiting_image: str = "") -> None:
        """In `waiting_image`, which must have nslookup, Workers wait until the Master's name resolves. Without it they
        start at once, and torch itself waits."""
        self._waiting_image = waiting_image

    def validate(self, obj: Object) -> list[Cause]:
        causes = super().validate(obj)
        spec = spec_of(obj)
        specs = {self.role_name(r): s for r, s in (spec.get(self.replica_specs) or {}).items()}
        masters = specs.get("Master")
        if masters is not None and int(masters.get("replicas", 1)) != 1:
            causes.append(Cause("spec.pytorchReplicaSpecs.Master.replicas", "must be 1: there is one master"))
        elastic = spec.get("elasticPolicy") or {}
        if "nProcPerNode" in elastic and "nprocPerNode" in spec:
            causes.append(
                Cause("spec.elasticPolicy.nProcPerNode", "is deprecated; spec.nprocPerNode is set, so remove this one")
            )
        return causes + validate_elastic_policy(elastic, self._workers(obj), "spec.pytorchReplicaSpecs.Worker.replicas")

    def lead(self, job: TrainingJob) -> Replica | None:
        return Replica("Master", 0) if job.role("Master") else Replica("Worker", 0)

    def is_running(self, job: TrainingJob, counts: ReplicaCounts) -> bool:
        return counts["Master" if job.role("Master") else "Worker"].running > 0

    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring:
        spec = spec_of(job.object)
        elastic = spec.get("elasticPolicy")
        nproc = str(spec.get("nprocPerNode") or (elastic or {}).get("nProcPerNode") or "auto")
        env: dict[str, str | Object] = {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": nproc}
        if job.role("Master") is not None:
            master = addresses[Replica("Master", 0)]
            per_node = int(nproc) if nproc.isdigit() else 1
            rank = str(replica.index + 1 if replica.role == "Worker" else 0)
            env |= {
                "MASTER_ADDR": master.host,
                "MASTER_PORT": str(master.port),
                "WORLD_SIZE": str(job.size * per_node),
                "RANK": rank,
                "PET_MASTER_ADDR": master.host,
                "PET_MASTER_PORT": str(master.port),
                "PET_NODE_RANK": rank,
            }
        if elastic is None:
            env["PET_NNODES"] = str(job.size)
        else:
            env |= self._elastic(job, replica, elastic, addresses)
        return Wiring(env, init_containers=self._wait(job, replica, addresses))

    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        if job.role("Master") is not None:
            return JobOutcome(True) if counts["Master"].succeeded > 0 else None
        workers: ReplicaCount = counts["Worker"]
        wanted = 1 if spec_of(job.object).get("elasticPolicy") else job.count("Worker")
        # An elastic job is done when one worker is: torchrun's workers all end together.
        return JobOutcome(True) if workers.succeeded >= max(1, wanted) else None

    def companions(self, job: TrainingJob, addresses: Addresses) -> Sequence[Object]:
        return build_autoscalers(job, spec_of(job.object).get("elasticPolicy") or {})

    def _wait(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> tuple[Object, ...]:
        if not self._waiting_image or replica.role != "Worker" or job.role("Master") is None:
            return ()
        host = addresses[Replica("Master", 0)].host
        return (
            {
                "name": "init-pytorch",
                "image": self._waiting_image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", f"until nslookup {host}; do sleep 1; done"],
                "resources": {
                    "limits": {"cpu": "100m", "memory": "20Mi"},
                    "requests": {"cpu": "50m", "memory": "10Mi"},
                },
            },
        )

    def _workers(self, obj: Object) -> int | None:
        specs = {self.role_name(r): s for r, s in (spec_of(obj).get(self.replica_specs) or {}).items()}
        return int((specs["Worker"] or {}).get("replicas", 1)) if "Worker" in specs else None

    def _elastic(
        self, job: TrainingJob, replica: Replica, policy: dict[str, Any], addresses: Addresses
    ) -> dict[str, str]:
        workers = job.count("Worker")
        host_replica = Replica("Worker", 0) if workers else Replica("Master", 0)
        meeting_point = addresses[host_replica]
        low, high = policy.get("minReplicas") or workers, policy.get("maxReplicas") or workers
        host = policy.get("rdzvHost") or meeting_point.host
        port = policy.get("rdzvPort") or meeting_point.port
        env = {
            "PET_NNODES": f"{low}:{high}",
            "PET_RDZV_BACKEND": policy.get("rdzvBackend") or "c10d",
            "PET_RDZV_ENDPOINT": f"{host}:{port}",
            "PET_RDZV_ID": policy.get("rdzvId") or job.name,
        }
        conf = {c["key"]: c["value"] for c in policy.get("rdzvConf") or ()}
        if env["PET_RDZV_BACKEND"] == "c10d" and host == meeting_point.host and _is_address(host):
            # torchrun checks whether the rendezvous host is its own machine. With an address that all members share,
            # every member would find that it is: the first one would host the rendezvous, and end it for the others
            # when it dies.
            conf.setdefault("is_host", str(replica == host_replica).lower())
        if conf:
            env["PET_RDZV_CONF"] = ",".join(f"{key}={value}" for key, value in conf.items())
        if policy.get("maxRestarts") is not None:
            env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
        if policy.get("standalone"):
            env["PET_STANDALONE"] = ""
        return env


def _is_address(host: str) -> bool:
    """Whether `host` is an IP address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
