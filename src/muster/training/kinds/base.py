"""`JobKind`: what each kind of training job defines, and what all kubeflow.org/v1 kinds have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args

from muster.kube.defaults import default_pod_spec
from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object, annotations_of, name_of, owner_reference, spec_of, status_of
from muster.kube.pod_validation import validate_pod_spec
from muster.training.etcd import EtcdEntry
from muster.training.model import (
    RESTART_SCOPE,
    Addresses,
    CleanPodPolicy,
    JobOutcome,
    PeerDirectory,
    Progress,
    Replica,
    ReplicaCounts,
    RestartPolicy,
    Role,
    RunPolicy,
    SchedulingPolicy,
    TrainingJob,
    Wiring,
    check_job_name,
    check_replica_names,
    job_labels,
    read_progress,
    replica_labels,
    role_selector,
)

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""The value of managedBy for jobs that Kueue runs on another cluster."""


@dataclass(frozen=True, slots=True)
class ManifestLayout:
    """Where the manifest of a kind has its roles, for forms."""

    roles: Mapping[str, tuple[str, ...]]
    """The path of each role: its `replicas` and its `template` are there."""
    restart: tuple[str, ...]
    """The path of the restart policy in a role."""
    restart_policies: tuple[RestartPolicy, ...]
    default_restart: RestartPolicy


class JobKind(ABC):
    """One kind of training job. Pure: objects in, plain data out."""

    kind: ClassVar[Kind]
    other_versions: ClassVar[tuple[Kind, ...]] = ()
    """The same kind in other API versions."""
    container: ClassVar[str]
    """The name of the training container; others are sidecars."""
    port_name: ClassVar[str]
    port: ClassVar[int]
    managers: ClassVar[tuple[str, ...]] = ("kubeflow.org/training-operator",)
    """The values of managedBy for jobs that we run."""
    inherited_finalizers: ClassVar[tuple[str, ...]] = ()
    """Finalizers of an earlier operator. Without us they would never be removed."""

    @property
    @abstractmethod
    def layout(self) -> ManifestLayout: ...

    @abstractmethod
    def read(self, obj: Object) -> TrainingJob:
        """The job with every default filled in."""

    def is_managed_elsewhere(self, obj: Object) -> bool:
        """Whether another controller runs the job, and also validates it."""
        return (spec_of(obj).get("runPolicy") or {}).get("managedBy") == MULTIKUEUE

    @abstractmethod
    def validate(self, obj: Object) -> list[Cause]:
        """Returns what is wrong with an object that fits its schema."""

    def validate_change(self, old: Object, new: Object) -> list[Cause]:
        """Returns what is wrong with a change whose new object is valid by itself."""
        return []

    def warnings(self, obj: Object) -> list[Cause]:
        """Returns what is accepted because upstream accepts it, but has no effect."""
        return []

    @abstractmethod
    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring: ...

    @abstractmethod
    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        """Returns the outcome if the job has succeeded, or failed for a reason of its kind. A failed replica that may
        not be restarted fails the job without this call."""

    def is_running(self, job: TrainingJob, counts: ReplicaCounts) -> bool:
        """Whether the job counts as running: by default, once a replica of the lead's role runs."""
        lead = self.lead(job)
        return counts[lead.role].running > 0 if lead is not None else any(c.running for c in counts.values())

    def lead(self, job: TrainingJob) -> Replica | None:
        """The replica that decides the job's outcome. It gets the label job-role=master."""
        return None

    def listeners(self, job: TrainingJob) -> list[Replica]:
        """The replicas that others connect to. Each gets a Service and an address."""
        return list(job.replicas())

    def port_of(self, job: TrainingJob, replica: Replica) -> int:
        role = job.role(replica.role)
        assert role is not None
        trainer = self.training_container(role.template.get("spec") or {})
        return next(
            (int(p["containerPort"]) for p in trainer.get("ports") or () if p.get("name") == self.port_name), self.port
        )

    def extra_ports(self, job: TrainingJob) -> Mapping[Replica, tuple[Replica, int]]:
        """Further addresses that the wiring needs: by a made-up replica, the replica that listens and its port."""
        return {}

    def companions(self, job: TrainingJob, addresses: Addresses) -> Sequence[Object]:
        """Further objects that the job needs before its Pods, such as a host file or a service account."""
        return ()

    def peer_directory(
        self, job: TrainingJob, addresses: Addresses, places: Mapping[Replica, str]
    ) -> PeerDirectory | None:
        """For replicas that meet at the addresses of their Pods; `places` are the known ones."""
        return None

    def etcd_entry(self, job: TrainingJob) -> EtcdEntry | None:
        """The entry to write to an external etcd before replicas start, and whenever it changes."""
        return None

    def read_progress(self, obj: Object) -> Progress:
        return read_progress(status_of(obj))

    @abstractmethod
    def write_status(
        self, job: TrainingJob, progress: Progress, counts: ReplicaCounts, pods: Sequence[Object]
    ) -> Object:
        """Returns the status in the form of this kind."""

    def must_wait(self, job: TrainingJob, replica: Replica, counts: ReplicaCounts) -> bool:
        """Whether a replica may not be created yet."""
        return False

    def count_late_replicas(self, job: TrainingJob) -> int:
        """How many replicas `must_wait` for the others to run."""
        return 0

    def labels(self, job: TrainingJob, replica: Replica) -> dict[str, str]:
        """The labels of a replica's Pod and Service."""
        return replica_labels(job, replica, is_master=replica == self.lead(job))

    def training_container(self, pod_spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the training container: by name, or the first one if the name is free."""
        containers = pod_spec.get("containers") or [{}]
        return next((c for c in containers if c.get("name") == self.container), containers[0])


class KubeflowJobKind(JobKind):
    """kubeflow.org/v1: `spec.<x>ReplicaSpecs` by role, `spec.runPolicy`."""

    replica_specs: ClassVar[str]
    roles: ClassVar[tuple[str, ...]]
    """The roles, in the order in which replicas are created and counted."""
    restart: ClassVar[RestartPolicy] = "Never"
    names_container: ClassVar[bool] = True
    """Whether the training container must have the name of the job kind's framework."""
    default_replicas: ClassVar[Mapping[str, int]] = {}

    @property
    def layout(self) -> ManifestLayout:
        roles = {role: ("spec", self.replica_specs, role) for role in self.roles}
        return ManifestLayout(roles, ("restartPolicy",), get_args(RestartPolicy), self.restart)

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
        """Roles are matched without regard to case, as in training-operator: `worker` is `Worker`."""
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
                    Cause(f"{path}.{written}", f'"{written}" is not a role of {self.kind.kind}; use one of {allowed}')
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
                Cause(where, f'one container must be named "{self.container}", the training container; found {found}')
            )
        if int(spec.get("replicas", 1)) < 0:
            causes.append(Cause(f"{path}.replicas", "must be 0 or more"))
        return causes


def validate_template(template: Mapping[str, Any], path: str) -> list[Cause]:
    """Returns what the cluster would reject in the Pods, so that the job is rejected at once."""
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


def validate_elastic_policy(policy: Mapping[str, Any], workers: int | None, path: str) -> list[Cause]:
    """`workers` is the number written at `path`, when the job is created or scaled."""
    low, high = policy.get("minReplicas"), policy.get("maxReplicas")
    if low is not None and high is not None and low > high:
        return [Cause("spec.elasticPolicy.minReplicas", f"{low} is more than maxReplicas, {high}")]
    if workers is not None and low is not None and workers < low:
        return [Cause(path, f"{workers} is less than elasticPolicy.minReplicas, {low}")]
    if workers is not None and high is not None and workers > high:
        return [Cause(path, f"{workers} is more than elasticPolicy.maxReplicas, {high}")]
    return []


def build_autoscalers(job: TrainingJob, policy: Mapping[str, Any]) -> Sequence[Object]:
    """Returns an autoscaler if the policy has metrics."""
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
