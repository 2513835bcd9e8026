"""XGBoostJob: one Master, whose tracker the Workers join. LightGBM uses the same kind, with a list of workers."""

from __future__ import annotations

from muster.kube.errors import Cause
from muster.kube.objects import Object, spec_of
from muster.training.kinds.base import KubeflowJobKind
from muster.training.kinds.schemas import kubeflow_kind
from muster.training.model import Addresses, JobOutcome, Replica, ReplicaCounts, TrainingJob, Wiring


class XGBoost(KubeflowJobKind):
    kind = kubeflow_kind("XGBoostJob", "xgboostjobs", replica_specs="xgbReplicaSpecs")
    container, port_name, port = "xgboost", "xgboostjob-port", 9999
    replica_specs = "xgbReplicaSpecs"
    roles = ("Master", "Worker")

    def validate(self, obj: Object) -> list[Cause]:
        causes = super().validate(obj)
        specs = {self.role_name(r): s for r, s in (spec_of(obj).get(self.replica_specs) or {}).items()}
        if specs and "Master" not in specs:
            causes.append(
                Cause("spec.xgbReplicaSpecs.Master", "Required value: the master is the tracker", "FieldValueRequired")
            )
        elif specs and int(specs["Master"].get("replicas", 1)) != 1:
            causes.append(Cause("spec.xgbReplicaSpecs.Master.replicas", "must be 1: there is one master"))
        return causes

    def lead(self, job: TrainingJob) -> Replica | None:
        return Replica("Master", 0)

    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring:
        master = addresses[Replica("Master", 0)]
        env: dict[str, str | Object] = {
            "MASTER_ADDR": master.host,
            "MASTER_PORT": str(master.port),
            "WORLD_SIZE": str(job.size),
            "RANK": str(replica.index + 1 if replica.role == "Worker" else 0),
            "PYTHONUNBUFFERED": "1",
        }
        workers = [addresses[Replica("Worker", index)] for index in range(job.count("Worker"))]
        if workers:
            own = addresses[replica] if replica.role == "Worker" else workers[0]
            env |= {
                "WORKER_PORT": str(own.port),
                "WORKER_ADDRS": ",".join(worker.host for worker in workers),
                # Where Pods share one network, each worker has its own port, which a single WORKER_PORT cannot express.
                "WORKER_ENDPOINTS": ",".join(f"{worker.host}:{worker.port}" for worker in workers),
            }
        return Wiring(env)

    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        return JobOutcome(True) if counts["Master"].succeeded else None
