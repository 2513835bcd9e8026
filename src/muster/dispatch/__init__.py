"""One Python API for local functions, Kubernetes clusters, Baidu AIHC and Tencent timaker (docs/dispatch.md)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from muster.dispatch.adapter import DispatcherAdapter
    from muster.dispatch.external import ExternalAdapter

__all__ = [
    "Capacity",
    "DispatchError",
    "DispatcherAdapter",
    "ExternalAdapter",
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

_LAZY = {
    "DispatcherAdapter": "adapter",
    "ExternalAdapter": "external",
}
"""Imported when they are used: a job that runs a function should not wait for an HTTP client to load."""


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
