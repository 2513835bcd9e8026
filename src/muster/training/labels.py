"""The names and labels that training-operator gives to a job's Pods and Services.

Users' scripts and dashboards rely on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from muster.kube.errors import Cause
from muster.training.model import Replica, TrainingJob

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
