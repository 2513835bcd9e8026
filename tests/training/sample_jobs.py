"""Jobs and addresses to plan with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.kube.cluster import Endpoint
from muster.kube.objects import Object
from muster.training.kinds.base import JobKind
from muster.training.model import Addresses, Replica, TrainingJob, replica_name


def training_job(
    api_version: str, kind: str, replica_specs: str, container: str, roles: Mapping[str, Any], **spec: Any
) -> Object:
    """A job whose roles are numbers, or replica specs without a template."""

    def role(said: int | Mapping[str, Any]) -> Object:
        wanted = {"replicas": said} if isinstance(said, int) else dict(said)
        template = {"spec": {"containers": [{"name": container, "image": "i", "command": ["train"]}]}}
        return {"template": template, **wanted}

    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": "job",
            "namespace": "default",
            "uid": "job-uid",
            "creationTimestamp": "2026-11-15T11:59:00Z",
        },
        "spec": {replica_specs: {name: role(said) for name, said in roles.items()}, **spec},
    }


def naming(scheduler: str) -> dict[str, Any]:
    """Roles of a PyTorchJob whose Pods name that scheduler."""
    containers = [{"name": "pytorch", "image": "i"}]
    return {"Worker": {"template": {"spec": {"schedulerName": scheduler, "containers": containers}}}}


def cluster_addresses(job_kind: JobKind, job: TrainingJob) -> Addresses:
    """Addresses as on a real cluster: the Service's name and the requested port."""
    return {
        replica: Endpoint(replica_name(job, replica), job_kind.port_of(job, replica), f".{job.namespace}.svc")
        for replica in job.replicas()
    }


def loopback_addresses(job: TrainingJob) -> Addresses:
    """Addresses as in the embedded cluster: one address, and a port each."""
    return {replica: Endpoint("127.0.0.1", 20000 + n) for n, replica in enumerate(job.replicas())}


def wired(job_kind: JobKind, obj: Object, role: str, index: int = 0) -> dict[str, Any]:
    job = job_kind.read(obj)
    return dict(job_kind.wiring(job, Replica(role, index), cluster_addresses(job_kind, job)).env)
