"""The training job that a training node is: its manifest, and when it has succeeded or failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster.kube.objects import Object
from muster.kube.schema import validate
from muster.platform.graphs.model import Role, Training
from muster.training.kinds.base import JobKind, KubeflowJobKind
from muster.training.registry import JOB_KINDS

_CONDITIONS = 6
"""A job has at most so many conditions: Created, Running, Restarting, Suspended, and one of Succeeded and Failed."""


class WaitConditions(NamedTuple):
    """Of a resource template: what it waits for."""

    success: str
    failure: str


def job_kind_named(training: Training) -> JobKind | None:
    """The first that has the kind, in the API that is asked for."""
    for job_kind in JOB_KINDS:
        for kind in (job_kind.kind, *job_kind.other_versions):
            if kind.kind == training.kind and training.api_version in ("", kind.api_version):
                return job_kind
    return None


def job_kinds() -> list[str]:
    return list(dict.fromkeys(job_kind.kind.kind for job_kind in JOB_KINDS))


def roles_of(job_kind: JobKind) -> tuple[str, ...]:
    if isinstance(job_kind, KubeflowJobKind):
        return job_kind.roles
    fields = job_kind.kind.schema["properties"]["spec"]["properties"]
    return tuple(name for name, field in fields.items() if "template" in (field.get("properties") or {}))


def training_kinds() -> list[dict[str, Any]]:
    """Every kind of training job a node can be, in every API version that has it, with its roles."""
    return [
        {"kind": kind.kind, "apiVersion": kind.api_version, "roles": list(roles_of(job_kind))}
        for job_kind in JOB_KINDS
        for kind in (job_kind.kind, *job_kind.other_versions)
    ]


def members_of(training: Training) -> tuple[Role, ...]:
    """The roles that have members."""
    return tuple(role for role in training.roles if role.replicas > 0)


def waits_for_orders(job_kind: JobKind, role: str) -> bool:
    """A worker of MPI runs what the launcher's mpirun tells it, not the node's command."""
    return job_kind.kind.kind == "MPIJob" and role == "Worker"


def training_job(
    training: Training, job_kind: JobKind, pods: Mapping[str, Object], metadata: Object, queue: str = ""
) -> Object:
    """The manifest. `pods` has the Pod template of each role that has members. A member that fails fails the job: how
    often it is tried again is for the node to say, and the gang starts as a whole or not at all."""
    api_version = training.api_version or job_kind.kind.api_version
    members = members_of(training)
    scheduling: Object = {"minAvailable": sum(role.replicas for role in members)}
    if queue:
        scheduling["queue"] = queue
    spec: Object
    if isinstance(job_kind, KubeflowJobKind):
        replicas = {
            role.name: {"replicas": role.replicas, "restartPolicy": "Never", "template": pods[role.name]}
            for role in members
        }
        spec = {
            "runPolicy": {"cleanPodPolicy": "Running", "schedulingPolicy": scheduling},
            job_kind.replica_specs: replicas,
        }
    else:
        spec = {"cleanPodPolicy": "Never", "schedulingPolicy": scheduling}
        for role in members:
            template = {**pods[role.name], "spec": {**pods[role.name]["spec"], "restartPolicy": "Never"}}
            spec[role.name] = {"replicas": role.replicas, "template": template}
    return {"apiVersion": api_version, "kind": training.kind, "metadata": metadata, "spec": spec}


def wait_conditions(job_kind: JobKind) -> WaitConditions:
    """A failed job has a completion time, too: failure is asked for first."""
    if not isinstance(job_kind, KubeflowJobKind):
        return WaitConditions("status.phase == Completed", "status.phase in (Failed, Aborted, Terminated)")
    terms = (f"status.conditions.{number}.type == Failed" for number in range(_CONDITIONS))
    return WaitConditions("status.completionTime", ",".join(terms))


def role_problems(training: Training, job_kind: JobKind) -> list[tuple[str, str]]:
    """(role or '', what is wrong): what the job_kind itself says of a job with these roles."""
    container = {"name": job_kind.container, "image": "image", "command": ["true"]}
    pods: dict[str, Object] = {role.name: {"spec": {"containers": [container]}} for role in training.roles}
    obj = training_job(training, job_kind, pods, {"name": "job"})
    causes = validate(obj, job_kind.kind.schema) or job_kind.validate(obj)
    return [(_role_in(cause.field, training.roles), cause.message) for cause in causes]


def _role_in(field: str, roles: Sequence[Role]) -> str:
    words: list[Any] = field.replace("[", ".").replace("]", "").split(".")
    return next((role.name for role in roles if role.name in words), "")
