"""Carries out what `jobs.plan` says, Job by Job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime

from muster.embedded.events import Recorder
from muster.embedded.jobs import TRACKING, Plan, expires_in, plan
from muster.kube.builtin import JOB, POD
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller
from muster.kube.errors import Conflict, NotFound
from muster.kube.informer import Informer, by_controller
from muster.kube.objects import (
    Key,
    Object,
    controller_of,
    is_deleting,
    key_of,
    meta,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)

_OURS = "kubernetes.io/job-controller"


class JobController:
    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._queue: Controller[Key] = Controller("job", self._reconcile)
        self._jobs = Informer(cluster, JOB, on_change=self._job_changed)
        self._pods = Informer(
            cluster, POD, on_change=self._pod_changed, indexers={"owner": by_controller, "job": _job_of}
        )
        self._expected: dict[Key, set[str]] = {}
        """Pods we made that the informer has not shown yet: without this, a quick second look would make them twice."""

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
        for job in _job_of(pod):
            self._expected.get(job, set()).discard(uid_of(pod))
            self._queue.enqueue(job)

    async def _reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(*key)
        if job is None:
            self._expected.pop(key, None)
            await self._release_orphans(key)
            return None
        if spec_of(job).get("managedBy", _OURS) != _OURS or self._expected.get(key):
            return None
        now = datetime.now(UTC)
        ttl = expires_in(job, now)
        if ttl == 0.0 and not is_deleting(job):
            await self._ignoring_missing(self._cluster.delete(JOB, key.name, key.namespace, uid=uid_of(job)))
            return None
        decided = plan(job, self._pods.by("owner", uid_of(job)), now)
        await self._carry_out(key, job, decided)
        waits = [w for w in (decided.again, ttl) if w is not None]
        return min(waits, default=None)

    async def _carry_out(self, key: Key, job: Object, decided: Plan) -> None:
        if decided.status != status_of(job):
            new = {**job, "status": decided.status}
            await self._cluster.update(new, subresource="status")
        for severity, reason, message in decided.events:
            self._recorder.event(job, severity, reason, message)
        await asyncio.gather(
            *(self._release(pod) for pod in decided.release),
            *(self._delete(job, pod) for pod in decided.delete if not is_deleting(pod)),
            *(self._create(key, job, pod) for pod in decided.create),
        )

    async def _create(self, key: Key, job: Object, pod: Object) -> None:
        made = await self._cluster.create(pod)
        if self._pods.get(*key_of(made)) is None:
            self._expected.setdefault(key, set()).add(uid_of(made))
        self._recorder.event(job, "Normal", "SuccessfulCreate", f"Created pod: {name_of(made)}")

    async def _delete(self, job: Object, pod: Object) -> None:
        await self._ignoring_missing(self._cluster.delete(POD, *reversed(key_of(pod)), uid=uid_of(pod)))
        self._recorder.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

    async def _release(self, pod: Object) -> None:
        left = [f for f in meta(pod).get("finalizers") or () if f != TRACKING]
        change = {"metadata": {"uid": uid_of(pod), "resourceVersion": meta(pod)["resourceVersion"], "finalizers": left}}
        try:
            await self._ignoring_missing(self._cluster.patch(POD, name_of(pod), namespace_of(pod), change))
        except Conflict:
            for job in _job_of(pod):
                self._queue.enqueue_after(job, 0.01)

    async def _release_orphans(self, key: Key) -> None:
        """A Job that is gone must not leave Pods that cannot go."""
        for pod in self._pods.by("job", key):
            if TRACKING in (meta(pod).get("finalizers") or ()):
                await self._release(pod)

    @staticmethod
    async def _ignoring_missing(call: Awaitable[Object]) -> None:
        try:
            await call
        except NotFound:
            return


def _job_of(pod: Object) -> list[Key]:
    owner = controller_of(pod)
    return [Key(namespace_of(pod), owner["name"])] if owner is not None and owner["kind"] == "Job" else []
