"""A job as a row and as JSON, and a Spec as JSON.

This module does not import a database: it also runs inside jobs and hooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from muster.dispatch.errors import InvalidJob
from muster.dispatch.model import Job, JobFault, Mount, Resources, Retry, Spec, Tracking
from muster.dispatch.secrets import Secret

_SAME = (
    "id", "type", "state", "reason", "name", "key", "project", "creator", "priority", "args", "timeout", "at",
    "labels", "attempt", "external_name", "external_id", "cluster_status", "progress", "message", "metrics",
    "result", "cancel_requested", "grace", "next_at", "created", "started", "ended", "changed", "version",
)  # fmt: skip


def to_row(job: Job) -> dict[str, Any]:
    """Returns the columns of a job. `folder` and `Retry.on` are not stored: they belong to the dispatcher's code."""
    row: dict[str, Any] = {name: getattr(job, name) for name in _SAME}
    row |= {name: storable(row[name]) for name in ("reason", "message", "cluster_status")}
    row["adapter"] = job.on
    row["after"], row["hosts"] = list(job.after), list(job.hosts)
    row["args"], row["labels"], row["metrics"] = dict(job.args), dict(job.labels), dict(job.metrics)
    row["resources"] = _without_defaults(job.resources, Resources())
    row["retry"] = _without_defaults(job.retry, Retry(), omit="on")
    row["fault"] = None if job.fault is None else storable(asdict(job.fault))
    row["tracking"] = _without_defaults(job.tracking, Tracking())
    return row


def storable(value: Any) -> Any:
    """Replaces NUL characters, which a container may print and PostgreSQL cannot store."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {name: storable(item) for name, item in value.items()}
    return [storable(item) for item in value] if isinstance(value, list | tuple) else value


def from_row(row: Mapping[str, Any]) -> Job:
    fault = row["fault"]
    tracking = dict(row["tracking"])
    if tracking.get("lost_since") is not None:
        tracking["lost_since"] = datetime.fromisoformat(tracking["lost_since"])
    return Job(
        **{name: row[name] for name in _SAME},
        on=row["adapter"],
        after=tuple(row["after"]),
        hosts=tuple(row["hosts"]),
        resources=Resources(**row["resources"]),
        retry=Retry(**row["retry"]),
        fault=None if fault is None else JobFault(**{**fault, "log_tail": tuple(fault.get("log_tail") or ())}),
        tracking=Tracking(**tracking),
    )


def _without_defaults(value: Any, default: Any, omit: str = "") -> dict[str, Any]:
    """Most jobs differ from the defaults in one or two fields, and every job is read often."""
    found: dict[str, Any] = {}
    for entry in fields(value):
        item = getattr(value, entry.name)
        if entry.name != omit and item != getattr(default, entry.name):
            found[entry.name] = _to_json(item)
    return found


def _to_json(item: Any) -> Any:
    if isinstance(item, datetime):
        return item.isoformat()
    return dict(item) if isinstance(item, Mapping) else item


_REFERENCE, _LITERAL = "$secret", "$literal"
_TIMES = ("at", "cancel_requested", "next_at", "created", "started", "ended", "changed")


def job_to_json(job: Job) -> dict[str, Any]:
    """Returns a job as JSON data, for another process."""
    row = to_row(job)
    return row | {name: row[name].isoformat() for name in _TIMES if row[name] is not None} | {"folder": job.folder}


def job_from_json(data: Mapping[str, Any]) -> Job:
    row = dict(data)
    folder = row.pop("folder", "")
    times = {name: datetime.fromisoformat(row[name]) for name in _TIMES if row[name] is not None}
    job = from_row(row | times)
    object.__setattr__(job, "folder", folder)
    return job


def spec_to_json(spec: Spec) -> dict[str, Any]:
    data = asdict(spec)
    data["env"] = {
        name: {"secret": value.reference} if isinstance(value, Secret) else str(value)
        for name, value in spec.env.items()
    }
    data["options"] = _pack(spec.options)
    return data


def spec_from_json(data: Mapping[str, Any]) -> Spec:
    env = {
        name: Secret(str(value["secret"])) if isinstance(value, dict) else str(value)
        for name, value in data["env"].items()
    }
    mounts = tuple(Mount(**mount) for mount in data["mounts"])
    return Spec(**{**data, "env": env, "mounts": mounts, "options": _unpack(data["options"])})


def _pack(value: Any) -> Any:
    """Options may hold secrets at any depth, such as the password of an image registry. They may also come from someone
    who must not have keys: only a `Secret` becomes a reference, never data that looks like one."""
    if isinstance(value, Secret):
        return {_REFERENCE: value.reference}
    if isinstance(value, Mapping):
        packed = {name: _pack(item) for name, item in value.items()}
        return {_LITERAL: packed} if packed.keys() in ({_REFERENCE}, {_LITERAL}) else packed
    return [_pack(item) for item in value] if isinstance(value, list | tuple) else value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_REFERENCE}:
            return Secret(str(value[_REFERENCE]))
        if value.keys() == {_LITERAL}:
            value = value[_LITERAL]
        return {name: _unpack(item) for name, item in value.items()}
    return [_unpack(item) for item in value] if isinstance(value, list) else value


def fault_from_json(data: Mapping[str, Any]) -> JobFault:
    """Reads a fault that a hook or a container wrote. Raises InvalidJob."""
    try:
        fault = JobFault(**{**data, "log_tail": tuple(data.get("log_tail") or ())})
    except TypeError as error:
        raise InvalidJob(f"that is not a fault: {error}") from None
    texts = (fault.code, fault.message, fault.hook, *fault.log_tail)
    if not all(isinstance(text, str) for text in texts) or fault.origin not in ("job", "dispatch"):
        raise InvalidJob("that is not a fault: code, message, hook and log_tail are texts, origin is job or dispatch")
    if not isinstance(fault.retryable, bool) or not isinstance(fault.exit_code, int | None):
        raise InvalidJob("that is not a fault: retryable is true or false, exit_code is a number")
    return fault
