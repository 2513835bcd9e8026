"""A base for clusters that are reached by an HTTP API: connections, adoption, and what an answer means.

A subclass maps jobs to requests and responses to states. It implements `create`, `describe_one` (or `describe`, if the
cluster can list many jobs at once), `stop` and `request`, and `find` if the cluster can be asked for a name.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from yarl import URL

from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.errors import DispatchError, Refused, Transient, Unclear
from muster.dispatch.job_files import follow_file
from muster.dispatch.model import ClusterState, Job, JobDescription, Line, Spec

Effect: TypeAlias = Literal["read", "change", "create"]
"""What a call does. `change` may be repeated without harm (stop, delete, set); `create` may not."""

LOG_FILE = "log"
_READ_PAUSES = (0.2, 0.4)
_DESCRIBE_SECONDS = 30.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def json(self) -> Any:
        """Returns the decoded body; None if it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


class HttpClient:
    """Sends requests to one service, and says what it means if no answer comes. It never repeats a request."""

    concurrency: ClassVar[int] = 8
    """How many requests may be under way at once."""

    def __init__(self, name: str, *, timeout: float = 30.0) -> None:
        self.name = name
        self.timeout = timeout
        self._connection: _Connection | None = None

    async def call(
        self,
        method: str,
        url: str | URL,
        *,
        effect: Effect,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> HttpAnswer:
        """Sends a request once. Raises Transient if it was certainly not carried out, or if it only reads. Raises
        Unclear if a `create` was sent and no answer came. The status of the answer is the caller's business; see
        `error_for_status`."""
        total = timeout or self.timeout
        # Connecting has less time than the whole: then it is clear that nothing was sent.
        limit = aiohttp.ClientTimeout(total=total, sock_connect=total * 0.8)
        connection = self._connect()
        try:
            async with asyncio.timeout(total):
                await connection.gate.acquire()
        except TimeoutError:  # nothing was sent
            raise Transient(f"{self.name}: {self.concurrency} requests are under way, and none has ended") from None
        try:
            async with connection.session.request(
                method, url, headers=headers, data=body, timeout=limit, allow_redirects=False, proxy=_proxy_for(url)
            ) as response:
                return HttpAnswer(response.status, await response.read(), dict(response.headers))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Transient(f"{self.name} cannot be reached: {_cause(error)}") from None
        except TimeoutError:
            # What took so long may still be under way: leave it as much time again before anyone looks for it.
            raise self.no_answer(f"no answer within {total:g} seconds", effect, retry_after=total) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self.no_answer(_cause(error), effect) from None
        finally:
            connection.gate.release()

    def no_answer(self, cause: str, effect: Effect, *, retry_after: float | None = None) -> DispatchError:
        if effect == "create":
            return Unclear(f"{self.name} did not answer after the job was sent: {cause}", retry_after=retry_after)
        return Transient(f"{self.name} did not answer: {cause}")

    def error_for_status(self, answer: HttpAnswer, message: str, effect: Effect, *, code: str = "") -> DispatchError:
        """Returns what an HTTP error means if the cluster's own error code says nothing else. A 5xx after `create` is
        unclear: gateways answer with one although the server behind them has done the work."""
        said = (
            f"{self.name}: {shorten(message)}" if message else f"{self.name} answered with HTTP status {answer.status}"
        )
        after = _retry_after(answer)
        if answer.status == 429:
            return Transient(said, code=code, retry_after=after)
        if answer.status >= 500:
            kind = Unclear if effect == "create" else Transient
            return kind(said, code=code, retry_after=after)
        return Refused(said, code=code)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.session.close()

    def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._connection is None or self._connection.loop is not loop:
            # A connection per request: a reused one may break just when a job is sent, and leave its start unclear.
            connector = aiohttp.TCPConnector(force_close=True, limit=self.concurrency)
            session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            self._connection = _Connection(loop, session, asyncio.Semaphore(self.concurrency))
        return self._connection


async def repeat_reads(send: Callable[[], Awaitable[T]], effect: Effect) -> T:
    """Sends a request; if it only reads and fails for a moment, up to two times more."""
    for pause in _READ_PAUSES if effect == "read" else ():
        try:
            return await send()
        except Transient:
            await asyncio.sleep(pause)
    return await send()


class ExternalAdapter(DispatcherAdapter):
    """Use `http.call` for every request: it raises the error that the dispatcher acts upon."""

    def __init__(self, name: str, *, timeout: float = 30.0) -> None:
        self.name = name
        self.http = HttpClient(name, timeout=timeout)

    @abstractmethod
    async def create(self, job: Job, spec: Spec, name: str) -> str:
        """Creates the job and returns its external id. Raises Unclear if the cluster may have created it all the same.
        Must not repeat the request."""
        ...

    async def start(self, job: Job, spec: Spec, name: str) -> str:
        """Adopts a job that an earlier call created, or creates it."""
        if self.finds and job.may_exist:
            try:
                found = await self.find(job, name)
            except DispatchError as error:  # an earlier call may have created it, so this is no reason to begin anew
                raise Unclear(error.message, code=error.code, retry_after=error.retry_after) from None
            if found is not None:
                return found
        return await self.create(job, spec, name)

    async def describe_one(self, job: Job) -> JobDescription | None:
        """Returns what the cluster says about a job; None if it does not know it."""
        raise NotImplementedError

    async def describe(self, jobs: Sequence[Job]) -> Mapping[str, JobDescription]:
        """Asks for every job, within half a minute. A job whose answer did not come is reported as it was: a few
        failed calls must not hide the others. Override it if the cluster can list many at once."""
        if not jobs:
            return {}
        asked = {job.id: asyncio.create_task(self.describe_one(job)) for job in jobs}
        try:
            await asyncio.wait(asked.values(), timeout=_DESCRIBE_SECONDS)
        finally:
            for task in asked.values():
                task.cancel()
            answers = await asyncio.gather(*asked.values(), return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        if failed and len(failed) == len(jobs):
            raise next((error for error in failed if isinstance(error, Exception)), Transient("no answer in time"))
        described: dict[str, JobDescription] = {}
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, BaseException):
                described[job.id] = unchanged(job)
            elif answer is not None:
                described[job.id] = answer
        return described

    async def logs(self, job: Job, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        """Yields the file `log` in the job's folder, for clusters without an API for logs: the job writes it."""
        async for text in follow_file(Path(job.folder) / LOG_FILE, follow=follow, tail=tail):
            yield Line(text)

    async def close(self) -> None:
        await self.http.close()


class _Connection(NamedTuple):
    loop: asyncio.AbstractEventLoop
    session: aiohttp.ClientSession
    gate: asyncio.Semaphore


def shorten(text: object, most: int = 1000) -> str:
    """Returns what a cluster said, within the size of a reason."""
    said = str(text)
    return said if len(said) <= most else f"{said[:most]}... ({len(said)} characters)"


def unchanged(job: Job) -> JobDescription:
    """Returns a description that says nothing new, for a job about which the cluster could not be asked."""
    state: ClusterState = "preparing" if job.state == "preparing" else "running"
    return JobDescription(state, reason=job.reason, status=job.cluster_status)


def _proxy_for(url: str | URL) -> str | None:
    """Returns the proxy that the environment names. aiohttp's `trust_env` would also read ~/.netrc, whose passwords
    collide with the Authorization header of a signed request."""
    target = URL(url)
    if target.host is None or proxy_bypass(target.host):
        return None
    return getproxies().get(target.scheme)


def _cause(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _retry_after(answer: HttpAnswer) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else None
