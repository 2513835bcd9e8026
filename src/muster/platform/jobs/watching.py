"""All training jobs of the cluster, as they are now: a copy per kind that keeps itself current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from muster.kube.cluster import Cluster
from muster.kube.informer import Informer, OnChange
from muster.kube.objects import Object, uid_of
from muster.platform.jobs.jobs import Job, seen
from muster.training.dialect import Dialect
from muster.training.registry import DIALECTS

_PATIENCE_SECONDS = 5.0


class JobWatch:
    """`run()` until cancelled. `tell` hears of every job that has changed; `gone` if it is not there any more."""

    def __init__(self, cluster: Cluster, tell: Callable[[Job, bool], None]) -> None:
        self._tell = tell
        self._jobs: dict[str, Job] = {}
        self._informers = [Informer(cluster, d.kind, on_change=self._listener(d)) for d in DIALECTS]

    async def run(self) -> None:
        self._jobs.clear()
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())

    async def jobs(self) -> Iterable[Job]:
        """All that are known. Just after the start it takes a moment; a cluster that lacks a kind never tells of it."""
        waiting = [asyncio.ensure_future(i.synced.wait()) for i in self._informers if not i.synced.is_set()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=_PATIENCE_SECONDS)
            for each in late:
                each.cancel()
        return self._jobs.values()

    def _listener(self, dialect: Dialect) -> OnChange:
        def changed(before: Object | None, after: Object | None) -> None:
            if after is None:
                gone = self._jobs.pop(uid_of(before or {}), None)
                if gone is not None:
                    self._tell(gone, True)
                return
            job = seen(dialect, after)
            if before is not None and uid_of(before) != job.uid:
                self._jobs.pop(uid_of(before), None)
            if self._jobs.get(job.uid) != job:
                self._jobs[job.uid] = job
                self._tell(job, False)

        return changed
