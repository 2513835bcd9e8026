"""One Python API for local functions, Kubernetes clusters, Baidu AIHC and Tencent timaker (docs/dispatch.md)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from muster.dispatch.context import Container, Context, ErrorMarshaler, default_errors
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
    from muster.dispatch.aihc.adapter import AihcAdapter
    from muster.dispatch.cluster import ClusterAdapter, LocalAdapter
    from muster.dispatch.dispatcher import Dispatcher, Plan
    from muster.dispatch.external import ExternalAdapter
    from muster.dispatch.handle import JobHandle
    from muster.dispatch.store import Event, Page
    from muster.dispatch.timaker.adapter import TimakerAdapter, describe_resource
    from muster.dispatch.timaker.task import TimakerFileSystemDataSource, TimakerJobParser, TimakerTaskInfo

__all__ = [
    "AihcAdapter",
    "Capacity",
    "ClusterAdapter",
    "Container",
    "Context",
    "DispatchError",
    "Dispatcher",
    "DispatcherAdapter",
    "ErrorMarshaler",
    "Event",
    "ExternalAdapter",
    "InvalidJob",
    "Job",
    "JobCancelled",
    "JobDescription",
    "JobError",
    "JobFailed",
    "JobFault",
    "JobHandle",
    "JobNotFound",
    "Line",
    "LocalAdapter",
    "Mount",
    "NoCapacity",
    "Page",
    "Plan",
    "Refused",
    "Resources",
    "Retry",
    "Secret",
    "Spec",
    "State",
    "TimakerAdapter",
    "TimakerFileSystemDataSource",
    "TimakerJobParser",
    "TimakerTaskInfo",
    "Transient",
    "Unclear",
    "default_errors",
    "describe_resource",
    "secret",
]

_LAZY = {
    "AihcAdapter": "aihc.adapter",
    "ClusterAdapter": "cluster",
    "Dispatcher": "dispatcher",
    "DispatcherAdapter": "adapter",
    "Event": "store",
    "ExternalAdapter": "external",
    "JobHandle": "handle",
    "LocalAdapter": "cluster",
    "Page": "store",
    "Plan": "dispatcher",
    "TimakerAdapter": "timaker.adapter",
    "TimakerFileSystemDataSource": "timaker.task",
    "TimakerJobParser": "timaker.task",
    "TimakerTaskInfo": "timaker.task",
    "describe_resource": "timaker.adapter",
}
"""Imported when they are used: a job that runs a function should not wait for an HTTP client to load."""


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
