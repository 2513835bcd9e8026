"""PaddleJob of batch.paddlepaddle.org/v1 (PaddleCloud, short name pdj): ps, worker and heter roles.

With `ps` it is parameter-server training (PS), with several workers and no `ps` Collective, otherwise Single. Replicas
learn each other's addresses from lists. The job fails when any replica fails, and completes when all have succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from muster.kube.cluster import Endpoint
from muster.kube.errors import Cause
from muster.kube.kinds import Column, Kind
from muster.kube.objects import Object, annotations_of, is_deleting, name_of, namespace_of, spec_of, status_of, uid_of
from muster.kube.schema import (
    INT32,
    INT64,
    RESOURCES,
    STRING,
    TIME,
    integer,
    list_of,
    obj,
    root,
    string,
    upstream_schema,
)
from muster.training.etcd import EtcdEntry
from muster.training.kinds.base import JobKind, ManifestLayout, read_scheduling_policy, validate_template
from muster.training.kinds.schemas import TEMPLATE
from muster.training.model import (
    PADDLE_NAME,
    PADDLE_ROLE,
    RESTART_SCOPE,
    Addresses,
    CleanPodPolicy,
    JobOutcome,
    PeerDirectory,
    Progress,
    Replica,
    ReplicaCount,
    ReplicaCounts,
    RestartPolicy,
    Role,
    RunPolicy,
    TrainingJob,
    Wiring,
    check_job_name,
    check_replica_names,
)

ETCD_ANNOTATION = "muster.dev/etcd"
"""Annotation on an elastic job: the etcd (host:port) from which its workers read how many they should be."""

_ROLES = {"ps": "PSERVER", "worker": "TRAINER", "heter": "HETER"}
_PORTS = 20
"""How many ports, starting at PADDLE_PORT, a replica may use."""
_GLOO = Replica("gloo", 0)

_ROLE = obj({"replicas": integer(0), "requests": INT32, "limits": INT32, "template": TEMPLATE}, ["replicas"])
_ROLE_STATUS = obj({
    "pending": INT32, "starting": INT32, "running": INT32, "failed": INT32, "succeeded": INT32, "unknown": INT32,
    "refs": list_of(upstream_schema("core.v1.ObjectReference")),
})  # fmt: skip
_SPEC = obj({
    "cleanPodPolicy": STRING,
    "cleanPolicy": STRING,  # used by many manifests
    "schedulingPolicy": obj(
        {"minAvailable": INT32, "queue": STRING, "priorityClass": STRING, "minResources": RESOURCES}
    ),
    "intranet": string(["PodIP", "Service", "Host", ""]),
    "withGloo": integer(0, 2),
    "sampleSetRef": obj({"name": STRING, "namespace": STRING, "mountPath": STRING}, ["mountPath"]),
    "ps": _ROLE,
    "worker": _ROLE,
    "heter": _ROLE,
    "elastic": INT32,
})  # fmt: skip
_STATUS = obj({
    "phase": STRING, "mode": STRING, "ps": _ROLE_STATUS, "worker": _ROLE_STATUS, "heter": _ROLE_STATUS,
    "elastic": STRING, "startTime": TIME, "completionTime": TIME, "observedGeneration": INT64, "message": STRING,
})  # fmt: skip

_CLEANING: Mapping[str, tuple[CleanPodPolicy, CleanPodPolicy]] = {
    # policy: (when completed, when failed)
    "": ("All", "None"),
    "Always": ("All", "All"),
    "Never": ("None", "None"),
    "OnCompletion": ("All", "None"),
    "OnFailure": ("None", "All"),
}


class PaddleCloud(JobKind):
    kind = Kind(
        group="batch.paddlepaddle.org",
        version="v1",
        kind="PaddleJob",
        plural="paddlejobs",
        short_names=("pdj",),
        schema=root({"spec": _SPEC, "status": _STATUS}),
        columns=(
            Column("Status", ".status.phase"),
            Column("Mode", ".status.mode"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
        ),
    )
    container, port_name, port = "paddle", "paddle-port", 2379
    inherited_finalizers = ("finalizers.paddlepaddle.org",)

    @property
    def layout(self) -> ManifestLayout:
        roles = {role: ("spec", role) for role in _ROLES}
        path = ("template", "spec", "restartPolicy")
        return ManifestLayout(roles, path, ("Always", "OnFailure", "Never"), "Never")

    def read(self, obj: Object) -> TrainingJob:
        spec = spec_of(obj)
        roles = tuple(
            Role(name, int(spec[name]["replicas"]), spec[name].get("template") or {}, _restart(spec, name))
            for name in _ROLES
            if spec.get(name)
        )
        done, failed = _CLEANING.get(_clean_policy(spec), ("None", "None"))
        policy = RunPolicy(
            clean_on_success=done,
            clean_on_failure=failed,
            scheduling=read_scheduling_policy(spec.get("schedulingPolicy")),
        )
        scope = annotations_of(obj).get(RESTART_SCOPE)
        return TrainingJob(obj, roles, policy, "gang" if scope == "gang" else "replica")

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = check_job_name(name_of(obj))
        if not any(spec.get(role) for role in _ROLES):
            causes.append(Cause("spec.worker", "Required value: a job needs ps, worker or heter", "FieldValueRequired"))
        for role in _ROLES:
            template = (spec.get(role) or {}).get("template") or {}
            if spec.get(role) and not (template.get("spec") or {}).get("containers"):
                where = f"spec.{role}.template.spec.containers"
                causes.append(Cause(where, "Required value: at least one container", "FieldValueRequired"))
            elif spec.get(role):
                causes += validate_template(template, f"spec.{role}.template")
        if not causes:
            job = self.read(obj)
            causes += check_replica_names(job, self.listeners(job))
        return causes

    def warnings(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        ignored = {
            "sampleSetRef": "sample sets are not provided; mount a volume in the template",
            **{f"{role}.{bound}": "scale by changing replicas" for role in _ROLES for bound in ("requests", "limits")},
        }
        causes = [Cause(f"spec.{path}", f"has no effect: {why}") for path, why in ignored.items() if _has(spec, path)]
        if spec.get("intranet") == "Host":
            why = "Host has no effect: members have the addresses of their Pods; set hostNetwork in the template"
            causes.append(Cause("spec.intranet", why))
        return causes

    def training_container(self, pod_spec: Mapping[str, Any]) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", (pod_spec.get("containers") or [{}])[0])

    def labels(self, job: TrainingJob, replica: Replica) -> dict[str, str]:
        name = f"{job.name}-{replica.suffix}"
        return super().labels(job, replica) | {PADDLE_NAME: name, PADDLE_ROLE: replica.role}

    def is_running(self, job: TrainingJob, counts: ReplicaCounts) -> bool:
        return all(counts[role.name].running == role.replicas for role in job.roles)

    def extra_ports(self, job: TrainingJob) -> Mapping[Replica, tuple[Replica, int]]:
        return {_GLOO: (Replica("ps", 0), self.port + _PORTS - 2)} if _uses_gloo(job) else {}

    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring:
        own = addresses[replica]
        role = _ROLES[replica.role]
        by_address = _meet_at_pods(job)
        env: dict[str, str | Object] = {
            "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}} if by_address else own.host,
            "PADDLE_TRAINER_ID": str(replica.index),
            "TRAINING_ROLE": role,
            "PADDLE_TRAINING_ROLE": role,
        }
        trainer = str(self.training_container(_template(job, replica).get("spec") or {}).get("name", ""))
        if spec_of(job.object).get("elastic") is not None:
            return Wiring(env | _elastic(job), only_container=trainer)
        env |= {"PADDLE_PORT": str(_port(job, replica, addresses)), "TRAINER_PORTS_NUM": str(_PORTS)}
        if by_address and job.size == 1:
            own_addresses = {name: Endpoint("$(POD_IP)", end.port) for name, end in addresses.items()}
            return Wiring(env | _peers(job, own_addresses), only_container=trainer)
        if by_address:
            return Wiring(env, only_container=trainer, from_config_map=job.name)
        return Wiring(env | _peers(job, addresses), only_container=trainer)

    def peer_directory(
        self, job: TrainingJob, addresses: Addresses, places: Mapping[Replica, str]
    ) -> PeerDirectory | None:
        if job.size == 1 or not _meet_at_pods(job):
            return None
        if any(replica not in places for replica in job.replicas()):
            return PeerDirectory(job.name, None)
        listening = {replica: replica for replica in job.replicas()}
        listening |= {name: replica for name, (replica, _) in self.extra_ports(job).items()}
        found = {name: Endpoint(places[replica], _port(job, name, addresses)) for name, replica in listening.items()}
        return PeerDirectory(job.name, _peers(job, found))

    def etcd_entry(self, job: TrainingJob) -> EtcdEntry | None:
        if spec_of(job.object).get("elastic") is None or not _etcd_server(job):
            return None
        return EtcdEntry(_etcd_server(job), f"/paddle/{job.namespace}-{job.name}/np", str(job.count("worker")))

    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        done = all(counts[role.name].succeeded >= role.replicas for role in job.roles)
        return JobOutcome(True) if done else None

    def read_progress(self, obj: Object) -> Progress:
        status = status_of(obj)
        phase = status.get("phase")
        states = {
            "Created": phase is not None,
            "Running": phase == "Running",
            "Succeeded": phase == "Completed",
            "Failed": phase == "Failed",
        }
        conditions = tuple(
            {"type": state, "status": "True", "reason": f"PaddleJob{state}", "lastTransitionTime": ""}
            for state, is_true in states.items()
            if is_true
        )
        return Progress(conditions, status.get("startTime"), status.get("completionTime"))

    def write_status(
        self, job: TrainingJob, progress: Progress, counts: ReplicaCounts, pods: Sequence[Object]
    ) -> Object:
        status: Object = {"phase": _phase(job, progress, counts), "mode": _mode(job)}
        for role in job.roles:
            status[role.name] = _role_status(job, role.name, counts[role.name], pods)
        times = {"startTime": progress.start, "completionTime": progress.completion}
        if progress.has("Failed"):
            status["message"] = next(c.get("message", "") for c in progress.conditions if c["type"] == "Failed")
            status["message"] = status["message"] or status_of(job.object).get("message", "")
        return status | {name: moment for name, moment in times.items() if moment}


def _has(spec: Mapping[str, Any], path: str) -> bool:
    first, _, second = path.partition(".")
    return bool((spec.get(first) or {}).get(second) if second else spec.get(first))


def _clean_policy(spec: Mapping[str, Any]) -> str:
    return str(spec.get("cleanPodPolicy") or spec.get("cleanPolicy") or "")


def _restart(spec: Mapping[str, Any], role: str) -> RestartPolicy:
    if spec.get("elastic") is not None:
        return "OnFailure"
    written = ((spec[role].get("template") or {}).get("spec") or {}).get("restartPolicy")
    if written:
        return cast(RestartPolicy, written)
    return "OnFailure" if role == "worker" and spec.get("intranet") == "Service" else "Never"


def _template(job: TrainingJob, replica: Replica) -> Object:
    role = job.role(replica.role)
    assert role is not None
    return role.template


def _meet_at_pods(job: TrainingJob) -> bool:
    """Whether replicas meet at their Pods' addresses, by which Paddle's launcher identifies itself. A job may ask for
    names instead. Elastic workers meet in an etcd."""
    spec = spec_of(job.object)
    return spec.get("intranet") != "Service" and spec.get("elastic") is None


def _port(job: TrainingJob, replica: Replica, addresses: Addresses) -> int:
    """Returns the port of a replica. Workers of a collective job have the same one: the launcher of Paddle 2.0 to 2.2
    knows the addresses of the others (PADDLE_TRAINERS), and takes its own PADDLE_PORT for theirs."""
    shared = replica.role == "worker" and _mode(job) == "Collective" and _meet_at_pods(job)
    return addresses[Replica("worker", 0) if shared else replica].port


def _peers(job: TrainingJob, addresses: Addresses) -> dict[str, str]:
    """The variables that are the same for all replicas."""
    env = {}
    if job.role("ps"):
        env["PADDLE_PSERVERS_IP_PORT_LIST"] = _endpoint_list(job, "ps", addresses)
    if job.role("worker"):
        env["PADDLE_TRAINER_ENDPOINTS"] = _endpoint_list(job, "worker", addresses)
        env["PADDLE_TRAINERS"] = ",".join(end.host for end in _endpoints(job, "worker", addresses))
        env["PADDLE_TRAINERS_NUM"] = str(job.count("worker"))
    if _mode(job) == "Collective" and _meet_at_pods(job):
        # Since Paddle 2.3 the launcher reads none of the above. Without these two, every worker would train alone.
        env["PADDLE_MASTER"] = str(addresses[Replica("worker", 0)])
        env["PADDLE_NNODES"] = str(job.count("worker"))
    if job.role("heter"):
        env["PADDLE_HETER_ENDPOINTS"] = _endpoint_list(job, "heter", addresses)
    if _uses_gloo(job):
        env["PADDLE_WITH_GLOO"] = str(spec_of(job.object)["withGloo"])
        env["PADDLE_GLOO_RENDEZVOUS"] = "3"
        env["PADDLE_GLOO_HTTP_ENDPOINT"] = str(addresses[_GLOO])
    return env


def _uses_gloo(job: TrainingJob) -> bool:
    spec = spec_of(job.object)
    return bool(spec.get("withGloo")) and spec.get("intranet") != "Service" and job.count("ps") > 0


def _etcd_server(job: TrainingJob) -> str:
    return annotations_of(job.object).get(ETCD_ANNOTATION, "")


def _elastic(job: TrainingJob) -> dict[str, str | Object]:
    return {
        "PADDLE_ELASTIC_SERVER": _etcd_server(job),
        "PADDLE_ELASTIC_JOB_ID": f"{job.namespace}-{job.name}",
        "PADDLE_ELASTIC_NP": str(job.count("worker")),
        "PADDLE_ELASTIC_TIMEOUT": "60",
    }


def _endpoints(job: TrainingJob, role: str, addresses: Addresses) -> list[Any]:
    return [addresses[Replica(role, index)] for index in range(job.count(role))]


def _endpoint_list(job: TrainingJob, role: str, addresses: Addresses) -> str:
    return ",".join(str(end) for end in _endpoints(job, role, addresses))


def _mode(job: TrainingJob) -> str:
    if job.role("ps") is not None:
        return "PS"
    return "Collective" if job.count("worker") > 1 else "Single"


def _phase(job: TrainingJob, progress: Progress, counts: ReplicaCounts) -> str:
    if progress.has("Succeeded"):
        return "Completed"
    if progress.has("Failed"):
        return "Failed"
    if is_deleting(job.object):
        return "Terminating"
    if all(counts[role.name].running == role.replicas for role in job.roles):
        return "Running"
    if any(count.active > count.running for count in counts.values()) or not any(counts.values()):
        return "Pending"
    started = sum(count.running + count.succeeded for count in counts.values())
    return "Running" if started == job.size else "Starting" if started else "Pending"


def _role_status(job: TrainingJob, role: str, count: ReplicaCount, pods: Sequence[Object]) -> Object:
    numbers = {
        "pending": count.active - count.running,
        "running": count.running,
        "failed": count.failed,
        "succeeded": count.succeeded,
    }
    refs = [
        {"kind": "Pod", "apiVersion": "v1", "name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)}
        for pod in sorted(pods, key=name_of)
        if name_of(pod).startswith(f"{job.name}-{role}-")
    ]
    shown: Object = {name: number for name, number in numbers.items() if number}
    return {**shown, "refs": refs} if refs else shown
