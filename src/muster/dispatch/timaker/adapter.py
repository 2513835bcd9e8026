"""Runs jobs on Tencent's timaker, through Ti-Gateway.

timaker can be asked for a job by its id only, not by a name. So if the answer to a start does not come, it is not known
whether the job exists. It is then never started again silently: `on_unclear` says what follows.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from muster.dispatch.errors import DispatchError, JobError, NoCapacity, Refused, Transient, Unclear
from muster.dispatch.external import Effect, ExternalAdapter, HttpAnswer, HttpClient, repeat_reads, shorten
from muster.dispatch.model import Capacity, Job, JobDescription, JobFault, OnUnclear, Spec
from muster.dispatch.secrets import MASK, Secret, reveal, reveal_all
from muster.dispatch.timaker.signer import CONTENT_TYPE, authorize, format_timestamp
from muster.dispatch.timaker.task import (
    STOPPING,
    TimakerCapacity,
    TimakerJobParser,
    TimakerResources,
    TimakerTaskInfo,
    cluster_state,
    create_body,
    describe_status,
    lacking,
    mask_keys,
    parse_time,
)

TIMEOUT = 5.0
_SERVICES = {"v1": ("timaker", "2020-10-12"), "ResourceServer": ("ti-resource-server", "2020-10-10")}
_TOTAL = "ResourceServer/Resources/GetTotalAppGroupResources"
_AVAILABLE = "ResourceServer/Resources/GetAvailableAppGroupResources"

ERROR_KINDS: tuple[tuple[re.Pattern[str], type[DispatchError]], ...] = (
    (re.compile("InternalError|Timeout", re.IGNORECASE), Unclear),
    (re.compile("SignatureExpire|RequestLimitExceeded|Throttl|TooMany", re.IGNORECASE), Transient),
    (re.compile("Insufficient|NotEnough|SoldOut|LimitExceeded|Quota|ResourceUnavailable", re.IGNORECASE), NoCapacity),
)
"""What an error code means for a call that creates, by the words of Tencent Cloud API 3.0; timaker's own codes are not
public. Any other code means Refused: the gateway has answered, so nothing was created."""
_KEY_CODES = re.compile("AuthFailure|Unauthorized|SignatureFailure", re.IGNORECASE)
_MISSING = re.compile("NotFound|NotExist|NoSuch", re.IGNORECASE)


def explain_error(service: str, code: str, message: str, effect: Effect) -> DispatchError:
    """Returns the error that `Response.Error` means."""
    kind = next((kind for pattern, kind in ERROR_KINDS if pattern.search(code)), Refused)
    if effect == "read" and _KEY_CODES.search(code):
        kind = Transient  # keys are being changed: no reason to give up jobs that run
    if effect != "create" and kind in {Unclear, NoCapacity}:
        kind = Transient
    return kind(f"{service}: {code}: {shorten(message)}", code=f"Timaker.{code}")


class TimakerClient:
    """The gateway's actions. The keys come with every call."""

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT,
        name: str = "timaker",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.http = HttpClient(name, timeout=timeout)
        self._clock = clock

    async def create_training_job(self, info: TimakerTaskInfo, body: Mapping[str, Any]) -> str:
        """Creates a job, which also starts it, and returns its id. Sent once."""
        answer = await self.call(info, "v1/CreateTrainingJob", body, effect="create")
        job_id = answer.get("TrainingJobId")
        if not job_id:
            raise Unclear(f"{self.http.name} accepted the job, but its answer has no TrainingJobId")
        return str(job_id)

    async def start_training_job(self, info: TimakerTaskInfo, job_id: str) -> None:
        """Starts a stopped job again. Fails after create_training_job, which has started it."""
        await self.call(info, "v1/StartTrainingJob", _of(info, job_id), effect="change")

    async def stop_training_job(self, info: TimakerTaskInfo, job_id: str) -> None:
        await self.call(info, "v1/StopTrainingJob", _of(info, job_id), effect="change")

    async def describe_training_job(self, info: TimakerTaskInfo, job_id: str) -> dict[str, Any]:
        return await self.call(info, "v1/DescribeTrainingJob", _of(info, job_id), effect="read")

    async def describe_resource(self, info: TimakerTaskInfo, app_group: int) -> TimakerCapacity:
        total, available = await asyncio.gather(
            self._resources(info, _TOTAL, app_group), self._resources(info, _AVAILABLE, app_group)
        )
        return TimakerCapacity(total, available)

    async def available_resources(self, info: TimakerTaskInfo, app_group: int) -> TimakerResources:
        return await self._resources(info, _AVAILABLE, app_group)

    async def _resources(self, info: TimakerTaskInfo, action: str, app_group: int) -> TimakerResources:
        answer = await self.call(info, action, {"Uin": info.uin, "AppGroupId": app_group}, effect="read")
        resources = answer.get("Resources") or answer
        if not isinstance(resources.get("Train"), dict):
            raise Transient(f"{self.http.name}: the answer about app group {app_group} names no resources")
        return TimakerResources.from_json(resources)

    async def call(
        self, info: TimakerTaskInfo, action: str, body: Mapping[str, Any], *, effect: Effect
    ) -> dict[str, Any]:
        """Returns the `Response`. Reads are repeated when they fail for a moment; nothing else is."""
        return await repeat_reads(lambda: self._send(info, action, body, effect), effect)

    async def _send(
        self, info: TimakerTaskInfo, action: str, body: Mapping[str, Any], effect: Effect
    ) -> dict[str, Any]:
        service, version = _SERVICES[action.partition("/")[0]]
        now = self._clock()
        secret_key = reveal(info.secret_key)
        headers = {
            "Host": info.host,
            "Content-Type": CONTENT_TYPE,
            "X-TC-Action": action,
            "X-TC-Service": service,
            "X-TC-Version": version,
            "X-TC-Timestamp": format_timestamp(now),
            "Authorization": authorize(
                reveal(info.secret_id), secret_key, service=service, host=info.host, now=now
            ),
        }  # fmt: skip
        sent = orjson.dumps({**reveal_all(body), "RequestId": str(uuid.uuid4())})
        url = f"{info.addr.rstrip('/')}/gateway"
        answer = await self.http.call("POST", url, headers=headers, body=sent, effect=effect)
        return self._read(answer, effect, secret_key)

    def _read(self, answer: HttpAnswer, effect: Effect, secret_key: str) -> dict[str, Any]:
        content = answer.json()
        response = content.get("Response") if isinstance(content, dict) else None
        error = response.get("Error") if isinstance(response, dict) else None
        if error:
            message = str(error.get("Message") or "no message").replace(secret_key, MASK)
            raise explain_error(self.http.name, str(error.get("Code") or "Unknown"), message, effect)
        if not 200 <= answer.status < 300:
            raise self.http.error_for_status(answer, "", effect)
        if not isinstance(response, dict):
            raise self.http.no_answer("what came is not the gateway's JSON; is the address right?", effect)
        return response

    async def close(self) -> None:
        await self.http.close()


async def describe_resource(
    app_group: int, *, host: str, addr: str, uin: str, secret_id: str | Secret, secret_key: str | Secret,
    timeout: float = TIMEOUT,
) -> TimakerCapacity:  # fmt: skip
    """Returns what an app group has in total, and what is available."""
    client = TimakerClient(timeout=timeout)
    try:
        return await client.describe_resource(TimakerTaskInfo(host, addr, secret_id, secret_key, uin), app_group)
    finally:
        await client.close()


class TimakerAdapter(ExternalAdapter):
    """`parsers` turn jobs into timaker's parameters, by type. With `app_group`, a job is only created if the group has
    room for it, because timaker refuses it otherwise; with `account`, too, the dispatcher knows the room beforehand."""

    finds = False
    poll_every = 5.0

    def __init__(
        self,
        parsers: Mapping[str, TimakerJobParser],
        *,
        app_group: int | None = None,
        account: Callable[[], TimakerTaskInfo] | None = None,
        on_unclear: OnUnclear = "hold",
        timeout: float = TIMEOUT,
        name: str = "timaker",
    ) -> None:
        self.name = name
        self.client = TimakerClient(timeout=timeout, name=name)
        self.http = self.client.http
        self.parsers = dict(parsers)
        self.app_group = app_group
        self.on_unclear = on_unclear
        # With a look before each start, one after the other: two jobs must not count on the same card.
        self.starts_at_once = 4 if app_group is None else 1
        self._account = account

    def __repr__(self) -> str:
        return f"TimakerAdapter({sorted(self.parsers)!r}, app_group={self.app_group!r})"

    async def capacity(self) -> Capacity | None:
        if self.app_group is None or self._account is None:
            return None
        info = await asyncio.to_thread(self._account)
        return (await self.client.describe_resource(info, self.app_group)).to_capacity()

    async def describe_resource(
        self, app_group: int, *, host: str, addr: str, uin: str, secret_id: str | Secret, secret_key: str | Secret
    ) -> TimakerCapacity:
        """Returns what an app group has in total, and what is available."""
        return await self.client.describe_resource(TimakerTaskInfo(host, addr, secret_id, secret_key, uin), app_group)

    def request(self, job: Job, spec: Spec, name: str) -> Mapping[str, Any]:
        info = self._parse(job)
        body = {**mask_keys(create_body(job, spec, name, info)), "RequestId": "(a new one for every call)"}
        headers = {"X-TC-Action": "v1/CreateTrainingJob", "X-TC-Service": "timaker", "Host": info.host}
        return {"method": "POST", "url": f"{info.addr.rstrip('/')}/gateway", "headers": headers, "body": body}

    async def create(self, job: Job, spec: Spec, name: str) -> str:
        info = await self._info(job)
        body = create_body(job, spec, name, info)
        if self.app_group is None:
            return await self.client.create_training_job(info, body)
        await self._check_capacity(info, body)
        try:
            return await self.client.create_training_job(info, body)
        except Refused as error:
            # Is it refused because another took the room? The code for that is not public, so look once more.
            if await self._lacks(info, body):
                raise NoCapacity(error.message, code=error.code) from None
            raise

    async def describe_one(self, job: Job) -> JobDescription | None:
        info = await self._info(job)
        try:
            found = await self.client.describe_training_job(info, job.external_id or "")
        except Refused as error:
            if _MISSING.search(error.code):
                return None
            raise Transient(error.message, code=error.code) from None
        status = str(found.get("TrainingJobStatus") or "")
        state = cluster_state(status)
        return JobDescription(
            state,
            reason=describe_status(status),
            status=status,
            fault=_fault(status, found) if state == "failed" else None,
            hosts=(str(found["InstanceId"]),) if found.get("InstanceId") else (),
            started=parse_time(found.get("TrainingCreateTime")) if state != "preparing" else None,
            ended=parse_time(found.get("TrainingEndTime")),
        )

    async def stop(self, job: Job, grace: float) -> None:
        """timaker gives a job its own time to end; `grace` is not passed on."""
        if job.external_id is None:
            return
        found = await self.describe_one(job)
        if found is None or found.state in {"succeeded", "failed", "cancelled"} or found.status in STOPPING:
            return
        await self.client.stop_training_job(await self._info(job), job.external_id)

    def _parse(self, job: Job) -> TimakerTaskInfo:
        parser = self.parsers.get(job.type)
        if parser is None:
            raise Refused(
                f"{self.name} has no parser for jobs of type {job.type!r}; add one to the parsers of TimakerAdapter"
            )
        try:
            return parser(job)
        except DispatchError:
            raise
        except Exception as error:
            raise JobError(
                "Timaker.Parser", f"the parser of {job.type!r} failed: {type(error).__name__}: {error}"
            ) from error

    async def _info(self, job: Job) -> TimakerTaskInfo:
        return await asyncio.to_thread(self._parse, job)

    async def _check_capacity(self, info: TimakerTaskInfo, body: Mapping[str, Any]) -> None:
        if lacks := await self._lacks(info, body):
            raise NoCapacity(f"app group {self.app_group}: {lacks}")

    async def _lacks(self, info: TimakerTaskInfo, body: Mapping[str, Any]) -> str:
        assert self.app_group is not None
        there = await self.client.available_resources(info, self.app_group)
        return lacking(body["ResourceConfig"], there, elastic=info.is_elasticity)


def _of(info: TimakerTaskInfo, job_id: str) -> dict[str, Any]:
    return {"Uin": info.uin, "TiProjectId": info.project_id, "TrainingJobId": job_id}


def _fault(status: str, found: Mapping[str, Any]) -> JobFault:
    code, reason = found.get("FailureCode") or status, found.get("FailureReason") or "timaker gives no reason"
    origin: Literal["job", "dispatch"] = "dispatch" if status == "Evicted" else "job"
    return JobFault(f"Timaker.{code}", f"{status} on timaker: {shorten(reason)}", origin, retryable=True)
