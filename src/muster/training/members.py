"""The members of a job as they are now: which Pod is which, which of them have to make room, and how they are doing."""

from __future__ import annotations

from collections.abc import Iterable

from muster.kube.objects import Object, annotations_of, is_deleting, labels_of, name_of, status_of
from muster.training.model import Count, Replica, TrainingJob
from muster.training.names import ATTEMPT, REPLICA_INDEX, REPLICA_TYPE
from muster.training.restarts import attempt_of, restarts_of, written


class Members:
    def __init__(self, job: TrainingJob, pods: Iterable[Object]) -> None:
        self._job = job
        self.restarts = restarts_of(job)
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
        """Of a member, or of them all. Answers what is to be written down; those of before are stale from now on."""
        self.restarts[name] = self.restarts.get(name, 0) + times
        return written(self.restarts)

    def attempt(self, replica: Replica) -> int:
        return attempt_of(self.restarts, replica)

    def present(self) -> dict[Replica, Object]:
        return {replica: pod for replica, pod in self.pods.items() if not self._is_stale(replica, pod)}

    def stale(self) -> list[Object]:
        """Those that are to make room: of an earlier attempt, or beyond what their role has now."""
        return [pod for replica, pod in self.pods.items() if self._is_stale(replica, pod)]

    def count(self, role: str) -> Count:
        by_index = {
            replica.index: phase_of(pod)
            for replica, pod in self.present().items()
            if replica.role == role
            and not (is_deleting(pod) and phase_of(pod) == "Failed")  # ended because somebody deletes it
        }
        phases = list(by_index.values())
        running = phases.count("Running")
        return Count(
            active=running + phases.count("Pending"),
            running=running,
            succeeded=phases.count("Succeeded"),
            failed=phases.count("Failed"),
            done=frozenset(index for index, phase in by_index.items() if phase == "Succeeded"),
        )

    def _is_stale(self, replica: Replica, pod: Object) -> bool:
        if replica.index >= self._job.count(replica.role):
            return True
        return int(annotations_of(pod).get(ATTEMPT, "0")) < self.attempt(replica)


def replica_of(job: TrainingJob, pod: Object) -> Replica | None:
    """Which member a Pod is; None for one whose role the job no longer has. Pods that paddle-operator made have none of
    the labels, but the same names."""
    labels = labels_of(pod)
    role_in_name, _, index_in_name = name_of(pod).removeprefix(f"{job.name}-").rpartition("-")
    written = labels.get(REPLICA_TYPE, role_in_name)
    role = next((role.name for role in job.roles if role.name.lower() == written), None)
    index = labels.get(REPLICA_INDEX, index_in_name)
    return Replica(role, int(index)) if role is not None and index.isdigit() else None


def phase_of(pod: Object) -> str:
    return str(status_of(pod).get("phase") or "Pending")
