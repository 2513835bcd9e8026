"""Builds the Pod and the Service of a replica."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from muster.kube.objects import Object, owner_reference
from muster.training.gang import GangMembership
from muster.training.kinds.base import JobKind
from muster.training.labels import ATTEMPT_ANNOTATION, job_labels, replica_name
from muster.training.model import Addresses, PeerDirectory, Replica, Role, TrainingJob, Wiring

SHARED_NETWORK_ENV: Mapping[str, str] = {
    "MUSTER_EXEC": f"{sys.executable} -m muster exec -i",
    "HYDRA_IFACE": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    # Open MPI refuses to run as root unless told twice. Here a Pod runs as the user who started the cluster.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""Environment of every container of the embedded cluster, where all Pods share the host's network. A Pod's own
variables take precedence."""


def build_replica_pod(
    job_kind: JobKind,
    job: TrainingJob,
    replica: Replica,
    addresses: Addresses,
    *,
    attempt: int = 0,
    membership: GangMembership | None = None,
) -> Object:
    role = job.role(replica.role)
    assert role is not None
    template = role.template
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **job_kind.labels(job, replica)}
    annotations = {**(meta.get("annotations") or {}), ATTEMPT_ANNOTATION: str(attempt)}
    spec = dict(template.get("spec") or {})
    spec["restartPolicy"] = _pod_restart_policy(job, role)
    spec["containers"] = _with_port(spec, job_kind)
    spec = wire(spec, job_kind.wiring(job, replica, addresses))
    if membership is not None:
        labels |= membership.labels
        annotations |= membership.annotations
        spec["schedulerName"] = spec.get("schedulerName") or membership.scheduler
        if membership.priority_class and not spec.get("priorityClassName"):
            spec["priorityClassName"] = membership.priority_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": replica_name(job, replica),
            "namespace": job.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(job.object)],
        },
        "spec": spec,
    }


def build_replica_service(job_kind: JobKind, job: TrainingJob, replica: Replica) -> Object:
    """The Service is headless, with every port of the training container."""
    role = job.role(replica.role)
    assert role is not None
    labels = job_kind.labels(job, replica)
    trainer = job_kind.training_container({"containers": _with_port(role.template.get("spec") or {}, job_kind)})
    ports = [
        {"name": port.get("name") or f"port-{port['containerPort']}", "port": port["containerPort"]}
        for port in trainer.get("ports") or ()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": replica_name(job, replica),
            "namespace": job.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(job.object)],
        },
        # Replicas look for each other before they are ready, and many become ready only after they have met.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": ports},
    }


def build_peer_directory(job: TrainingJob, directory: PeerDirectory) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": directory.name,
            "namespace": job.namespace,
            "labels": job_labels(job),
            "ownerReferences": [owner_reference(job.object)],
        },
        "data": dict(directory.content or {}),
    }


def wire(spec: Mapping[str, Any], wiring: Wiring) -> dict[str, Any]:
    """Returns a Pod spec with the wiring added. The wiring takes precedence over the template."""
    env = [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}
        for name, value in wiring.env.items()
    ]

    def wired_container(container: Mapping[str, Any]) -> dict[str, Any]:
        if wiring.only_container and container.get("name") != wiring.only_container:
            return dict(container)
        kept = [e for e in container.get("env") or () if e["name"] not in wiring.env]
        result = {**container, "env": [*kept, *env]}
        if wiring.from_config_map:
            source = {"configMapRef": {"name": wiring.from_config_map}}
            result["envFrom"] = [*(container.get("envFrom") or ()), source]
        if wiring.mounts:
            result["volumeMounts"] = [*(container.get("volumeMounts") or ()), *wiring.mounts]
        return result

    wired = {**spec, "containers": [wired_container(c) for c in spec.get("containers") or ()]}
    if spec.get("initContainers") and not wiring.only_container:
        wired["initContainers"] = [wired_container(c) for c in spec["initContainers"]]
    if wiring.service_account and not spec.get("serviceAccountName"):
        wired["serviceAccountName"] = wiring.service_account
    if wiring.init_containers:
        wired["initContainers"] = [*(wired.get("initContainers") or ()), *wiring.init_containers]
    if wiring.volumes:
        wired["volumes"] = [*(spec.get("volumes") or ()), *wiring.volumes]
    return wired


def _with_port(pod_spec: Mapping[str, Any], job_kind: JobKind) -> list[dict[str, Any]]:
    """Returns the containers, with the job kind's port added to the training container unless it has it."""
    trainer = job_kind.training_container(pod_spec)
    ports = trainer.get("ports") or []
    if any(p.get("name") == job_kind.port_name for p in ports):
        return list(pod_spec.get("containers") or ())
    with_port = {**trainer, "ports": [*ports, {"name": job_kind.port_name, "containerPort": job_kind.port}]}
    return [with_port if c is trainer else c for c in pod_spec.get("containers") or ()]


def _pod_restart_policy(job: TrainingJob, role: Role) -> str:
    """We handle `ExitCode` ourselves, and a gang restarts as a whole, so the node must not restart single
    containers."""
    if role.restart == "ExitCode" or job.restart_scope == "gang":
        return "Never"
    return role.restart
