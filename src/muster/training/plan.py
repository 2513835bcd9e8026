"""Decides what to do next about a training job: a pure function of the job, its objects, and the time.

Level-triggered: no state is kept between calls. What must be remembered (how often a replica was restarted) is an
annotation on the job. It is written before the replica is deleted, so a crash in between loses no count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from muster.kube.objects import (
    Object,
    annotations_of,
    controller_of,
    is_deleting,
    name_of,
    parse_time,
    spec_of,
    status_of,
    timestamp,
)
from muster.training.children import build_peer_directory, build_replica_pod, build_replica_service
from muster.training.gang import (
    GangSettings,
    gang_membership,
    is_admitted,
    needs_update,
    pod_group,
    seconds_to_wait_for_group,
    wants_gang,
)
from muster.training.kinds.base import JobKind
from muster.training.model import (
    Addresses,
    CleanPodPolicy,
    JobOutcome,
    ObservedObjects,
    Progress,
    Replica,
    ReplicaCount,
    State,
    TrainingJob,
    replica_name,
)
from muster.training.replicas import (
    RESTARTS_ANNOTATION,
    RESUMED,
    Replicas,
    backoff_left,
    count_container_restarts,
    count_failures,
    count_pending_restarts,
    describe_failure,
    find_end_time,
    find_exit_code,
    phase_of,
)

EXCEEDED_ANNOTATION = "muster.dev/limit-exceeded"
"""Annotation on a job: which limit it exceeded. All of its Pods are deleted then, whatever cleanPodPolicy says: a limit
that leaves a crash loop on its GPUs limits nothing. It is an annotation because the condition keeps the reason that
training-operator's users know, and the Pods must be deleted even if we crash in between."""


@dataclass(slots=True)
class Plan:
    progress: Progress
    counts: Mapping[str, ReplicaCount]
    annotations: dict[str, str] = field(default_factory=dict)
    """Written to the job before anything else is done."""
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    events: list[tuple[Literal["Normal", "Warning"], str, str]] = field(default_factory=list)
    restarting: bool = False
    """Failed replicas are being restarted."""
    expired: bool = False
    """ttlSecondsAfterFinished has passed: delete the job itself."""
    again: float | None = None

    def wait(self, seconds: float) -> None:
        self.again = seconds if self.again is None else min(self.again, seconds)


def plan(
    job_kind: JobKind,
    job: TrainingJob,
    progress: Progress,
    observed: ObservedObjects,
    addresses: Addresses,
    now: datetime,
    gang: GangSettings = GangSettings(),  # noqa: B008 (frozen)
) -> Plan:
    return _Planner(job_kind, job, progress, observed, addresses, now, gang).plan()


class _Planner:
    def __init__(
        self,
        job_kind: JobKind,
        job: TrainingJob,
        progress: Progress,
        observed: ObservedObjects,
        addresses: Addresses,
        now: datetime,
        gang: GangSettings,
    ) -> None:
        self.job_kind = job_kind
        self.job = job
        self.observed = observed
        self.addresses = addresses
        self.now = now
        self.gang = gang
        self.replicas = Replicas(job, observed.pods)
        self.counts = {role.name: self.replicas.count(role.name) for role in job.roles}
        self.result = Plan(progress, self.counts)

    def plan(self) -> Plan:
        progress = self.result.progress
        if is_deleting(self.job.object):
            return self.result
        if progress.finished:
            self._clean_up()
        elif self.job.policy.suspend:
            self._suspend()
        else:
            self._continue()
        return self.result

    # The three states of a job that is not being deleted.

    def _clean_up(self) -> None:
        progress = self.result.progress
        policy = self.job.policy
        clean = policy.clean_on_success if progress.has("Succeeded") else policy.clean_on_failure
        if EXCEEDED_ANNOTATION in {**annotations_of(self.job.object), **self.result.annotations}:
            clean = "All"
        self.result.delete += self._objects_to_clean(clean)
        if self._owns_group():
            self._delete(self.observed.group)
        if policy.ttl_seconds is not None and progress.completion is not None:
            over = parse_time(progress.completion) + timedelta(seconds=policy.ttl_seconds)
            left = (over - self.now).total_seconds()
            if left <= 0:
                self.result.expired = True
            else:
                self.result.wait(left)

    def _suspend(self) -> None:
        if self.replicas.present():
            self._count_restart(RESUMED)
        for thing in (*self.observed.pods, *self.observed.services):
            self._delete(thing)
        if self._owns_group():
            self._delete(self.observed.group)
        kind, name = self.job.kind, self.job.name
        self._set_condition("Created", f"{kind} {name} is created.")
        if self.result.progress.has("Running"):
            self._set_condition("Running", f"{kind} {name} is suspended.", status=False, reason=f"{kind}Suspended")
        self._set_condition("Suspended", f"{kind} {name} is suspended.")
        self.result.progress = replace(self.result.progress, start=None)

    def _continue(self) -> None:
        kind, name = self.job.kind, self.job.name
        self._set_condition("Created", f"{kind} {name} is created.")
        if self.result.progress.has("Suspended"):
            self._set_condition("Suspended", f"{kind} {name} is resumed.", status=False, reason=f"{kind}Resumed")
        if self.result.progress.start is None:
            self.result.progress = replace(self.result.progress, start=timestamp(self.now))
        outcome = self._outcome()
        if outcome is not None:
            self._finish(outcome)
            return
        if not self.result.restarting and self.job_kind.is_running(self.job, self.counts):
            self._set_condition("Running", f"{kind} {self.job.namespace}/{name} is running.")
        self._create_missing()

    # What ends a job.

    def _outcome(self) -> JobOutcome | None:
        """Returns the job's outcome if it is over. Otherwise schedules the restarts that are due."""
        outcome = self.job_kind.outcome(self.job, self.counts)
        if outcome is not None:
            return outcome
        return self._check_deadline() or self._handle_failures() or self._check_backoff_limit()

    def _check_deadline(self) -> JobOutcome | None:
        seconds = self.job.policy.deadline_seconds
        if seconds is None or self.result.progress.start is None:
            return None
        left = seconds - (self.now - parse_time(self.result.progress.start)).total_seconds()
        if left > 0:
            self.result.wait(left)
            return None
        why = f"{self.job.kind} {self.job.name} has failed because it was active longer than specified deadline"
        return JobOutcome(False, why, "DeadlineExceeded")

    def _handle_failures(self) -> JobOutcome | None:
        failed = {
            replica: pod
            for replica, pod in self.replicas.present().items()
            if phase_of(pod) == "Failed" and not is_deleting(pod)
        }
        for replica, pod in failed.items():
            if not self._may_restart(replica, pod):
                number = self.counts[replica.role].failed
                why = f"{self.job.kind} {self.job.name} is failed because {number} {replica.role} replica(s) failed."
                return JobOutcome(False, f"{why} {self._describe_failure(pod)}".strip())
        if not failed:
            return None
        limit = self.job.policy.backoff_limit
        gang = self.job.restart_scope == "gang"
        if limit is not None and self._count_restarts() + (1 if gang else len(failed)) > limit:
            return self._backoff_exceeded(limit, failed.values())
        pauses = {
            replica: backoff_left(self.replicas.attempt(replica), find_end_time(pod), self.now)
            for replica, pod in failed.items()
        }
        due = [replica for replica, pause in pauses.items() if pause <= 0]
        for pause in pauses.values():
            if pause > 0:
                self.result.wait(pause)
        if due:
            self._restart(due, gang=gang)
        return None

    def _restart(self, members: Sequence[Replica], *, gang: bool) -> None:
        if gang:
            self._count_restart("gang")
        else:
            for replica in members:
                # The restarts that the node did in place are lost with the Pod, but still count.
                self._count_restart(replica.suffix, 1 + count_container_restarts(self.replicas.pods[replica]))
        self.result.restarting = True
        roles = " ".join(dict.fromkeys(replica.role for replica in members))
        what = "the whole gang" if gang else ", ".join(replica.suffix for replica in members)
        causes = "; ".join(self._describe_failure(self.replicas.pods[replica]) for replica in members)
        self._set_condition(
            "Restarting", f"{self.job.kind} {self.job.name} is restarting because {roles} replica(s) failed."
        )
        message = f"restarting {what}" + (f" after {causes}" if causes else "")
        self.result.events.append(("Warning", f"{self.job.kind}Restarting", message))

    def _check_backoff_limit(self) -> JobOutcome | None:
        limit = self.job.policy.backoff_limit
        if limit is None:
            return None
        # A container that waits for a restart beyond the limit need not get it: the job has failed already.
        pending = sum(count_pending_restarts(pod) for pod in self.replicas.present().values())
        if self._count_restarts() + pending <= limit:
            return None
        culprits = [p for p in self.replicas.pods.values() if count_container_restarts(p) or count_pending_restarts(p)]
        return self._backoff_exceeded(limit, culprits)

    def _count_restarts(self) -> int:
        """Counts our restarts, and those that the node did in place."""
        in_place = sum(count_container_restarts(pod) for pod in self.replicas.present().values())
        return count_failures(self.replicas.restarts) + in_place

    def _backoff_exceeded(self, limit: int, culprits: Iterable[Object]) -> JobOutcome:
        why = f"{self.job.kind} {self.job.name} has failed because it has reached the specified backoff limit ({limit})"
        causes = "; ".join(filter(None, (self._describe_failure(pod) for pod in culprits)))
        return JobOutcome(False, f"{why}. {causes}" if causes else why, "BackoffLimitExceeded")

    def _count_restart(self, name: str, times: int = 1) -> None:
        self.result.annotations[RESTARTS_ANNOTATION] = self.replicas.count_restart(name, times)

    def _finish(self, outcome: JobOutcome) -> None:
        kind, name = self.job.kind, self.job.name
        state: State = "Succeeded" if outcome.succeeded else "Failed"
        message = outcome.message or (
            f"{kind} {self.job.namespace}/{name} successfully completed."
            if outcome.succeeded
            else f"{kind} {name} has failed."
        )
        self._set_condition(state, message, event=outcome.reason and f"{kind}{outcome.reason}")
        if outcome.reason in _LIMITS:
            self.result.annotations[EXCEEDED_ANNOTATION] = outcome.reason
        self.result.progress = replace(self.result.progress, completion=timestamp(self.now))
        self._clean_up()

    # What a running job needs.

    def _create_missing(self) -> None:
        leaving = self.replicas.stale()
        for pod in (*leaving, *self.replicas.strays):
            self._delete(pod)
        if leaving and self.job.restart_scope == "gang":
            return  # the whole old gang must be gone before the new one is created
        as_gang = wants_gang(self.job, self.gang)
        if as_gang:
            self._ensure_pod_group()
        self._ensure_companions()
        self._ensure_peer_directory()
        if as_gang and not is_admitted(self._group(), self.gang.scheduler):
            return
        member = gang_membership(self.job, self.gang.scheduler, self.gang.name) if as_gang else None
        listeners = {replica_name(self.job, replica): replica for replica in self.job_kind.listeners(self.job)}
        services = {name_of(service): service for service in self.observed.services}
        self.result.create += [
            build_replica_service(self.job_kind, self.job, replica)
            for name, replica in listeners.items()
            if name not in services
        ]
        for name, service in services.items():
            if name not in listeners:
                self._delete(service)
        self.result.create += [
            build_replica_pod(
                self.job_kind,
                self.job,
                replica,
                self.addresses,
                attempt=self.replicas.attempt(replica),
                membership=member,
            )
            for replica in self.job.replicas()
            if replica not in self.replicas.pods and not self.job_kind.must_wait(self.job, replica, self.counts)
        ]

    def _ensure_pod_group(self) -> None:
        group = self._group()
        wanted = pod_group(self.job, self.gang.scheduler, late=self.job_kind.count_late_replicas(self.job))
        if group is None and (left := seconds_to_wait_for_group(self.job, self.gang, self.now)) > 0:
            self.result.wait(left)
        elif group is None:
            self.result.create.append(wanted)
        elif self._owns_group() and needs_update(group, wanted):
            self.result.update.append({**group, "spec": {**spec_of(group), **wanted["spec"]}})

    def _ensure_companions(self) -> None:
        there = {(c["kind"], name_of(c)): c for c in self.observed.companions}
        for wanted in self.job_kind.companions(self.job, self.addresses):
            found = there.get((wanted["kind"], name_of(wanted)))
            content: Object = {
                key: wanted[key] for key in ("data", "rules") if key in wanted
            }  # the parts that follow the job's size
            if found is None:
                self.result.create.append(wanted)
            elif any(found.get(key) != value for key, value in content.items()):
                self.result.update.append({**found, **content})

    def _ensure_peer_directory(self) -> None:
        """The directory is published only when it is complete, because a starting replica relies on it. It is removed
        before a replica is recreated, and published again once that replica has an address."""
        present = self.replicas.present()
        places = {replica: str(ip) for replica, pod in present.items() if (ip := status_of(pod).get("podIP"))}
        wanted = self.job_kind.peer_directory(self.job, self.addresses, places)
        ended = [replica for replica, pod in present.items() if phase_of(pod) == "Succeeded"]
        if wanted is None or any(replica not in places for replica in ended):
            return  # an ended replica may have lost its address
        there = (c for c in self.observed.companions if (c["kind"], name_of(c)) == ("ConfigMap", wanted.name))
        found = next(there, None)
        if wanted.content is None:
            self._delete(found)
        elif found is None:
            self.result.create.append(build_peer_directory(self.job, wanted))
        elif found.get("data") != wanted.content:
            self.result.update.append({**found, "data": dict(wanted.content)})

    def _objects_to_clean(self, clean: CleanPodPolicy) -> list[Object]:
        if clean == "None":
            return []
        pods = [pod for pod in self.observed.pods if clean == "All" or phase_of(pod) in ("Running", "Pending")]
        names = {name_of(pod) for pod in pods}
        services = [s for s in self.observed.services if clean == "All" or name_of(s) in names]
        return [thing for thing in (*pods, *services) if not is_deleting(thing)]

    # Small queries.

    def _may_restart(self, replica: Replica, pod: Object) -> bool:
        role = self.job.role(replica.role)
        assert role is not None
        if role.restart == "ExitCode":
            code = find_exit_code(pod, self._training_container_name(pod))
            return code is None or code >= 128
        return self.job.restart_scope == "gang" or role.restart in ("Always", "OnFailure")

    def _training_container_name(self, pod: Object) -> str:
        return str(self.job_kind.training_container(pod["spec"])["name"])

    def _describe_failure(self, pod: Object) -> str:
        return describe_failure(pod, self._training_container_name(pod))

    def _group(self) -> Object | None:
        """Returns our PodGroup or one that the user created, but not that of another job with the same name."""
        group = self.observed.group
        owner = controller_of(group) if group is not None else None
        return group if owner is None or owner.get("uid") == self.job.uid else None

    def _owns_group(self) -> bool:
        group = self.observed.group
        owner = controller_of(group) if group is not None else None
        return owner is not None and owner.get("uid") == self.job.uid

    def _set_condition(
        self, state: State, message: str, *, status: bool = True, reason: str = "", event: str = ""
    ) -> None:
        before = self.result.progress
        after = before.with_condition(self.job.kind, state, message, self.now, status=status, reason=reason)
        if after is before:
            return
        self.result.progress = after
        severity: Literal["Normal", "Warning"] = "Warning" if state == "Failed" else "Normal"
        if state not in _STATES_WITHOUT_EVENT:
            self.result.events.append((severity, event or reason or f"{self.job.kind}{state}", message))

    def _delete(self, thing: Object | None) -> None:
        if thing is not None and not is_deleting(thing):
            self.result.delete.append(thing)


_LIMITS = ("DeadlineExceeded", "BackoffLimitExceeded")
"""Reasons of an outcome that say that the job used up what it was allowed."""

_STATES_WITHOUT_EVENT = ("Created", "Restarting")
"""States without an event of their own: creation is no news, and the restart's event has more detail."""
