"""A training job of any kind: roles of replicas, a run policy, an outcome, and conditions in the order and wording that
training-operator's users know; with training-operator's names and labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from muster.kube.cluster import Endpoint
from muster.kube.errors import Cause
from muster.kube.objects import (
    Condition,
    Object,
    get_condition,
    is_condition_true,
    name_of,
    namespace_of,
    timestamp,
    uid_of,
)

RestartPolicy: TypeAlias = Literal["Always", "OnFailure", "Never", "ExitCode"]
CleanPodPolicy: TypeAlias = Literal["None", "Running", "All"]
RestartScope: TypeAlias = Literal["replica", "gang"]

RESTART_SCOPE = "muster.dev/restart-scope"
"""Annotation on a job: `gang` restarts every member when one dies."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a role, such as Worker 3."""

    role: str
    index: int

    @property
    def suffix(self) -> str:
        return f"{self.role.lower()}-{self.index}"


@dataclass(frozen=True, slots=True)
class Role:
    """A replica type with its defaults filled in."""

    name: str
    replicas: int
    template: Object
    restart: RestartPolicy = "Never"

    def members(self) -> Iterator[Replica]:
        return (Replica(self.name, index) for index in range(self.replicas))


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    min_available: int | None = None
    queue: str = ""
    min_resources: Mapping[str, str] | None = None
    priority_class: str = ""
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class RunPolicy:
    clean_on_success: CleanPodPolicy = "None"
    clean_on_failure: CleanPodPolicy = "None"
    ttl_seconds: int | None = None
    deadline_seconds: int | None = None
    backoff_limit: int | None = None
    scheduling: SchedulingPolicy | None = None
    suspend: bool = False
    managed_by: str = ""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Read from an object by its job kind. The object itself stays as the user wrote it."""

    object: Object
    roles: tuple[Role, ...]
    policy: RunPolicy = field(default_factory=RunPolicy)
    restart_scope: RestartScope = "replica"

    @property
    def name(self) -> str:
        return name_of(self.object)

    @property
    def namespace(self) -> str:
        return namespace_of(self.object)

    @property
    def uid(self) -> str:
        return uid_of(self.object)

    @property
    def kind(self) -> str:
        return str(self.object["kind"])

    @property
    def size(self) -> int:
        return sum(role.replicas for role in self.roles)

    def role(self, name: str) -> Role | None:
        return next((role for role in self.roles if role.name == name), None)

    def count(self, name: str) -> int:
        role = self.role(name)
        return role.replicas if role is not None else 0

    def replicas(self) -> Iterator[Replica]:
        return (replica for role in self.roles for replica in role.members())


Addresses: TypeAlias = Mapping[Replica, Endpoint]
"""Where each replica listens. Only the cluster knows."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What is added to a replica's Pod so that it finds its peers."""

    env: Mapping[str, str | Object] = field(default_factory=dict)
    """A text, or a `valueFrom` for values that only the node knows."""
    only_container: str = ""
    """'' means every container of the Pod."""
    volumes: tuple[Object, ...] = ()
    mounts: tuple[Object, ...] = ()
    from_config_map: str = ""
    """The ConfigMap with further variables. The node starts no container before it exists."""
    service_account: str = ""
    init_containers: tuple[Object, ...] = ()
    """Run after the init containers of the template."""


@dataclass(frozen=True, slots=True)
class PeerDirectory:
    """A ConfigMap that replicas wait for: the addresses of their peers, which are unknown before the Pods run. Without
    content it must not exist."""

    name: str
    content: Mapping[str, str] | None


class ReplicaCount(NamedTuple):
    """How many replicas of one role are in which state."""

    active: int = 0
    """Pending or running."""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    done: frozenset[int] = frozenset()
    """The indices of the replicas that succeeded."""


ReplicaCounts: TypeAlias = Mapping[str, ReplicaCount]


@dataclass(frozen=True, slots=True)
class ObservedObjects:
    """The existing objects that belong to the job."""

    pods: Sequence[Object] = ()
    services: Sequence[Object] = ()
    companions: Sequence[Object] = ()
    group: Object | None = None
    """The PodGroup of the job's name, ours or the user's."""


class JobOutcome(NamedTuple):
    """How a job ended."""

    succeeded: bool
    message: str = ""
    reason: str = ""


# The names and labels that training-operator gives to a job's Pods and Services.
#
# Users' scripts and dashboards rely on them.


OPERATOR = "training.kubeflow.org/operator-name"
JOB_NAME = "training.kubeflow.org/job-name"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
JOB_ROLE = "training.kubeflow.org/job-role"
PADDLE_NAME = "paddle-res-name"
PADDLE_ROLE = "paddle-res-type"
ATTEMPT_ANNOTATION = "muster.dev/attempt"

_MAX_NAME_LENGTH = 63
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def replica_name(job: TrainingJob, replica: Replica) -> str:
    """Returns the name of a replica's Pod and Service. The only launcher of an MPIJob has no number."""
    return f"{job.name}-launcher" if replica.role == "Launcher" else f"{job.name}-{replica.suffix}"


def job_labels(job: TrainingJob) -> dict[str, str]:
    """The labels of everything that belongs to a job."""
    return {OPERATOR: f"{job.kind.lower()}-controller", JOB_NAME: job.name}


def replica_labels(job: TrainingJob, replica: Replica, *, is_master: bool) -> dict[str, str]:
    labels = {
        **job_labels(job),
        REPLICA_TYPE: replica.role.lower(),
        REPLICA_INDEX: str(replica.index),
    }
    if is_master:
        labels[JOB_ROLE] = "master"
    return labels


def role_selector(job: TrainingJob, role: str) -> str:
    """Selects the Pods of a role, for the scale subresource and autoscalers."""
    return f"{JOB_NAME}={job.name},{OPERATOR}={job.kind.lower()}-controller,{REPLICA_TYPE}={role.lower()}"


def check_job_name(name: str) -> list[Cause]:
    """Services are named after jobs, so a job's name must be a DNS-1035 label."""
    if len(name) <= _MAX_NAME_LENGTH and _DNS_1035.fullmatch(name):
        return []
    return [
        Cause(
            "metadata.name",
            f'"{name}" must be lower case letters, digits and -, begin with a letter, end with a letter or digit, '
            f"and have at most {_MAX_NAME_LENGTH} characters (Services are named after it)",
        )
    ]


def check_replica_names(job: TrainingJob, listeners: Iterable[Replica]) -> list[Cause]:
    """A job whose Services cannot be created would wait forever."""
    longest = max((replica_name(job, replica) for replica in listeners), key=len, default="")
    if len(longest) <= _MAX_NAME_LENGTH:
        return []
    excess = len(longest) - _MAX_NAME_LENGTH
    why = f'"{job.name}" is {excess} characters too long: the Service "{longest}" is named after it'
    return [Cause("metadata.name", f"{why}, and may have {_MAX_NAME_LENGTH}")]


State: TypeAlias = Literal["Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]


@dataclass(frozen=True, slots=True)
class Progress:
    conditions: tuple[Condition, ...] = ()
    start: str | None = None
    completion: str | None = None

    def has(self, state: State) -> bool:
        return is_condition_true(self.conditions, state)

    @property
    def finished(self) -> bool:
        return self.has("Succeeded") or self.has("Failed")

    def with_condition(
        self, kind: str, state: State, message: str, now: datetime, *, status: bool = True, reason: str = ""
    ) -> Progress:
        """The newest condition is the last one, which the State column shows. Running and Restarting replace each
        other; when the job ends, Running becomes false."""
        reason = reason or f"{kind}{state}"
        truth = "True" if status else "False"
        old = get_condition(self.conditions, state)
        if old is not None and (old["status"], old["reason"]) == (truth, reason):
            return self
        moment = timestamp(now)
        unchanged = old is not None and old["status"] == truth
        condition = {
            "type": state,
            "status": truth,
            "reason": reason,
            "message": message,
            "lastUpdateTime": moment,
            "lastTransitionTime": old["lastTransitionTime"] if old is not None and unchanged else moment,
        }
        return replace(self, conditions=(*_other_conditions(self.conditions, state, moment), condition))


def read_progress(status: Object) -> Progress:
    return Progress(tuple(status.get("conditions") or ()), status.get("startTime"), status.get("completionTime"))


def _other_conditions(conditions: Iterable[Condition], state: State, moment: str) -> Iterable[Condition]:
    for condition in conditions:
        type = condition["type"]
        if type == state or {type, state} == {"Running", "Restarting"}:
            continue
        if type == "Running" and state in ("Succeeded", "Failed") and condition["status"] == "True":
            yield {**condition, "status": "False", "lastUpdateTime": moment, "lastTransitionTime": moment}
        else:
            yield condition
