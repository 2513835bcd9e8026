"""The replicas of a job as they are: which Pod is which replica, how it ended, and how often it was restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from muster.kube.objects import Object, annotations_of, is_deleting, labels_of, meta, name_of, parse_time, status_of
from muster.training.model import ATTEMPT_ANNOTATION, REPLICA_INDEX, REPLICA_TYPE, Replica, ReplicaCount, TrainingJob


class Replicas:
    def __init__(self, job: TrainingJob, pods: Iterable[Object]) -> None:
        self._job = job
        self.restarts = read_restarts(job)
        self.pods: dict[Replica, Object] = {}
        self.strays: list[Object] = []
        """Pods of roles that the job no longer has."""
        for pod in pods:
            replica = replica_of(job, pod)
            if replica is None:
                self.strays.append(pod)
            else:
                self.pods[replica] = pod

    def count_restart(self, name: str, times: int = 1) -> str:
        """Counts restarts of one replica, or of the whole gang. Returns the annotation's new value. Pods of earlier
        attempts are stale from now on."""
        self.restarts[name] = self.restarts.get(name, 0) + times
        return format_restarts(self.restarts)

    def attempt(self, replica: Replica) -> int:
        return attempt_of(self.restarts, replica)

    def present(self) -> dict[Replica, Object]:
        return {replica: pod for replica, pod in self.pods.items() if not self._is_stale(replica, pod)}

    def stale(self) -> list[Object]:
        """The Pods to be replaced: of an earlier attempt, or beyond the role's replicas."""
        return [pod for replica, pod in self.pods.items() if self._is_stale(replica, pod)]

    def count(self, role: str) -> ReplicaCount:
        by_index = {
            replica.index: phase_of(pod)
            for replica, pod in self.present().items()
            if replica.role == role and not (is_deleting(pod) and phase_of(pod) == "Failed")  # ended by its deletion
        }
        phases = list(by_index.values())
        running = phases.count("Running")
        return ReplicaCount(
            active=running + phases.count("Pending"),
            running=running,
            succeeded=phases.count("Succeeded"),
            failed=phases.count("Failed"),
            done=frozenset(index for index, phase in by_index.items() if phase == "Succeeded"),
        )

    def _is_stale(self, replica: Replica, pod: Object) -> bool:
        if replica.index >= self._job.count(replica.role):
            return True
        said = annotations_of(pod).get(ATTEMPT_ANNOTATION, "0")
        return (int(said) if said.isdecimal() and len(said) < _MOST_DIGITS else 0) < self.attempt(replica)


def replica_of(job: TrainingJob, pod: Object) -> Replica | None:
    """Returns which replica a Pod is; None if the job no longer has its role. Pods created by paddle-operator lack the
    labels, but have the same names."""
    labels = labels_of(pod)
    role_in_name, _, index_in_name = name_of(pod).removeprefix(f"{job.name}-").rpartition("-")
    written = labels.get(REPLICA_TYPE, role_in_name)
    role = next((role.name for role in job.roles if role.name.lower() == written), None)
    index = labels.get(REPLICA_INDEX, index_in_name)
    return Replica(role, int(index)) if role is not None and index.isdigit() else None


def phase_of(pod: Object) -> str:
    return str(status_of(pod).get("phase") or "Pending")


class _ContainerEnd(NamedTuple):
    container: str
    terminated: Mapping[str, Any]

    @property
    def code(self) -> int:
        return int(self.terminated.get("exitCode") or 0)


def find_exit_code(pod: Object, trainer: str) -> int | None:
    """Returns the exit code of the container that made the Pod fail; None if there is none, as after an eviction."""
    culprit = _failed_container(pod, trainer)
    return culprit.code if culprit is not None else None


def find_end_time(pod: Object) -> datetime | None:
    """Returns when the last container ended, or for a Pod that never had one, when it was created."""
    moments = [end.terminated["finishedAt"] for end in _container_ends(pod) if end.terminated.get("finishedAt")]
    made = meta(pod).get("creationTimestamp")
    return max(map(parse_time, moments or ([made] if made else [])), default=None)


def describe_failure(pod: Object, trainer: str) -> str:
    """Returns one line; '' if the Pod gives no reason."""
    culprit = _failed_container(pod, trainer)
    if culprit is None:
        reason = ": ".join(status_of(pod)[key] for key in ("reason", "message") if status_of(pod).get(key))
        return f"Pod {name_of(pod)}: {reason}" if reason else ""
    reason = f" ({culprit.terminated['reason']})" if culprit.terminated.get("reason") else ""
    said = f": {culprit.terminated['message'].strip()}" if culprit.terminated.get("message") else ""
    return f"Pod {name_of(pod)}, container {culprit.container}: exit code {culprit.code}{reason}{said}"


def _failed_container(pod: Object, trainer: str) -> _ContainerEnd | None:
    """Returns the training container if it failed, otherwise the first other container that did."""
    bad = [end for end in _container_ends(pod) if end.code]
    return next((end for end in bad if end.container == trainer), bad[0] if bad else None)


def _container_ends(pod: Object) -> Iterator[_ContainerEnd]:
    status = status_of(pod)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        ended = (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended:
            yield _ContainerEnd(container["name"], ended)


RESTARTS_ANNOTATION = "muster.dev/restarts"
"""Annotation on a job: how often each replica (or the whole `gang`) was restarted, and the job `resumed`."""

GANG = "gang"
RESUMED = "resumed"
_MAX_BACKOFF_SECONDS = 300.0
_MOST_DIGITS = 9


def read_restarts(job: TrainingJob) -> dict[str, int]:
    """A value that is not ours counts as none."""
    text = annotations_of(job.object).get(RESTARTS_ANNOTATION)
    try:
        found = orjson.loads(text) if text else {}
    except (orjson.JSONDecodeError, RecursionError):
        return {}
    counts = found.items() if isinstance(found, dict) else ()
    return {name: count for name, count in counts if type(count) is int and 0 <= count < 10**_MOST_DIGITS}


def format_restarts(restarts: Mapping[str, int]) -> str:
    return orjson.dumps(restarts).decode()


def count_failures(restarts: Mapping[str, int]) -> int:
    """Counts the restarts that count towards backoffLimit; resuming is not a failure."""
    return sum(number for name, number in restarts.items() if name != RESUMED)


def attempt_of(restarts: Mapping[str, int], replica: Replica) -> int:
    """Returns the number of the replica's current attempt, starting at 0."""
    return sum(restarts.get(name, 0) for name in (replica.suffix, GANG, RESUMED))


def gang_attempt(job: TrainingJob) -> int:
    """Counts how often all replicas were restarted together; then they may meet at another address."""
    restarts = read_restarts(job)
    return restarts.get(GANG, 0) + restarts.get(RESUMED, 0)


def backoff_left(attempt: int, ended: datetime | None, now: datetime) -> float:
    """Returns the seconds until a failed replica may restart. The delay doubles with every attempt, as a node's does
    for containers."""
    if attempt == 0 or ended is None:
        return 0.0
    pause = min(2.0 ** min(attempt - 1, 30), _MAX_BACKOFF_SECONDS)
    return pause - (now - ended).total_seconds()


def count_container_restarts(pod: Object) -> int:
    """Counts the restarts that the node did in place, of init containers, too."""
    return sum(container.get("restartCount", 0) for container in _container_statuses(pod))


def count_pending_restarts(pod: Object) -> int:
    """Counts the containers that have failed and that the node is about to start again."""
    waiting = ((container.get("state") or {}).get("waiting") or {} for container in _container_statuses(pod))
    return sum(1 for state in waiting if state.get("reason") == "CrashLoopBackOff")


def _container_statuses(pod: Object) -> Iterator[Mapping[str, Any]]:
    for field in ("initContainerStatuses", "containerStatuses"):
        yield from status_of(pod).get(field) or ()
