"""Is a piece of work done, and how did it end? Answered from an object alone, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.kube.objects import spec_of, split_api_version, status_of

_SUCCEEDED = frozenset({"succeeded", "succeed", "complete", "completed"})
_FAILED = frozenset({"failed", "error", "aborted", "terminated"})
_WORK_SUFFIXES = ("Job", "JobSet", "Workflow", "Run")
_SERVICES = frozenset({
    "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "CronJob", "CronWorkflow", "Notebook", "Tensorboard",
})  # fmt: skip


class Outcome(NamedTuple):
    succeeded: bool
    reason: str = ""
    message: str = ""


def is_work(obj: Mapping[str, Any]) -> bool:
    """Whether the object ends by itself one day. Everything else (ConfigMap, PVC, Service, PodGroup, a Pod that is
    restarted for ever) only supports the work."""
    kind = str(obj.get("kind") or "")
    if kind == "Pod" and obj.get("apiVersion") == "v1":
        return bool(spec_of(obj).get("restartPolicy", "Always") != "Always")
    group, _ = split_api_version(str(obj.get("apiVersion") or ""))
    return bool(group) and kind.endswith(_WORK_SUFFIXES) and not kind.startswith("Cron")


def is_done(obj: Mapping[str, Any]) -> Outcome | None:
    """None while it is under way, or if it is not work at all."""
    if not is_work(obj):
        return None
    status = status_of(obj)
    # The phase goes first: a Workflow that failed has the condition Completed as well.
    return _by_phase(status) or _by_conditions(status)


def runs_on(obj: Mapping[str, Any]) -> bool:
    """Whether it runs until somebody stops it, and so is worth staying for although it never ends."""
    kind = str(obj.get("kind") or "")
    if kind == "Pod":
        return not is_work(obj)
    return kind in _SERVICES


def _by_phase(status: Mapping[str, Any]) -> Outcome | None:
    state = status.get("state")
    holder = state if isinstance(state, Mapping) and "phase" in state else status
    phase = str(holder.get("phase") or "")
    reason, message = str(holder.get("reason") or ""), str(holder.get("message") or "")
    if phase.lower() in _SUCCEEDED:
        return Outcome(True, reason or phase, message)
    if phase.lower() in _FAILED:
        return Outcome(False, reason or phase, message)
    return None


def _by_conditions(status: Mapping[str, Any]) -> Outcome | None:
    true = [c for c in status.get("conditions") or () if c.get("status") == "True"]
    for names, succeeded in ((_FAILED, False), (_SUCCEEDED, True)):
        for condition in true:
            kind = str(condition.get("type") or "")
            if kind.lower() in names:
                return Outcome(succeeded, str(condition.get("reason") or kind), str(condition.get("message") or ""))
    return None
