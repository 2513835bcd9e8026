"""One Python API for local functions, Kubernetes clusters, Baidu AIHC and Tencent timaker (docs/dispatch.md)."""

from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.errors import (
    DispatchError,
    InvalidJob,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    NoCapacity,
    Refused,
    Transient,
    Unclear,
)
from muster.dispatch.model import (
    Capacity,
    Job,
    JobDescription,
    JobFault,
    Line,
    Mount,
    Resources,
    Retry,
    Spec,
    State,
)
from muster.dispatch.secrets import Secret, secret

__all__ = [
    "Capacity",
    "DispatchError",
    "DispatcherAdapter",
    "InvalidJob",
    "Job",
    "JobCancelled",
    "JobDescription",
    "JobError",
    "JobFailed",
    "JobFault",
    "JobNotFound",
    "Line",
    "Mount",
    "NoCapacity",
    "Refused",
    "Resources",
    "Retry",
    "Secret",
    "Spec",
    "State",
    "Transient",
    "Unclear",
    "secret",
]
