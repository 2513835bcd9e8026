"""A client of Baidu AIHC's OpenAPI v2: one method per action, each answer as AIHC gives it.

Reads are repeated when they fail for a moment. Nothing that changes something is ever repeated: AIHC has no idempotency
token, so a second CreateJob is a second job.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from yarl import URL

from muster.dispatch.aihc.signer import authorize, canonical_query, format_time
from muster.dispatch.errors import DispatchError, NoCapacity, Refused, Transient, Unclear
from muster.dispatch.external import Effect, HttpAnswer, HttpClient, repeat_reads, shorten
from muster.dispatch.secrets import Secret, reveal

SERVERLESS: Final = "aihc-serverless"
"""The pool id that job actions take for every managed pool."""

_SIGNED_HEADERS = ("content-type", "host", "x-bce-date")

KEY_CODES = frozenset({"SignatureDoesNotMatch", "InvalidAccessKeyId", "InvalidHTTPAuthHeader", "AccessDenied"})
ERROR_KINDS: Mapping[str, type[DispatchError]] = {
    **dict.fromkeys(KEY_CODES, Refused),
    "InvalidParam": Refused,
    "MalformedJSON": Refused,
    "RequestExpired": Transient,  # the clocks differ, or the request was on its way for too long: sign anew
    "InternalError": Unclear,
}
"""What an error code means for a call that creates. Decide by the code: a wrong secret key is HTTP 400."""
_PATTERNS: tuple[tuple[re.Pattern[str], type[DispatchError]], ...] = (
    # Codes that are not documented, by the words that Baidu's services use.
    (re.compile("TooMany|LimitExceeded|Throttl|RateLimit", re.IGNORECASE), Transient),
    (re.compile("Insufficient|QuotaExceed|NoCapacity|SoldOut", re.IGNORECASE), NoCapacity),
    (re.compile("AlreadyExist|Duplicate", re.IGNORECASE), Unclear),  # ours, from a call whose answer was lost?
)
_MISSING = re.compile("NoSuch|NotFound|NotExist|NonExist", re.IGNORECASE)


def explain_error(answer: HttpAnswer, effect: Effect, service: HttpClient) -> DispatchError:
    """Returns the error that an answer other than 2xx means."""
    said = answer.json()
    code = str(said.get("code") or "") if isinstance(said, dict) else ""
    if not code:
        return service.error_for_status(answer, "", effect)
    message = f"{code}: {shorten(said.get('message') or 'no message')} (request {said.get('requestId') or 'unknown'})"
    kind = ERROR_KINDS.get(code) or next((kind for pattern, kind in _PATTERNS if pattern.search(code)), None)
    if kind is None:
        return service.error_for_status(answer, message, effect, code=f"Aihc.{code}")
    if effect == "read" and code in KEY_CODES:
        kind = Transient  # keys are being changed: no reason to give up jobs that run
    if effect != "create" and kind in {Unclear, NoCapacity}:
        kind = Transient
    return kind(f"{service.name}: {message}", code=f"Aihc.{code}")


def is_missing(error: DispatchError) -> bool:
    """Whether an error says that a job does not exist. The code for that is not documented."""
    return isinstance(error, Refused) and _MISSING.search(error.code) is not None


class AihcClient:
    """`pool` is the id of a self-managed pool, or `aihc-serverless` for a managed one. A queue is the queue's name in
    a self-managed pool, and its id in a managed one."""

    def __init__(
        self,
        endpoint: str,
        access_key: str | Secret,
        secret_key: str | Secret,
        *,
        pool: str,
        timeout: float = 10.0,
        create_timeout: float = 20.0,
        name: str = "aihc",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        self.host = parts.netloc.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme, ""))
        self.base = f"{parts.scheme}://{self.host}"
        self.pool = pool
        self.http = HttpClient(name, timeout=timeout)
        self.create_timeout = create_timeout
        self._access_key, self._secret_key = access_key, secret_key
        self._clock = clock

    def __repr__(self) -> str:
        return f"AihcClient({self.base!r}, pool={self.pool!r})"

    async def close(self) -> None:
        await self.http.close()

    # Jobs

    async def create_job(self, queue: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Returns {requestId, jobId, jobName}. Raises Unclear if AIHC may have created the job all the same."""
        answer = await self._job_action("CreateJob", queue, body, effect="create")
        if not answer.get("jobId"):
            raise Unclear(f"{self.http.name} accepted the job, but its answer has no jobId")
        return answer

    async def describe_job(self, queue: str, job_id: str, *, detail: bool = False) -> dict[str, Any]:
        """Returns the job; with `detail`, with its pods."""
        answer = await self._job_action("DescribeJob", queue, {"jobId": job_id, "needDetail": detail})
        job = answer.get("job")
        return job if isinstance(job, dict) else answer  # Baidu's documentation shows both forms

    async def describe_jobs(self, queue: str, *, page: int = 1, page_size: int = 10, **filters: str) -> dict[str, Any]:
        """Returns {totalCount, jobs}. Filters: status, keywordType (name, queueName), keyword, orderBy, order."""
        body = {"queue": queue, "pageNumber": page, "pageSize": page_size, **filters}
        return await self._job_action("DescribeJobs", queue, body)

    async def list_jobs(self, queue: str, *, page_size: int = 100, **filters: str) -> AsyncGenerator[dict[str, Any]]:
        """Yields all jobs of a queue, the newest first. Stop when you have seen enough: a page is read when needed."""
        seen, page = 0, 1
        while True:
            answer = await self.describe_jobs(queue, page=page, page_size=page_size, **filters)
            jobs = answer.get("jobs") or []
            for job in jobs:
                yield job
            seen, page = seen + len(jobs), page + 1
            if not jobs or seen >= int(answer.get("totalCount") or 0):
                return

    async def stop_job(self, queue: str, job_id: str) -> None:
        """Stops a PyTorchJob or MPIJob; AIHC cannot stop others."""
        await self._job_action("StopJob", queue, {"jobId": job_id}, effect="change")

    async def delete_job(self, queue: str, job_id: str) -> None:
        await self._job_action("DeleteJob", queue, {"jobId": job_id}, effect="change")

    async def modify_job(self, queue: str, job_id: str, priority: str) -> None:
        """Sets the priority (high, normal, low) of a job that has not been scheduled yet."""
        await self._job_action("ModifyJob", queue, {"jobId": job_id, "priority": priority}, effect="change")

    async def describe_job_events(self, queue: str, job_id: str) -> list[dict[str, Any]]:
        answer = await self._job_action("DescribeJobEvents", queue, {"jobId": job_id})
        return answer.get("events") or []

    async def describe_pod_events(self, queue: str, job_id: str, pod: str) -> list[dict[str, Any]]:
        answer = await self._job_action("DescribePodEvents", queue, {"jobId": job_id, "podName": pod})
        return answer.get("events") or []

    async def describe_job_logs(
        self, queue: str, job_id: str, pod: str, *, marker: str = "", max_lines: int | None = None, **more: str
    ) -> dict[str, Any]:
        """Returns {logs, nextMarker}. More: keywords, startTime and endTime (epoch seconds), chunkSize. AIHC takes all
        of them as strings."""
        body = {"jobId": job_id, "podName": pod, **more}
        if marker:
            body["marker"] = marker
        if max_lines is not None:
            body["maxLines"] = str(max_lines)
        return await self._job_action("DescribeJobLogs", queue, body)

    async def describe_job_nodes(self, queue: str, job_id: str) -> dict[str, Any]:
        return await self._job_action("DescribeJobNodes", queue, {"jobId": job_id})

    async def describe_job_metrics(self, queue: str, job_id: str, metric: str, **more: str) -> dict[str, Any]:
        """More: startTime, endTime, timeStep, rateInterval, as strings."""
        return await self._job_action("DescribeJobMetrics", queue, {"jobId": job_id, "metricType": metric, **more})

    async def describe_job_webterminal(self, queue: str, job_id: str, pod: str, **more: str) -> dict[str, Any]:
        return await self._job_action("DescribeJobWebterminal", queue, {"jobId": job_id, "podName": pod, **more})

    # Pools and queues. These take the real id of a pool, not aihc-serverless.

    async def describe_resource_pools(self, pool_type: str, *, page: int = 1, page_size: int = 100) -> dict[str, Any]:
        """`pool_type`: common (self-managed) or dedicatedV2 (managed)."""
        query = {"resourcePoolType": pool_type, "pageNumber": str(page), "pageSize": str(page_size)}
        return await self._read_resource("DescribeResourcePools", query)

    async def describe_resource_pool(self, pool: str) -> dict[str, Any]:
        return await self._read_resource("DescribeResourcePool", {"resourcePoolId": pool})

    async def describe_queues(self, pool: str, *, page: int = 1, page_size: int = 100) -> dict[str, Any]:
        query = {"resourcePoolId": pool, "pageNumber": str(page), "pageSize": str(page_size)}
        return await self._read_resource("DescribeQueues", query)

    async def describe_queue(self, queue_id: str) -> dict[str, Any]:
        return await self._read_resource("DescribeQueue", {"queueId": queue_id})

    async def _job_action(
        self, action: str, queue: str, body: Mapping[str, Any], *, effect: Effect = "read"
    ) -> dict[str, Any]:
        query = {"action": action, "resourcePoolId": self.pool, "queueID": queue}
        return await self._call("POST", query, {"X-API-Version": "v2"}, orjson.dumps(body), effect)

    async def _read_resource(self, action: str, query: Mapping[str, str]) -> dict[str, Any]:
        return await self._call("GET", {"action": action, **query}, {"version": "v2"}, None, "read")

    async def _call(
        self, method: str, query: Mapping[str, str], version: Mapping[str, str], body: bytes | None, effect: Effect
    ) -> dict[str, Any]:
        return await repeat_reads(lambda: self._send(method, query, version, body, effect), effect)

    async def _send(
        self, method: str, query: Mapping[str, str], version: Mapping[str, str], body: bytes | None, effect: Effect
    ) -> dict[str, Any]:
        now = self._clock()
        headers = {"Host": self.host, "Content-Type": "application/json", "x-bce-date": format_time(now), **version}
        headers["Authorization"] = authorize(
            reveal(self._access_key),
            reveal(self._secret_key),
            method=method,
            path="/",
            query=query,
            headers=headers,
            now=now,
            signed_headers=_SIGNED_HEADERS,
        )
        # `encoded`: the query goes out as it was signed.
        url = URL(f"{self.base}/?{canonical_query(query)}", encoded=True)
        timeout = self.create_timeout if effect == "create" else None
        answer = await self.http.call(method, url, headers=headers, body=body, effect=effect, timeout=timeout)
        if not 200 <= answer.status < 300:
            raise explain_error(answer, effect, self.http)
        content = answer.json()
        if not isinstance(content, dict):
            raise self.http.no_answer("what came is not AIHC's JSON; is the endpoint right?", effect)
        return content
