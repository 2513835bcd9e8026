"""The batch/v1 Job controller.

`plan_job` is pure: given a Job and its Pods, it returns what to create, what to delete and the new status.
`JobController` carries the plan out.

Every Pod is counted exactly once, even if it is deleted right after it ends: each has a finalizer that is removed only
after the Pod's uid is in `status.uncountedTerminatedPods`, and the Pod is counted only after the finalizer is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

from muster.kube.builtin import JOB, POD
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller, Informer, index_by_controller
from muster.kube.errors import Conflict, Forbidden, NotFound
from muster.kube.events import EventRecorder
from muster.kube.objects import (
    ConditionStatus,
    Key,
    Object,
    annotations_of,
    controller_of,
    get_condition,
    is_condition_true,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    owners_of,
    parse_time,
    set_condition,
    spec_of,
    status_of,
    timestamp,
    uid_of,
)
from muster.kube.selectors import label_selector_from

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
NAME_LABEL = "batch.kubernetes.io/job-name"
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
FIRST_BACKOFF = 10.0
LAST_BACKOFF = 360.0

JobOutcome: TypeAlias = tuple[str, str, str]
"""(Complete or Failed, reason, message)."""

FailureAction: TypeAlias = Literal["FailJob", "FailIndex", "Ignore", "Count"]


@dataclass(slots=True)
class JobPlan:
    status: Object
    create: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    release: list[Object] = field(default_factory=list)
    """Pods whose tracking finalizer is removed after the status is stored."""
    events: list[tuple[Literal["Normal", "Warning"], str, str]] = field(default_factory=list)
    requeue_after: float | None = None
    """Seconds until the Job must be planned again."""


def is_finished(job: Object) -> bool:
    conditions = status_of(job).get("conditions") or []
    return is_condition_true(conditions, "Complete") or is_condition_true(conditions, "Failed")


def plan_job(job: Object, pods: Sequence[Object], now: datetime) -> JobPlan:
    return _Planner(job, pods, now).plan()


def seconds_until_expiry(job: Object, now: datetime) -> float | None:
    """Returns the seconds until ttlSecondsAfterFinished is over, or None if it never is."""
    ttl = spec_of(job).get("ttlSecondsAfterFinished")
    if ttl is None or not is_finished(job):
        return None
    ended = max(
        parse_time(c["lastTransitionTime"])
        for c in status_of(job)["conditions"]
        if c["type"] in ("Complete", "Failed") and c["status"] == "True"
    )
    return max(0.0, (ended + timedelta(seconds=ttl) - now).total_seconds())


class _Planner:
    def __init__(self, job: Object, pods: Sequence[Object], now: datetime) -> None:
        self.job = job
        self.spec = spec_of(job)
        self.now = now
        self.pods = pods
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.completions: int | None = self.spec.get("completions")
        self.parallelism = int(self.spec.get("parallelism", 1))
        old = status_of(job)
        self.conditions: list[Object] = list(old.get("conditions") or [])
        self.succeeded = int(old.get("succeeded", 0))
        self.failed = int(old.get("failed", 0))
        uncounted = old.get("uncountedTerminatedPods") or {}
        self.uncounted = {k: list(uncounted.get(k) or ()) for k in ("succeeded", "failed")}
        self.completed = parse_indexes(old.get("completedIndexes") or "")
        self.failed_indexes = parse_indexes(old.get("failedIndexes") or "")
        self.start = old.get("startTime")
        self.completion_time = old.get("completionTime")
        self.result = JobPlan(status={})

    def plan(self) -> JobPlan:
        finished = is_finished(self.job)
        suspended = bool(self.spec.get("suspend"))
        outcome = self._count(ignore_deletions=finished or suspended)
        active = [p for p in self.pods if _is_active(p)]
        if is_deleting(self.job):
            pass  # The garbage collector deletes its Pods, or cuts them loose.
        elif finished:
            self.result.delete += active
        else:
            self._suspend_or_start(suspended, active)
            outcome = self._pending_outcome() or outcome or self._outcome(len(active))
            if outcome is not None:
                self._finish(outcome, active)
            elif not suspended:
                self._balance(active)
        self._write_status(active)
        return self.result

    def _count(self, *, ignore_deletions: bool) -> JobOutcome | None:
        """Adds Pods that ended to the counts, in two steps so that none is counted twice or missed."""
        here = {uid_of(p): p for p in self.pods}
        for result in ("succeeded", "failed"):
            still = []
            for uid in self.uncounted[result]:
                if uid in here and TRACKING_FINALIZER in (meta(here[uid]).get("finalizers") or ()):
                    still.append(uid)
                    self.result.release.append(here[uid])
                elif result == "succeeded":
                    self.succeeded += 1
                else:
                    self.failed += 1
            self.uncounted[result] = still
        seen = {*self.uncounted["succeeded"], *self.uncounted["failed"]}
        outcome: JobOutcome | None = None
        for pod in self.pods:
            if uid_of(pod) in seen or TRACKING_FINALIZER not in (meta(pod).get("finalizers") or ()):
                continue
            phase = status_of(pod).get("phase")
            index = _index_of(pod)
            if phase == "Succeeded":
                if self.indexed and index is not None:
                    if index in self.completed:
                        self.result.release.append(pod)
                        continue
                    self.completed.add(index)
                self.uncounted["succeeded"].append(uid_of(pod))
            elif phase == "Failed":
                action, why = _failure_action(self.spec, pod)
                if action == "FailJob" and outcome is None:
                    outcome = ("Failed", "PodFailurePolicy", why)
                if action == "FailIndex" and index is not None:
                    self.failed_indexes.add(index)
                if action == "Ignore":
                    self.result.release.append(pod)
                    continue
                self.uncounted["failed"].append(uid_of(pod))
            elif is_deleting(pod) and not spec_of(pod).get("nodeName"):
                # It never ran, and no node will report its end.
                if not ignore_deletions:
                    self.uncounted["failed"].append(uid_of(pod))
                self.result.release.append(pod)
                continue
            else:
                continue
            self.result.release.append(pod)
        if self.indexed and self.spec.get("backoffLimitPerIndex") is not None:
            self._fail_exhausted_indexes()
        return outcome

    def _fail_exhausted_indexes(self) -> None:
        limit = int(self.spec["backoffLimitPerIndex"])
        for pod in self.pods:
            index = _index_of(pod)
            if index is not None and status_of(pod).get("phase") == "Failed" and index not in self.completed:
                attempts = int(annotations_of(pod).get("batch.kubernetes.io/job-index-failure-count", "0"))
                if attempts >= limit:
                    self.failed_indexes.add(index)

    def _suspend_or_start(self, suspended: bool, active: list[Object]) -> None:
        was = is_condition_true(self.conditions, "Suspended")
        if suspended:
            self.result.delete += active
            self.start = None
            if not was:
                self._condition("Suspended", "True", "JobSuspended", "Job suspended")
                self.result.events.append(("Normal", "Suspended", "Job suspended"))
            return
        if was:
            self._condition("Suspended", "False", "JobResumed", "Job resumed")
            self.result.events.append(("Normal", "Resumed", "Job resumed"))
        if self.start is None:
            self.start = timestamp(self.now)

    def _outcome(self, active: int) -> JobOutcome | None:
        """Returns the outcome if nothing more has to run."""
        failures = self.failed + len(self.uncounted["failed"])
        successes = len(self.completed) if self.indexed else self.succeeded + len(self.uncounted["succeeded"])
        limit = self.spec.get("backoffLimit")
        if limit is None:
            limit = 2**31 if self.spec.get("backoffLimitPerIndex") is not None else 6
        restarts = sum(_restarts(p) for p in self.pods) if _restarts_in_place(self.spec) else 0
        if failures > limit or restarts >= max(limit, 1):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline = self.spec.get("activeDeadlineSeconds")
        if deadline is not None and self.start is not None:
            left = deadline - (self.now - parse_time(self.start)).total_seconds()
            if left <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self._requeue_after(left)
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self.failed_indexes) > most:
            return (
                "Failed",
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        if self._success_policy_met():
            return "Complete", "SuccessPolicy", "Matched rules at index 0"
        if self.completions is None:
            done = successes > 0 and active == 0
            return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods") if done else None
        if self.indexed and self.failed_indexes and successes + len(self.failed_indexes) >= self.completions:
            return "Failed", "FailedIndexes", "Job has failed indexes"
        if successes >= self.completions:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _success_policy_met(self) -> bool:
        for rule in (self.spec.get("successPolicy") or {}).get("rules") or ():
            wanted = parse_indexes(rule["succeededIndexes"]) if "succeededIndexes" in rule else None
            done = self.completed if wanted is None else self.completed & wanted
            need = rule.get("succeededCount", len(wanted) if wanted is not None else None)
            if need is not None and len(done) >= need:
                return True
        return False

    def _pending_outcome(self) -> JobOutcome | None:
        """Returns the outcome that was plan earlier and waits for the last Pods to end."""
        for target, condition in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
            found = get_condition(self.conditions, target)
            if found is not None and found["status"] == "True":
                return condition, found["reason"], found.get("message", "")
        return None

    def _finish(self, outcome: JobOutcome, active: list[Object]) -> None:
        """As in Kubernetes, a Job is Complete or Failed when all its Pods have ended and are counted. Until then, a
        condition says what it will be."""
        condition, reason, message = outcome
        self.result.delete += [p for p in active if not is_deleting(p)]
        if active or any(self.uncounted.values()):
            target = "SuccessCriteriaMet" if condition == "Complete" else "FailureTarget"
            self._condition(target, "True", reason, message)
            return
        self._condition(condition, "True", reason, message)
        if condition == "Complete":
            self.completion_time = timestamp(self.now)
            self.result.events.append(("Normal", "Completed", "Job completed"))
        else:
            self.result.events.append(("Warning", reason, message))

    def _balance(self, active: list[Object]) -> None:
        """Creates or deletes Pods until there are as many as parallelism and the remaining work allow."""
        want = self._wanted(active)
        if len(active) > want:
            surplus = sorted(active, key=lambda p: (status_of(p).get("phase") == "Running", name_of(p)))
            self.result.delete += surplus[: len(active) - want]
            return
        missing = want - len(active)
        wait = self._backoff()
        if missing <= 0:
            return
        if wait > 0:
            self._requeue_after(wait)
            return
        if not self.indexed:
            self.result.create += [self._pod(None) for _ in range(missing)]
            return
        taken = {_index_of(p) for p in active} | self.completed | self.failed_indexes
        free = (i for i in range(self.completions or 0) if i not in taken)
        self.result.create += [self._pod(i) for i, _ in zip(free, range(missing), strict=False)]

    def _wanted(self, active: list[Object]) -> int:
        if self.completions is None:
            ended_well = self.succeeded + len(self.uncounted["succeeded"])
            return len(active) if ended_well else self.parallelism
        successes = len(self.completed) if self.indexed else self.succeeded + len(self.uncounted["succeeded"])
        return max(0, min(self.parallelism, self.completions - successes - len(self.failed_indexes)))

    def _backoff(self) -> float:
        """Returns the seconds to wait after the last failure: 10, 20, 40 ... 360."""
        ends = sorted(filter(None, (_failed_at(p) for p in self.pods)))
        failures = min(self.failed + len(self.uncounted["failed"]), 16)
        if not ends or not failures:
            return 0.0
        delay: float = min(FIRST_BACKOFF * 2 ** (failures - 1), LAST_BACKOFF)
        return max(0.0, delay - (self.now - ends[-1]).total_seconds())

    def _pod(self, index: int | None) -> Object:
        job, template = self.job, self.spec["template"]
        name = name_of(job)
        identity = {
            "batch.kubernetes.io/controller-uid": uid_of(job),
            NAME_LABEL: name,
            "controller-uid": uid_of(job),
            "job-name": name,
        }
        template_meta = template.get("metadata") or {}
        annotations = dict(template_meta.get("annotations") or {})
        labels = {**(template_meta.get("labels") or {}), **identity}
        spec = dict(template["spec"])
        base = name[:57]
        if index is not None:
            labels[INDEX_ANNOTATION] = annotations[INDEX_ANNOTATION] = str(index)
            attempts = [
                int(annotations_of(p).get("batch.kubernetes.io/job-index-failure-count", "0")) + 1
                for p in self.pods
                if _index_of(p) == index and status_of(p).get("phase") == "Failed"
            ]
            annotations["batch.kubernetes.io/job-index-failure-count"] = str(max(attempts, default=0))
            env = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
            for role in ("initContainers", "containers"):
                if spec.get(role):
                    spec[role] = [{**c, "env": [*(c.get("env") or ()), env]} for c in spec[role]]
            spec.setdefault("hostname", f"{base}-{index}")
            base = f"{name[:50]}-{index}"
        pod_meta: dict[str, Any] = {
            "generateName": f"{base}-",
            "namespace": namespace_of(job),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(job)],
            "finalizers": [TRACKING_FINALIZER],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": pod_meta, "spec": spec}

    def _condition(self, type: str, status: ConditionStatus, reason: str, message: str) -> None:
        self.conditions = set_condition(self.conditions, type, status, reason, message, timestamp(self.now))

    def _requeue_after(self, seconds: float) -> None:
        self.result.requeue_after = (
            seconds if self.result.requeue_after is None else min(seconds, self.result.requeue_after)
        )

    def _write_status(self, active: list[Object]) -> None:
        deleted_uids = {uid_of(p) for p in self.result.delete}
        running = [p for p in active if uid_of(p) not in deleted_uids and not is_deleting(p)]
        status: Object = {
            "active": len(running) + len(self.result.create),
            "ready": sum(_is_ready(p) for p in running),
            "succeeded": self.succeeded,
            "failed": self.failed,
            "terminating": sum(is_deleting(p) and _is_active(p) for p in self.pods),
            "uncountedTerminatedPods": {k: v for k, v in self.uncounted.items() if v},
            "conditions": self.conditions,
            "startTime": self.start,
            "completionTime": self.completion_time,
        }
        if self.indexed:
            status["completedIndexes"] = format_indexes(self.completed)
            if self.spec.get("backoffLimitPerIndex") is not None:
                status["failedIndexes"] = format_indexes(self.failed_indexes)
        empty_is_absent = ("active", "succeeded", "failed", "startTime", "completionTime", "conditions")
        self.result.status = {k: v for k, v in status.items() if v or k not in empty_is_absent}


def _is_active(pod: Object) -> bool:
    return status_of(pod).get("phase") not in ("Succeeded", "Failed")


def _is_ready(pod: Object) -> bool:
    return is_condition_true(status_of(pod).get("conditions") or [], "Ready")


def _index_of(pod: Object) -> int | None:
    text = annotations_of(pod).get(INDEX_ANNOTATION)
    return int(text) if text is not None else None


def _restarts_in_place(job_spec: Object) -> bool:
    return bool(job_spec["template"]["spec"].get("restartPolicy") == "OnFailure")


def _restarts(pod: Object) -> int:
    return sum(c.get("restartCount", 0) for c in status_of(pod).get("containerStatuses") or ())


def _failed_at(pod: Object) -> datetime | None:
    if status_of(pod).get("phase") != "Failed":
        return None
    ends = [
        c["state"]["terminated"]["finishedAt"]
        for c in status_of(pod).get("containerStatuses") or ()
        if (c.get("state") or {}).get("terminated", {}).get("finishedAt")
    ]
    return parse_time(max(ends)) if ends else parse_time(meta(pod)["creationTimestamp"])


def _failure_action(job_spec: Object, pod: Object) -> tuple[FailureAction, str]:
    """Returns the action of podFailurePolicy for a failed Pod. Without a matching rule, the failure counts."""
    for number, rule in enumerate((job_spec.get("podFailurePolicy") or {}).get("rules") or ()):
        where = f"matching {rule['action']} rule at index {number}"
        if "onExitCodes" in rule:
            wanted = rule["onExitCodes"]
            for container in status_of(pod).get("containerStatuses") or ():
                ended = (container.get("state") or {}).get("terminated")
                if not ended or not ended.get("exitCode"):
                    continue
                if wanted.get("containerName") not in (None, container["name"]):
                    continue
                if (ended["exitCode"] in wanted["values"]) == (wanted["operator"] == "In"):
                    who = f"Container {container['name']} for pod {namespace_of(pod)}/{name_of(pod)}"
                    return rule["action"], f"{who} failed with exit code {ended['exitCode']} {where}"
        for pattern in rule.get("onPodConditions") or ():
            found = get_condition(status_of(pod).get("conditions") or [], pattern["type"])
            if found is not None and found["status"] == pattern.get("status", "True"):
                return rule["action"], f"Pod {namespace_of(pod)}/{name_of(pod)} has condition {pattern['type']} {where}"
    return "Count", ""


_MANAGED_BY = "kubernetes.io/job-controller"


_REFUSED_SECONDS = 60.0


class JobController:
    def __init__(self, cluster: Cluster, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._queue: Controller[Key] = Controller("job", self._reconcile)
        self._jobs = Informer(cluster, JOB, on_change=self._job_changed)
        self._pods = Informer(
            cluster, POD, on_change=self._pod_changed, indexers={"owner": index_by_controller, "job": _job_of}
        )
        self._expected: dict[Key, set[str]] = {}
        """Pods that we created and the informer does not have yet. Without this, they could be created twice."""

    async def run(self) -> None:
        async with self._pods, self._jobs:
            await self._queue.run()

    def _job_changed(self, before: Object | None, after: Object | None) -> None:
        changed = after or before
        assert changed is not None
        self._queue.enqueue(key_of(changed))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before
        assert pod is not None
        jobs = _job_of(pod)
        if before is not None and after is not None and _has_other_owners(before, after):
            jobs = [*jobs, *_job_of(before)]
        for job in jobs:
            self._expected.get(job, set()).discard(uid_of(pod))
            self._queue.enqueue(job)

    async def _reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(*key)
        if job is None:
            self._expected.pop(key, None)
            await self._release_orphans(key)
            return None
        if spec_of(job).get("managedBy", _MANAGED_BY) != _MANAGED_BY or self._expected.get(key):
            return None
        now = datetime.now(UTC)
        ttl = seconds_until_expiry(job, now)
        if ttl == 0.0 and not is_deleting(job):
            await self._ignore_not_found(self._cluster.delete(JOB, key.name, key.namespace, uid=uid_of(job)))
            return None
        if await self._claim_pods(key, job):
            return None  # the changed Pods bring the Job back
        plan = plan_job(job, self._pods.by("owner", uid_of(job)), now)
        await self._carry_out(key, job, plan)
        waits = [w for w in (plan.requeue_after, ttl) if w is not None]
        return min(waits, default=None)

    async def _carry_out(self, key: Key, job: Object, plan: JobPlan) -> None:
        if plan.status != status_of(job):
            new = {**job, "status": plan.status}
            await self._cluster.update(new, subresource="status")
        for severity, reason, message in plan.events:
            self._recorder.event(job, severity, reason, message)
        await asyncio.gather(
            *(self._release(pod) for pod in plan.release),
            *(self._delete(job, pod) for pod in plan.delete if not is_deleting(pod)),
            *(self._create(key, job, pod) for pod in plan.create),
        )

    async def _create(self, key: Key, job: Object, pod: Object) -> None:
        try:
            made = await self._cluster.create(pod)
        except Forbidden as error:
            self._recorder.event(job, "Warning", "FailedCreate", f"Error creating: {error.message}")
            self._queue.enqueue_after(key, _REFUSED_SECONDS)  # what the namespace allows may change
            return
        if self._pods.get(*key_of(made)) is None:
            self._expected.setdefault(key, set()).add(uid_of(made))
        self._recorder.event(job, "Normal", "SuccessfulCreate", f"Created pod: {name_of(made)}")

    async def _delete(self, job: Object, pod: Object) -> None:
        await self._ignore_not_found(self._cluster.delete(POD, *reversed(key_of(pod)), uid=uid_of(pod)))
        self._recorder.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

    async def _claim_pods(self, key: Key, job: Object) -> bool:
        """Adopts Pods without a controller that the selector matches, and lets go of those that it no longer matches.
        Returns whether any Pod has changed."""
        selector = label_selector_from(spec_of(job).get("selector") or {})
        claims = []
        for pod in self._pods.by("job", key):
            owner, matches = controller_of(pod), selector.matches(labels_of(pod))
            tracked = TRACKING_FINALIZER in (meta(pod).get("finalizers") or ())
            if owner is None and matches and not is_deleting(pod) and not is_deleting(job):
                claims.append(self._adopt(job, pod))
            elif owner is None and tracked:
                claims.append(self._release(pod))
            elif owner is not None and owner["uid"] == uid_of(job) and not matches and not is_deleting(pod):
                claims.append(self._release(pod, [o for o in owners_of(pod) if o["uid"] != uid_of(job)]))
        await asyncio.gather(*claims)
        return bool(claims)

    async def _adopt(self, job: Object, pod: Object) -> None:
        await self._change_metadata(
            pod,
            {
                "ownerReferences": [*owners_of(pod), owner_reference(job)],
                "finalizers": [*_other_finalizers(pod), TRACKING_FINALIZER],
            },
        )

    async def _release(self, pod: Object, owners: list[Object] | None = None) -> None:
        change: Object = {"finalizers": _other_finalizers(pod)}
        await self._change_metadata(pod, change if owners is None else {**change, "ownerReferences": owners})

    async def _change_metadata(self, pod: Object, change: Object) -> None:
        body = {"metadata": {"uid": uid_of(pod), "resourceVersion": meta(pod)["resourceVersion"], **change}}
        try:
            await self._ignore_not_found(self._cluster.patch(POD, name_of(pod), namespace_of(pod), body))
        except Conflict:
            for job in _job_of(pod):
                self._queue.enqueue_after(job, 0.01)

    async def _release_orphans(self, key: Key) -> None:
        """Removes the finalizer from Pods of a deleted Job, so that they can be deleted."""
        for pod in self._pods.by("job", key):
            if TRACKING_FINALIZER in (meta(pod).get("finalizers") or ()):
                await self._release(pod)

    @staticmethod
    async def _ignore_not_found(call: Awaitable[Object]) -> None:
        try:
            await call
        except NotFound:
            return


def _job_of(pod: Object) -> list[Key]:
    """Returns the Job that controls the Pod, or could adopt it."""
    metadata = pod["metadata"]
    if not metadata.get("ownerReferences"):
        name = (metadata.get("labels") or {}).get(NAME_LABEL)
        return [Key(namespace_of(pod), name)] if name else []
    owner = controller_of(pod)
    if owner is None or owner["kind"] != "Job":
        return []
    return [Key(namespace_of(pod), owner["name"])]


def _has_other_owners(before: Object, after: Object) -> bool:
    """Versions of an object share what did not change."""
    old, new = before["metadata"], after["metadata"]
    return any(old.get(field) is not new.get(field) for field in ("ownerReferences", "labels"))


def _other_finalizers(pod: Object) -> list[str]:
    return [finalizer for finalizer in meta(pod).get("finalizers") or () if finalizer != TRACKING_FINALIZER]


def format_indexes(indexes: Iterable[int]) -> str:
    """Formats [0, 1, 2, 5] as '0-2,5', as in completedIndexes."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def parse_indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
