"""`JobKind`: what each kind of training job defines, and what all kubeflow.org/v1 kinds have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from muster.kube.defaults import default_pod_spec
from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object, annotations_of, name_of, owner_reference, spec_of, status_of
from muster.kube.pod_validation import validate_pod_spec
from muster.training.etcd import EtcdEntry
from muster.training.job_conditions import Progress, read_progress
from muster.training.labels import check_job_name, check_replica_names, job_labels, replica_labels, role_selector
from muster.training.model import (
    RESTART_SCOPE,
    Addresses,
    CleanPodPolicy,
    JobOutcome,
    PeerDirectory,
    Replica,
    ReplicaCounts,
    RestartPolicy,
    Role,
    RunPolicy,
    SchedulingPolicy,
    TrainingJob,
    Wiring,
)

# Merged from elastic: Jobs that may grow and shrink: within which bounds, and who does it for them.


def validate_elastic_policy(policy: Mapping[str, Any], workers: int | None, path: str) -> list[Cause]:
    """`workers` as written at `path`, be it when the job is made or when it is scaled."""
    low, high = policy.get("minReplicas"), policy.get("maxReplicas")
    if low is not None and high is not None and low > high:
        return [Cause("spec.elasticPolicy.minReplicas", f"{low} is more than maxReplicas, {high}")]
    if workers is not None and low is not None and workers < low:
        return [Cause(path, f"{workers} is less than elasticPolicy.minReplicas, {low}")]
    if workers is not None and high is not None and workers > high:
        return [Cause(path, f"{workers} is more than elasticPolicy.maxReplicas, {high}")]
    return []


def build_autoscalers(job: TrainingJob, policy: Mapping[str, Any]) -> Sequence[Object]:
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


# Merged from job_kind: What a job_kind has to say about its kind, and what all kubeflow.org/v1 kinds have in common.


MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""Who may be said to look after a job instead of us: Kueue, on another cluster."""


class JobKind(ABC):
    """One kind of training job. Pure: objects in, plain data out."""

    kind: ClassVar[Kind]
    other_versions: ClassVar[tuple[Kind, ...]] = ()
    """The same kind in other API versions."""
    container: ClassVar[str]
    """The container that trains; the others keep it company."""
    port_name: ClassVar[str]
    port: ClassVar[int]
    managers: ClassVar[tuple[str, ...]] = ("kubeflow.org/training-operator",)
    """The operators whose jobs are ours; a job says in managedBy whose it is."""
    inherited_finalizers: ClassVar[tuple[str, ...]] = ()
    """Those that an operator before us put on its jobs: without us nobody would take them off, and they would never
    go."""

    @abstractmethod
    def read(self, obj: Object) -> TrainingJob:
        """The job with every default filled in."""

    def is_managed_elsewhere(self, obj: Object) -> bool:
        """Whether somebody else looks after it, and also judges it."""
        return (spec_of(obj).get("runPolicy") or {}).get("managedBy") == MULTIKUEUE

    @abstractmethod
    def validate(self, obj: Object) -> list[Cause]:
        """What is wrong with an object that its schema allows."""

    def validate_change(self, old: Object, new: Object) -> list[Cause]:
        """What is wrong with a change, though the new object by itself is fine."""
        return []

    def warnings(self, obj: Object) -> list[Cause]:
        """What is accepted, because upstream accepts it, and has no effect."""
        return []

    @abstractmethod
    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring: ...

    @abstractmethod
    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        """Whether the job has succeeded (or failed for a reason of its own). A failed replica that may not be
        restarted fails the job without asking the job_kind."""

    def is_running(self, job: TrainingJob, counts: ReplicaCounts) -> bool:
        """Whether the job counts as running: by default, once the role that decides about it does."""
        lead = self.lead(job)
        return counts[lead.role].running > 0 if lead is not None else any(c.running for c in counts.values())

    def lead(self, job: TrainingJob) -> Replica | None:
        """The member whose end is the job's, which also gets the label job-role=master."""
        return None

    def listeners(self, job: TrainingJob) -> list[Replica]:
        """The replicas that others connect to: each gets a Service, and an address."""
        return list(job.replicas())

    def port_of(self, job: TrainingJob, replica: Replica) -> int:
        role = job.role(replica.role)
        assert role is not None
        trainer = self.training_container(role.template.get("spec") or {})
        return next(
            (int(p["containerPort"]) for p in trainer.get("ports") or () if p.get("name") == self.port_name), self.port
        )

    def extra_ports(self, job: TrainingJob) -> Mapping[Replica, tuple[Replica, int]]:
        """Further addresses a wiring needs: by a made-up name, the replica that listens and its port."""
        return {}

    def companions(self, job: TrainingJob, addresses: Addresses) -> Sequence[Object]:
        """Further objects the job needs before its Pods (a host file, a service account)."""
        return ()

    def peer_directory(
        self, job: TrainingJob, addresses: Addresses, places: Mapping[Replica, str]
    ) -> PeerDirectory | None:
        """For members that meet at the addresses of their Pods; `places` are those that are known by now."""
        return None

    def etcd_entry(self, job: TrainingJob) -> EtcdEntry | None:
        """What an etcd outside is to be told before members start, and whenever it changes."""
        return None

    def read_progress(self, obj: Object) -> Progress:
        return read_progress(status_of(obj))

    @abstractmethod
    def write_status(
        self, job: TrainingJob, progress: Progress, counts: ReplicaCounts, pods: Sequence[Object]
    ) -> Object:
        """The status as users of this kind know it."""

    def must_wait(self, job: TrainingJob, replica: Replica, counts: ReplicaCounts) -> bool:
        """Whether a replica may not be created yet."""
        return False

    def count_late_replicas(self, job: TrainingJob) -> int:
        """How many replicas `must_wait` for the others to run."""
        return 0

    def labels(self, job: TrainingJob, replica: Replica) -> dict[str, str]:
        """What a replica's Pod and Service are found by."""
        return replica_labels(job, replica, is_master=replica == self.lead(job))

    def training_container(self, pod_spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """The container that trains: by name, or the first one where names are free."""
        containers = pod_spec.get("containers") or [{}]
        return next((c for c in containers if c.get("name") == self.container), containers[0])


class KubeflowJobKind(JobKind):
    """kubeflow.org/v1: `spec.<x>ReplicaSpecs` by role, `spec.runPolicy`."""

    replica_specs: ClassVar[str]
    roles: ClassVar[tuple[str, ...]]
    """In the order in which replicas are created and counted."""
    restart: ClassVar[RestartPolicy] = "Never"
    names_container: ClassVar[bool] = True
    """Whether the container that trains must have the job_kind's name."""
    default_replicas: ClassVar[Mapping[str, int]] = {}

    def read(self, obj: Object) -> TrainingJob:
        specs = spec_of(obj).get(self.replica_specs) or {}
        by_role = {self.role_name(written): spec for written, spec in specs.items()}
        roles = tuple(
            Role(
                name,
                int(by_role[name].get("replicas", self.default_replicas.get(name, 1))),
                by_role[name].get("template") or {},
                by_role[name].get("restartPolicy") or self.restart,
            )
            for name in self.roles
            if name in by_role
        )
        scope = annotations_of(obj).get(RESTART_SCOPE)
        return TrainingJob(obj, roles, self.run_policy(obj), "gang" if scope == "gang" else "replica")

    def role_name(self, written: str) -> str:
        """Roles are matched whatever their case, as training-operator does: `worker` is `Worker`."""
        return next((role for role in self.roles if role.lower() == written.lower()), written)

    def run_policy(self, obj: Object) -> RunPolicy:
        return read_run_policy(spec_of(obj).get("runPolicy") or {})

    def validate(self, obj: Object) -> list[Cause]:
        path = f"spec.{self.replica_specs}"
        specs = spec_of(obj).get(self.replica_specs)
        causes = check_job_name(name_of(obj))
        scope = annotations_of(obj).get(RESTART_SCOPE)
        if scope not in (None, "gang", "replica"):
            causes.append(Cause(f"metadata.annotations[{RESTART_SCOPE}]", f'"{scope}" is not one of gang, replica'))
        manager = self.run_policy(obj).managed_by
        known = (*self.managers, MULTIKUEUE)
        if manager not in ("", *known):
            why = f'"{manager}" is not one of {", ".join(known)}'
            causes.append(Cause("spec.runPolicy.managedBy", why, "FieldValueNotSupported"))
        if not specs:
            return [*causes, Cause(path, "Required value: a job needs at least one role", "FieldValueRequired")]
        for written, spec in specs.items():
            role = self.role_name(written)
            if role not in self.roles:
                allowed = ", ".join(self.roles)
                causes.append(
                    Cause(f"{path}.{written}", f'"{written}" is not a role of {self.kind.kind}: write one of {allowed}')
                )
                continue
            causes += self._validate_role(f"{path}.{written}", spec or {})
        if not causes:
            job = self.read(obj)
            causes += check_replica_names(job, self.listeners(job))
        return causes

    def validate_change(self, old: Object, new: Object) -> list[Cause]:
        before, after = self.run_policy(old), self.run_policy(new)
        causes = []
        if before.managed_by != after.managed_by:
            causes.append(Cause("spec.runPolicy.managedBy", "field is immutable"))
        if before.scheduling and after.scheduling and before.scheduling.queue != after.scheduling.queue:
            causes.append(Cause("spec.runPolicy.schedulingPolicy.queue", "field is immutable"))
        return causes

    def warnings(self, obj: Object) -> list[Cause]:
        causes = []
        for written, spec in (spec_of(obj).get(self.replica_specs) or {}).items():
            template = ((spec or {}).get("template") or {}).get("spec") or {}
            policy = (spec or {}).get("restartPolicy") or self.restart
            if template.get("restartPolicy", policy) != policy and policy != "ExitCode":
                path = f"spec.{self.replica_specs}.{written}"
                why = f"has no effect: {path}.restartPolicy, which is {policy}, decides"
                causes.append(Cause(f"{path}.template.spec.restartPolicy", why))
        return causes

    def write_status(
        self, job: TrainingJob, progress: Progress, counts: ReplicaCounts, pods: Sequence[Object]
    ) -> Object:
        status: Object = {"conditions": list(progress.conditions), "replicaStatuses": {}}
        for role, count in counts.items():
            numbers = {"active": count.running, "succeeded": count.succeeded, "failed": count.failed}
            shown: Object = {name: number for name, number in numbers.items() if number}
            shown["selector"] = role_selector(job, role)
            status["replicaStatuses"][role] = shown
        times = {"startTime": progress.start, "completionTime": progress.completion}
        return status | {name: moment for name, moment in times.items() if moment}

    def _validate_role(self, path: str, spec: Mapping[str, Any]) -> list[Cause]:
        pod_spec = (spec.get("template") or {}).get("spec") or {}
        containers = pod_spec.get("containers") or []
        where = f"{path}.template.spec.containers"
        if not containers:
            return [Cause(where, "Required value: at least one container", "FieldValueRequired")]
        causes = validate_template(spec.get("template") or {}, f"{path}.template")
        if self.names_container and not any(container.get("name") == self.container for container in containers):
            found = ", ".join(f'"{c.get("name", "")}"' for c in containers)
            causes.append(
                Cause(where, f'one container must be named "{self.container}", the one that trains; found {found}')
            )
        if int(spec.get("replicas", 1)) < 0:
            causes.append(Cause(f"{path}.replicas", "must be 0 or more"))
        return causes


def validate_template(template: Mapping[str, Any], path: str) -> list[Cause]:
    """What the cluster would refuse of the Pods made from it: better said of the job, and at once."""
    return validate_pod_spec(default_pod_spec(template.get("spec") or {}), f"{path}.spec")


def read_run_policy(policy: Mapping[str, Any]) -> RunPolicy:
    clean = cast(CleanPodPolicy, policy.get("cleanPodPolicy") or "None")
    return RunPolicy(
        clean_on_success=clean,
        clean_on_failure=clean,
        ttl_seconds=policy.get("ttlSecondsAfterFinished"),
        deadline_seconds=policy.get("activeDeadlineSeconds"),
        backoff_limit=policy.get("backoffLimit"),
        scheduling=read_scheduling_policy(policy.get("schedulingPolicy")),
        suspend=bool(policy.get("suspend")),
        managed_by=policy.get("managedBy") or "",
    )


def read_scheduling_policy(policy: Mapping[str, Any] | None) -> SchedulingPolicy | None:
    if policy is None:
        return None
    return SchedulingPolicy(
        min_available=policy.get("minAvailable"),
        queue=policy.get("queue") or "",
        min_resources=policy.get("minResources"),
        priority_class=policy.get("priorityClass") or "",
        timeout_seconds=policy.get("scheduleTimeoutSeconds"),
    )
