"""The response documents of MLP Cooker: AIHC's descriptions of our jobs, Pods, events and queues. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from muster.dispatch.model import Job, State
from muster.kube.objects import Object, labels_of, name_of, spec_of, status_of
from muster.kube.quantity import QuantityError, parse_quantity
from muster.platform.errors import Problem
from muster.platform.resources.queues import QueueStatus

LOGIN_TOKEN: Final = "MLP Cooker login"  # noqa: S105 (a name, not a token)
"""The name of the tokens that its login creates."""
POOL: Final = "muster"
"""The id of this cluster among the resource pools."""

_STATUS: Final[Mapping[State, str]] = {
    "waiting": "Created",
    "starting": "Created",
    "restarting": "Restarting",
    "preparing": "Starting",
    "running": "Running",
    "submitting": "Running",
    "stopping": "Stopping",
    "cancelling": "Stopping",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "cancelled": "Stopped",
}
_POD_STATUS: Final = {"Pending": "Pending", "Running": "Running", "Succeeded": "Succeed", "Failed": "Failed"}
_PRIORITIES: Final = {"high": 10, "normal": 0, "low": -10}
_CORE_RESOURCES: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def success(data: Any, message: str = "ok") -> dict[str, Any]:
    return {"success": True, "message": message, "data": data}


def failure(message: str, **details: Any) -> dict[str, Any]:
    return {"success": False, "message": message, "details": details}


def failure_of(problem: Problem) -> dict[str, Any]:
    code = "AUTH_FAILED" if problem.status == 401 else problem.code or problem.type
    errors = [{"field": each.field, "message": each.message, "code": each.code} for each in problem.errors]
    more = {"errors": errors} if errors else {}
    return failure(problem.detail, code=code, status=problem.status, error=problem.detail, **more)


def status_of_job(job: Job) -> str:
    """AIHC's word. While AIHC holds the job, its own word is more exact, such as `Abnormal`."""
    if job.on == "aihc" and job.state in ("preparing", "running", "stopping") and job.cluster_status:
        return job.cluster_status
    return _STATUS[job.state]


def states_with_status(status: str) -> list[State]:
    """The states that AIHC shows as this status, for a filter."""
    wanted = {"queued": "created", "scheduled": "created", "manualtermination": "stopped"}.get(
        status.lower(), status.lower()
    )
    return [state for state, word in _STATUS.items() if word.lower() == wanted]


def priority_number(word: str) -> int:
    return _PRIORITIES[word]


def priority_word(number: int) -> str:
    return "high" if number > 0 else "low" if number < 0 else "normal"


def describe_job(job: Job, owner: str) -> dict[str, Any]:
    """A job as DescribeJob does, without its Pods."""
    task: Mapping[str, Any] = job.args.get("task") or {}
    return {
        "jobId": job.id,
        "name": job.name,
        "status": status_of_job(job),
        "reason": job.reason,
        "jobType": task.get("jobType", ""),
        "resourcePoolId": POOL if job.on != "aihc" else job.on,
        "queue": task.get("queue") or "",
        "command": task.get("command", ""),
        "jobSpec": task.get("jobSpec") or {},
        "datasources": task.get("datasources") or [],
        "labels": task.get("labels") or [],
        "priority": priority_word(job.priority),
        "owner": owner,
        "createdAt": _time(job.created),
        "startedAt": _time(job.started),
        "finishedAt": _time(job.ended),
    }


def describe_pod(pod: Object) -> dict[str, Any]:
    status = status_of(pod)
    containers: Sequence[Mapping[str, Any]] = status.get("containerStatuses") or ()
    phase = _POD_STATUS.get(str(status.get("phase") or "Pending"), "Unknown")
    if phase == "Pending" and spec_of(pod).get("nodeName"):
        phase = "Starting"
    reasons = [state.get("reason") for each in containers for state in (each.get("state") or {}).values()]
    return {
        "name": name_of(pod),
        "status": phase,
        "replicaType": labels_of(pod).get("training.kubeflow.org/replica-type", ""),
        "nodeName": spec_of(pod).get("nodeName") or "",
        "restartCount": sum(int(each.get("restartCount") or 0) for each in containers),
        "reason": str(status.get("reason") or next(filter(None, reasons), "")),
        "createdAt": str((pod.get("metadata") or {}).get("creationTimestamp") or ""),
    }


def describe_events(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Events with `time`, `type`, `reason`, `message` and `count`, the oldest first."""
    found = [
        {
            "type": each["type"],
            "reason": each["reason"],
            "message": each["message"],
            "lastTimestamp": each["time"] or "",
            "count": each["count"],
        }
        for each in sorted(events, key=lambda each: each["time"] or "")
    ]
    return {"events": found, "total": len(found)}


def describe_queue(queue: QueueStatus, children: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "queueId": queue.name,
        "queueName": queue.name,
        "queueType": "Regular",
        "resourcePoolId": POOL,
        "opened": queue.state == "Open",
        "parentQueue": queue.parent,
        "children": sorted(children),
        "reclaimable": queue.reclaimable,
        "capability": describe_amounts(queue.capability),
        "allocated": describe_amounts(queue.allocated),
        "runningJobs": queue.groups.get("running", 0),
        "pendingJobs": queue.groups.get("pending", 0) + queue.groups.get("inqueue", 0),
    }


def describe_queues(queues: Sequence[QueueStatus]) -> list[dict[str, Any]]:
    return [describe_queue(each, (other.name for other in queues if other.parent == each.name)) for each in queues]


def describe_pool(region: str, nodes: Sequence[Object]) -> dict[str, Any]:
    totals: dict[str, float] = {}
    for node in nodes:
        for name, amount in (status_of(node).get("allocatable") or {}).items():
            totals[name] = totals.get(name, 0.0) + _number(amount)
    return {
        "resourcePoolId": POOL,
        "name": POOL,
        "type": "common",
        "phase": "running",
        "region": region,
        "nodeCount": len(nodes),
        "capability": describe_amounts(totals),
    }


def describe_amounts(amounts: Mapping[str, Any]) -> dict[str, Any]:
    """In AIHC's units."""
    cards = [
        {"acceleratorType": name, "acceleratorCount": _plain(_number(amount))}
        for name, amount in sorted(amounts.items())
        if name not in _CORE_RESOURCES
    ]
    found: dict[str, Any] = {"acceleratorCardList": cards}
    if "cpu" in amounts:
        found["milliCPUcores"] = round(_number(amounts["cpu"]) * 1000)
    if "memory" in amounts:
        found["memoryGi"] = _plain(round(_number(amounts["memory"]) / 1024**3, 2))
    return found


def _number(amount: Any) -> float:
    try:
        return float(parse_quantity(amount) if isinstance(amount, str) else amount)
    except (QuantityError, ValueError, TypeError):
        return 0.0


def _plain(number: float) -> int | float:
    return int(number) if number.is_integer() else number


def _time(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""
