"""Runs jobs on Baidu AIHC. A start happens exactly once: jobs are named by our id, and looked for before they are
created a second time."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

from muster.dispatch.aihc.client import AihcClient, is_missing
from muster.dispatch.aihc.request import (
    STOPPABLE,
    AihcJob,
    AihcJobParser,
    AihcSettings,
    cluster_state,
    create_body,
    describe_status,
    normalize_job_type,
    parse_time,
    priority_word,
    started_at,
)
from muster.dispatch.errors import DispatchError, Refused, Transient
from muster.dispatch.external import ExternalAdapter, shorten, unchanged
from muster.dispatch.model import ClusterState, Job, JobDescription, JobFault, Line, Spec
from muster.dispatch.secrets import Secret, reveal_all

_FAILED = "Aihc.JobFailed"
_TAIL_LINES = 20
_FAULT_SECONDS = 15.0
_FOLLOW_SECONDS = 2.0


class AihcAdapter(ExternalAdapter):
    """`ak` and `sk` should be `secret(...)`. `pool` and `queue`: the pool's id and the queue's name (self-managed), or
    `aihc-serverless` and the queue's id (managed). Jobs may choose one of `queues` by the option `queue`."""

    finds = True
    poll_every = 5.0

    def __init__(
        self,
        endpoint: str,
        ak: str | Secret,
        sk: str | Secret,
        *,
        pool: str,
        queue: str,
        queues: Iterable[str] = (),
        parsers: Mapping[str, AihcJobParser] | None = None,
        job_type: str = "PyTorchJob",
        gpu_resources: Mapping[str, str] | None = None,
        pfs_instance: str = "",
        tfjob_roles: bool = False,
        name: str = "aihc",
        timeout: float = 10.0,
        create_timeout: float = 20.0,
        settle: float = 10.0,
        page_size: int = 100,
    ) -> None:
        self.name = name
        self.client = AihcClient(
            endpoint, ak, sk, pool=pool, timeout=timeout, create_timeout=create_timeout, name=name
        )  # fmt: skip
        self.http = self.client.http
        self.parsers = dict(parsers or {})
        self.settings = AihcSettings(
            queues=tuple(dict.fromkeys([queue, *queues])),
            job_type=normalize_job_type(job_type),
            gpu_resources=dict(gpu_resources or {}),
            pfs_instance=pfs_instance,
            roles=tfjob_roles,
        )
        self.settle = settle
        self.page_size = page_size

    def __repr__(self) -> str:
        return f"AihcAdapter({self.client.base!r}, pool={self.client.pool!r}, queues={self.settings.queues!r})"

    def request(self, job: Job, spec: Spec, name: str) -> Mapping[str, Any]:
        body = self._body(job, spec, name)
        query = {"action": "CreateJob", "resourcePoolId": self.client.pool, "queueID": body["queue"]}
        return {"method": "POST", "url": self.client.base, "query": query, "body": body}

    async def start(self, job: Job, spec: Spec, name: str) -> str:
        """Looks for the name even if the dispatcher knows of no earlier start: a look costs one call, and a second job
        hours of GPUs."""
        if not job.may_exist and (found := await self.find(job, name)) is not None:
            return found
        return await super().start(job, spec, name)

    async def create(self, job: Job, spec: Spec, name: str) -> str:
        body = self._body(job, spec, name)
        queue = str(body["queue"])
        answer = await self.client.create_job(queue, reveal_all(body))
        return self._external_id(queue, str(answer["jobId"]))

    async def find(self, job: Job, name: str) -> str | None:
        """Looks in every queue. If there are several with the name, the oldest is ours."""
        found = [
            (str(each.get("createdAt") or ""), str(each["jobId"]), queue)
            for queue in self.settings.queues
            async for each in self.client.list_jobs(
                queue, page_size=self.page_size, keywordType="name", keyword=name, orderBy="createdAt", order="asc"
            )
            if each.get("name") == name and each.get("jobId")
        ]
        if not found:
            return None
        _, job_id, queue = min(found)
        return self._external_id(queue, job_id)

    async def describe(self, jobs: Sequence[Job]) -> Mapping[str, JobDescription]:
        """Lists each queue once, instead of asking for every job. A job that is not in the list is asked for: the list
        may have moved while it was read."""
        by_queue: dict[str, dict[str, Job]] = defaultdict(dict)
        for job in jobs:
            queue, job_id = self._where(job)
            by_queue[queue][job_id] = job
        asked = await asyncio.gather(
            *(self._describe_queue(queue, wanted) for queue, wanted in by_queue.items()), return_exceptions=True
        )
        described: dict[str, JobDescription] = {}
        for wanted, found in zip(by_queue.values(), asked, strict=True):
            if isinstance(found, Transient) and len(by_queue) > 1:
                described |= {job.id: unchanged(job) for job in wanted.values()}
            elif isinstance(found, BaseException):
                raise found
            else:
                described |= found
        return described

    async def stop(self, job: Job, grace: float) -> None:
        """Stops a PyTorchJob or MPIJob, and deletes any other, because AIHC cannot stop those. AIHC gives a job its own
        time to end; `grace` is not passed on."""
        queue, job_id = self._where(job)
        if not job_id:
            return
        found = await self._find_one(queue, job_id)
        if found is None or _state(found) in {"succeeded", "failed", "cancelled", "stopping"}:
            return
        try:
            if normalize_job_type(str(found.get("jobType") or "PyTorchJob")) in STOPPABLE:
                await self.client.stop_job(queue, job_id)
            else:
                await self.client.delete_job(queue, job_id)
        except Refused as error:
            if not is_missing(error):
                raise

    async def set_priority(self, job: Job) -> None:
        """AIHC changes the priority of a job that it has not scheduled yet, and refuses to do so for any other."""
        queue, job_id = self._where(job)
        await self.client.modify_job(queue, job_id, priority_word(job))

    async def logs(self, job: Job, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        """Yields the log of each pod, one after the other; with `follow`, what is new of each, until the job ends."""
        queue, job_id = self._where(job)
        pods: dict[str, _PodLog] = {}
        kept: deque[Line] = deque(maxlen=tail)
        while True:
            # The state before the logs: what was written up to the end is read once more.
            detail = await self.client.describe_job(queue, job_id, detail=True)
            for name in _pod_names(detail):
                log = pods.setdefault(name, _PodLog(self.client, queue, job_id, name))
                async for line in log.read():
                    if tail is None:
                        yield line
                    else:
                        kept.append(line)
            for line in kept:
                yield line
            kept, tail = deque(), None
            if not follow or _state(detail) in {"succeeded", "failed", "cancelled"}:
                return
            await asyncio.sleep(_FOLLOW_SECONDS)

    async def events(self, job: Job) -> list[dict[str, Any]]:
        """Returns AIHC's events of the job: reason, message, type, count, lastTimestamp."""
        return await self.client.describe_job_events(*self._where(job))

    def _body(self, job: Job, spec: Spec, name: str) -> dict[str, Any]:
        parser = self.parsers.get(job.type)
        extra = {**(parser(job, spec) if parser else {}), **(spec.options.get(self.name) or {})}
        return create_body(job, spec, name, self.settings, cast(AihcJob, extra))

    async def _describe_queue(self, queue: str, wanted: Mapping[str, Job]) -> dict[str, JobDescription]:
        missing = dict(wanted)
        items: dict[str, Mapping[str, Any]] = {}
        async with aclosing(self.client.list_jobs(queue, page_size=self.page_size)) as listed:
            async for item in listed:
                job_id = str(item.get("jobId"))
                if missing.pop(job_id, None):
                    items[job_id] = item
                if not missing:
                    break
        asked = await asyncio.gather(*(self._find_one(queue, job_id, listed=False) for job_id in missing))
        items |= {job_id: item for job_id, item in zip(missing, asked, strict=True) if item is not None}
        faults = await self._faults(queue, [id for id, item in items.items() if _state(item) == "failed"])
        return {wanted[job_id].id: _description(queue, item, faults.get(job_id)) for job_id, item in items.items()}

    async def _find_one(self, queue: str, job_id: str, *, listed: bool = True) -> dict[str, Any] | None:
        """Returns a job; None if AIHC does not know it. Its error code for that is not documented: for a job that is
        not in the list either, every refusal means it."""
        try:
            return await self.client.describe_job(queue, job_id)
        except Refused as error:
            if is_missing(error) or not listed:
                return None
            raise

    async def _faults(self, queue: str, job_ids: Sequence[str]) -> dict[str, JobFault]:
        """Says why jobs failed. If many fail at once, some do without the details: describing must not take long."""
        if not job_ids:
            return {}
        asked = {job_id: asyncio.create_task(self._fault(queue, job_id)) for job_id in job_ids}
        try:
            await asyncio.wait(asked.values(), timeout=_FAULT_SECONDS)
        finally:
            for task in asked.values():
                task.cancel()
            answers = await asyncio.gather(*asked.values(), return_exceptions=True)
        unknown = JobFault(_FAILED, "AIHC says that it failed", retryable=True)
        found = zip(asked, answers, strict=True)
        return {job_id: unknown if isinstance(answer, BaseException) else answer for job_id, answer in found}

    async def _fault(self, queue: str, job_id: str) -> JobFault:
        """Names the pods that failed, the reasons that AIHC gives, and the end of the first one's log."""
        detail = await self.client.describe_job(queue, job_id, detail=True)
        failed = [pod for pod in detail.get("pods") or [] if pod.get("status") == "Failed"]
        said = "; ".join(f"{pod.get('name')}: {shorten(pod.get('reason') or 'failed', 300)}" for pod in failed[:5])
        tail: deque[str] = deque(maxlen=_TAIL_LINES)
        with suppress(DispatchError):  # the reasons without the log are better than nothing
            for pod in failed[:1]:
                async for line in _PodLog(self.client, queue, job_id, str(pod["name"])).read():
                    tail.append(shorten(line.text))
        message = f"AIHC says that it failed: {said}" if said else "AIHC says that it failed"
        return JobFault(_FAILED, message, retryable=True, log_tail=tuple(tail))

    def _external_id(self, queue: str, job_id: str) -> str:
        return job_id if queue == self.settings.queues[0] else f"{job_id}@{queue}"

    def _where(self, job: Job) -> tuple[str, str]:
        """Returns the queue and AIHC's id of a job."""
        job_id, _, queue = (job.external_id or "").partition("@")
        return queue or self.settings.queues[0], job_id


def _state(item: Mapping[str, Any]) -> ClusterState:
    return cluster_state(str(item.get("status") or ""))


def _description(queue: str, item: Mapping[str, Any], fault: JobFault | None) -> JobDescription:
    status = str(item.get("status") or "")
    return JobDescription(
        _state(item),
        reason=describe_status(status, queue),
        status=status,
        fault=fault,
        started=started_at(item),
        ended=parse_time(item.get("finishedAt")),
    )


class _PodLog:
    """Reads the log of one pod page by page, and goes on where it ended."""

    def __init__(self, client: AihcClient, queue: str, job_id: str, pod: str) -> None:
        self._client, self._queue, self._job_id, self._pod = client, queue, job_id, pod
        self._marker = ""
        self._read = 0
        """Entries of the page at the marker that were read already."""

    async def read(self) -> AsyncIterator[Line]:
        while True:
            answer = await self._client.describe_job_logs(self._queue, self._job_id, self._pod, marker=self._marker)
            entries = answer.get("logs") or []
            for entry in entries[self._read :]:
                for text in str(entry).splitlines() or [""]:
                    yield Line(text, source=self._pod)
            following = str(answer.get("nextMarker") or "")
            if not following or following == self._marker:
                self._read = len(entries)
                return
            self._marker, self._read = following, 0


def _pod_names(detail: Mapping[str, Any]) -> list[str]:
    return [str(pod["name"]) for pod in detail.get("pods") or [] if pod.get("name")]
