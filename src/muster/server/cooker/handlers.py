"""What the routes of MLP Cooker do. Each returns the `data` of its answer: the same document as AIHC's action."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection

from muster.dispatch.aihc.adapter import AihcAdapter
from muster.dispatch.aihc.client import AihcClient
from muster.dispatch.model import Job, Line, Resources
from muster.kube.builtin import NODE, POD, QUEUE
from muster.kube.errors import ApiError
from muster.kube.manifests import dump
from muster.kube.objects import Object, name_of, parse_time
from muster.platform.database.queries import new_id
from muster.platform.errors import InvalidProblem, NotFoundProblem
from muster.platform.jobs.detail import events_about
from muster.platform.jobs.jobs import find_names, user_ids
from muster.platform.permissions import Actor, may
from muster.platform.records.resources import StorageRoot
from muster.platform.resources.queues import QueueStatus, describe_queue
from muster.platform.resources.resources import all_clusters, all_roots
from muster.platform.runs.logs import LogSource, read_log_lines
from muster.platform.runs.node_detail import event_summary
from muster.platform.users.accounts import get_user
from muster.platform.users.tokens import get_token, revoke_token
from muster.server.cooker import apps, responses
from muster.server.cooker.responses import POOL
from muster.server.cooker.task_params import TaskDefaults, TaskParams, parse_task_params
from muster.server.cooker.training_manifest import ClusterPlaces, training_manifest
from muster.server.dispatch import jobs as stored
from muster.server.dispatch.jobs import NAMESPACE_LABEL, DispatchFilter
from muster.server.dispatch.submit import NO_RESOURCES, NewJob, check_manifest, read_resources, submit_job
from muster.server.dispatch.types import TASK
from muster.server.platform.services import Services
from muster.training.model import JOB_NAME

AIHC: Final = "aihc"
_PAGE_SIZE: Final = 10
_MOST_ITEMS: Final = 500
_LOG_LINES: Final = 1_000
_LOG_BYTES: Final = 1_000_000
_STOP_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Call:
    """A request of a user."""

    here: Services
    who: Actor
    query: Mapping[str, str]
    body: Any
    parameters: dict[str, str] = field(default_factory=dict)
    """Of the path."""
    message: str = "ok"

    def given(self, *names: str) -> str:
        """The first of these fields that the body or the query has, as text."""
        sent: Mapping[str, Any] = self.body if isinstance(self.body, Mapping) else {}
        for name in names:
            value = sent.get(name) if sent.get(name) is not None else self.query.get(name)
            if isinstance(value, str | int | float) and value != "" and not isinstance(value, bool):
                return str(value)
        return ""

    def number(self, name: str, usual: int, most: int) -> int:
        text = self.given(name)
        if not text:
            return usual
        if not text.isdecimal() or len(text) > 12 or not 1 <= int(text) <= most:
            raise InvalidProblem.field(name, "cooker.type", wanted=f"a whole number from 1 to {most}")
        return int(text)


async def current_user(call: Call) -> dict[str, Any]:
    user = await call.here.database.read(lambda connection: get_user(connection, call.who.id))
    access = "admin" if call.who.admin else "user"
    return {"name": user.display_name or user.name, "userid": user.id, "avatar": "", "email": "", "access": access}


async def log_out(call: Call) -> dict[str, Any]:
    """Revokes the token, if a login made it. An API token that was created on purpose stays valid."""

    def write(connection: Connection) -> None:
        if get_token(connection, call.who.credential).name == responses.LOGIN_TOKEN:
            revoke_token(connection, call.who, call.who.credential)

    await call.here.database.write(write)
    return {}


# Jobs


async def create_job(call: Call) -> dict[str, Any]:
    sent = call.body if isinstance(call.body, Mapping) else {}
    here, aihc = call.here, call.here.settings.dispatch.aihc
    defaults = TaskDefaults(aihc.queue, aihc.pfs, aihc.bucket) if aihc is not None else TaskDefaults()
    params = parse_task_params(sent.get("taskParams"), defaults)
    team = call.given("team")
    args: dict[str, Any] = {"task": params}
    warnings: list[str] = []
    if aihc is not None and params["queue"] not in (aihc.queue, *aihc.queues):
        known = sorted({aihc.queue, *aihc.queues})
        raise InvalidProblem.field("taskParams.queue", "cooker.queue", name=params["queue"], queues=known)
    if aihc is None:
        manifest, warnings = training_manifest(params, await _places(call))
        args["manifest"] = await check_manifest(here, call.who, dump(manifest), team)
    new = NewJob(
        name=params["name"],
        type=TASK,
        args=args,
        adapter=here.dispatch.adapter_for(AIHC if aihc is not None else "").name,
        team=team,
        priority=responses.priority_number(params["priority"]),
        resources=read_resources(describe_resources(params)) if aihc is not None else _gang(params),
        retries=params.get("maxRetries", 0),
        timeout=params.get("timeout"),
        key=call.given("key"),
    )
    job = await submit_job(here, call.who, new)
    return _receipt(job) | ({"warnings": warnings} if warnings else {})


def _gang(params: TaskParams) -> Resources:
    return replace(NO_RESOURCES, nodes=params["jobSpec"]["replicas"])


def describe_resources(params: TaskParams) -> dict[str, Any]:
    """What each machine needs, in the dispatcher's units."""
    spec = params["jobSpec"]
    amounts = {each["name"]: each["quantity"] for each in spec["resources"]}
    cards = {name: number for name, number in amounts.items() if "/" in name}
    found: dict[str, Any] = {"nodes": spec["replicas"], "rdma": spec["enableRDMA"]}
    if "cpu" in amounts:
        found["cpu"] = float(amounts["cpu"])
    if "memory" in amounts:
        found["memory"] = f"{amounts['memory']}Gi"
    if cards:
        name, number = next(iter(cards.items()))
        found |= {"gpu": float(number), "gpu_type": name.rpartition("/")[2] if name.startswith("baidu.com/") else ""}
    return found


async def list_jobs(call: Call) -> dict[str, Any]:
    status, owner = call.given("status"), call.given("owner")
    size, number = call.number("pageSize", _PAGE_SIZE, _MOST_ITEMS), call.number("pageNumber", 1, 1_000_000)

    def look(connection: Connection) -> tuple[list[Job], int]:
        only = DispatchFilter(
            q=call.given("keyword"),
            states=tuple(responses.states_with_status(status)) if status else (),
            types=(TASK,),
            owners=user_ids(connection, owner) if owner else None,
        )
        if status and not only.states:
            return [], 0
        queue = call.given("queueID", "queueId", "queue")
        return stored.numbered_page(connection, call.who, only, queue, size, (number - 1) * size)

    found, total = await call.here.database.read(look)
    names = await _owners(call, found)
    described = [responses.describe_job(job, names.get(job.creator, "")) for job in found]
    return {"requestId": new_id(), "totalCount": total, "jobs": described}


async def get_job(call: Call) -> dict[str, Any]:
    job = await _find(call)
    names = await _owners(call, [job])
    described = responses.describe_job(job, names.get(job.creator, ""))
    if call.given("needDetail") in ("true", "1"):
        if job.on == AIHC:
            remote = await _ask_about(call, job, lambda client, queue, id: client.describe_job(queue, id, detail=True))
            described |= {name: remote[name] for name in ("pods", "jobTimeLine") if name in remote}
            described.setdefault("pods", [])
        else:
            described["pods"] = [responses.describe_pod(pod) for pod in await _pods(call, job)]
    return {"requestId": new_id(), "job": described}


async def stop_job(call: Call) -> dict[str, Any]:
    identifier = call.parameters["job"]
    job = await call.here.database.write(lambda connection: stored.cancel_job(connection, call.who, identifier, 30.0))
    return _receipt(job)


async def delete_job(call: Call) -> dict[str, Any]:
    """Stops the job first, if it has not ended. One that takes long to stop is deleted by a second request."""
    job = await _find(call, "delete")
    if not job.has_ended:
        await call.here.database.write(lambda connection: stored.cancel_job(connection, call.who, job.id, 10.0))
        await call.here.dispatch.until_ended(job.id, _STOP_SECONDS)
    await call.here.dispatch.delete(call.who, job.id)
    return _receipt(job)


async def job_events(call: Call) -> dict[str, Any]:
    job = await _find(call)
    history = await call.here.database.read(lambda connection: stored.events_of(connection, job))
    found = [
        {
            "time": each.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "type": "Warning" if each.state == "failed" else "Normal",
            "reason": each.state.capitalize(),
            "message": each.reason,
            "count": 1,
        }
        for each in history
    ]
    obj = await _object(call, job)
    if obj is not None:
        found += [event_summary(event) for event in await events_about(call.here.cluster, obj)]
    if job.on == AIHC:
        remote = await _ask_about(call, job, _remote_events)
        found += [_as_event(event) for event in remote.get("events") or ()]
    return {"requestId": new_id(), **responses.describe_events(found)}


async def pod_log(call: Call) -> dict[str, Any]:
    """Lines from `marker` on: `nextMarker` is '' at the end of what was written so far."""
    job, pod = await _find(call), call.parameters["pod"]
    if job.on == AIHC and job.external_id:
        return await _ask_about(call, job, partial(_remote_log, call, pod))
    most = call.number("maxLines", _LOG_LINES, 10_000)
    room = call.number("chunkSize", _LOG_BYTES, _LOG_BYTES)
    marker = call.given("marker") or "0"
    if not marker.isdecimal() or len(marker) > 12:
        raise InvalidProblem.field("marker", "page.cursor")
    keywords = call.given("keywords")
    since, until = (call.number(name, 0, 10**11) for name in ("startTime", "endTime"))
    lines: list[str] = []
    async with aclosing(_lines_of_pod(call, job, pod, int(marker))) as written:
        async for number, line in written:
            if not _fits(line, keywords, since, until):
                continue
            room -= len(line.text)
            if lines and (len(lines) == most or room < 0):
                return {"requestId": new_id(), "logs": lines, "nextMarker": str(number - 1)}
            lines.append(line.text)
    return {"requestId": new_id(), "logs": lines, "nextMarker": ""}


async def _lines_of_pod(call: Call, job: Job, pod: str, after: int) -> AsyncGenerator[tuple[int, Line]]:
    """Yields lines after this one, with their numbers: from the Pods while there are any, else from what the dispatcher
    has kept. A Pod may be removed before the others; its log is there as long as theirs. Raises NotFound for a Pod
    that is not the job's."""
    pods = await _pods(call, job)
    if pods:
        if pod not in map(name_of, pods) and not pod.startswith(f"{job.external_name}-"):
            raise NotFoundProblem.of("cooker.pod", pod=pod[:253], pods=[name_of(each) for each in pods])
        source = LogSource(job.labels[NAMESPACE_LABEL], pod, "")
        async for chunk in read_log_lines(call.here.cluster, source, follow=False, ended=_yes, after=after):
            for each in chunk:
                yield each.number, Line(each.text, pod, parse_time(each.time) if each.time else None)
        return
    number = 0
    async for line in call.here.dispatch.logs(job.id):
        owner, text = line.source, line.text
        if not owner and job.resources.nodes > 1:
            owner, _, text = line.text.partition(" | ")
        if owner in ("", pod):
            number += 1
            if number > after:
                yield number, Line(text, pod, line.time)


async def _yes() -> bool:
    return True


async def web_terminal(call: Call) -> dict[str, Any]:
    job = await _find(call)
    if job.on == AIHC:
        raise NotFoundProblem.of("cooker.terminal-aihc")
    pod = call.parameters.get("pod", "POD")
    raise NotFoundProblem.of("cooker.terminal", namespace=job.labels.get(NAMESPACE_LABEL, "default"), pod=pod)


# Pools, queues and application templates


async def list_pools(call: Call) -> dict[str, Any]:
    kind = call.given("resourcePoolType") or "common"
    remote = await call.here.dispatch.ask_aihc(lambda aihc: aihc.client.describe_resource_pools(kind))
    if remote is not None:
        return remote
    return {"requestId": new_id(), "totalCount": 1, "resourcePools": [await _pool(call)]}


async def get_pool(call: Call) -> dict[str, Any]:
    identifier = call.parameters["pool"]
    remote = await call.here.dispatch.ask_aihc(lambda aihc: aihc.client.describe_resource_pool(identifier))
    if remote is not None:
        return remote
    if identifier != POOL:
        raise NotFoundProblem.named("resource pool", identifier)
    return {"requestId": new_id(), "resourcePool": await _pool(call)}


async def list_queues(call: Call) -> dict[str, Any]:
    aihc = call.here.settings.dispatch.aihc
    pool = call.given("resourcePoolId") or (aihc.pool if aihc is not None else POOL)
    wants_details = call.given("includeDetails") in ("true", "1")
    remote = await call.here.dispatch.ask_aihc(lambda adapter: _remote_queues(adapter, pool, wants_details))
    if remote is not None:
        return remote
    if pool != POOL:
        raise NotFoundProblem.named("resource pool", pool)
    keyword = call.given("keyword")
    shown = [each for each in responses.describe_queues(await _queues(call)) if keyword in each["queueName"]]
    if wants_details:
        shown = [{**each, "detail": each} for each in shown]
    return {"requestId": new_id(), "totalCount": len(shown), "queues": shown}


async def get_queue(call: Call) -> dict[str, Any]:
    identifier = call.parameters["queue"]
    remote = await call.here.dispatch.ask_aihc(lambda aihc: aihc.client.describe_queue(identifier))
    if remote is not None:
        return remote
    for queue in responses.describe_queues(await _queues(call)):
        if queue["queueId"] == identifier:
            return {"requestId": new_id(), "queue": queue}
    raise NotFoundProblem.named("queue", identifier)


async def list_apps(call: Call) -> list[dict[str, Any]]:
    return await asyncio.to_thread(apps.list_apps, apps_folder(call.here))


async def get_app(call: Call) -> dict[str, Any]:
    name = call.parameters["app"]
    found = await asyncio.to_thread(apps.read_app, apps_folder(call.here), name)
    if found is None:
        raise NotFoundProblem.named("application template", name)
    return found


def apps_folder(here: Services) -> Any:
    return here.settings.cooker.apps or here.settings.home / "apps"


# What they share


def _receipt(job: Job) -> dict[str, Any]:
    return {"requestId": new_id(), "jobId": job.id, "jobName": job.name}


async def _find(call: Call, action: str = "view") -> Job:
    identifier = call.parameters["job"]
    return await call.here.database.read(lambda connection: stored.find_job(connection, call.who, identifier, action))


async def _owners(call: Call, found: Sequence[Job]) -> dict[str, str]:
    creators = [job.creator for job in found]
    known = await call.here.database.read(
        lambda connection: find_names(connection, of_users=creators, of_teams=(), of_runs=())
    )
    return known.users


async def _places(call: Call) -> ClusterPlaces:
    """What of this cluster the user may use."""
    settings, who = call.here.settings.cooker, call.who

    def look(connection: Connection) -> tuple[list[StorageRoot], set[str]]:
        roots = [root for root in all_roots(connection) if may(who, "use", root.subject)]
        closed = {each.queue for each in all_clusters(connection) if not may(who, "use", each.subject)}
        return roots, closed

    roots, closed = await call.here.database.read(look)
    queues = {each.name for each in await _queues(call)} - closed
    return ClusterPlaces(
        settings.datasources, {root.name: root for root in roots}, frozenset(queues), settings.accelerators
    )


async def _pods(call: Call, job: Job) -> list[Object]:
    namespace = job.labels.get(NAMESPACE_LABEL, "")
    if job.on == AIHC or not job.external_name or not namespace:
        return []
    labels = f"{JOB_NAME}={job.external_name}"
    return sorted((await call.here.cluster.list(POD, namespace, labels=labels)).items, key=name_of)


async def _object(call: Call, job: Job) -> Object | None:
    """The training job on this cluster; None if there is none now."""
    manifest = job.args.get("manifest")
    namespace = job.labels.get(NAMESPACE_LABEL, "")
    if not isinstance(manifest, Mapping) or not job.external_name:
        return None
    try:
        kind = call.here.cluster.catalogue.of_object(dict(manifest))
        return await call.here.cluster.get(kind, job.external_name, namespace)
    except ApiError:
        return None


def _fits(line: Line, keywords: str, since: int, until: int) -> bool:
    if keywords and keywords not in line.text:
        return False
    at = line.time.timestamp() if line.time else None
    return at is None or ((not since or at >= since) and (not until or at <= until))


async def _queues(call: Call) -> list[QueueStatus]:
    try:
        found = (await call.here.cluster.list(QUEUE)).items
    except ApiError:
        return []  # a cluster without Volcano
    return [describe_queue(queue, None) for queue in sorted(found, key=name_of)]


async def _pool(call: Call) -> dict[str, Any]:
    nodes = (await call.here.cluster.list(NODE)).items
    return responses.describe_pool("local", nodes)


AskAihc: TypeAlias = Callable[[AihcClient, str, str], Awaitable[Mapping[str, Any]]]
"""A question about a job: the client, the queue, and AIHC's id of the job."""


async def _ask_about(call: Call, job: Job, question: AskAihc) -> dict[str, Any]:
    """Returns what AIHC says about a job; {} if it has not been started there. Raises Unavailable."""
    identifier, _, queue = (job.external_id or "").partition("@")
    if not identifier:
        return {}
    found = await call.here.dispatch.ask_aihc(
        lambda aihc: question(aihc.client, queue or aihc.settings.queues[0], identifier)
    )
    return found or {}


async def _remote_log(call: Call, pod: str, client: AihcClient, queue: str, identifier: str) -> dict[str, Any]:
    names = ("keywords", "startTime", "endTime", "chunkSize")
    more = {name: call.given(name) for name in names if call.given(name)}
    lines = call.number("maxLines", 0, 10_000) or None
    return await client.describe_job_logs(queue, identifier, pod, marker=call.given("marker"), max_lines=lines, **more)


async def _remote_events(client: AihcClient, queue: str, identifier: str) -> dict[str, Any]:
    return {"events": await client.describe_job_events(queue, identifier)}


def _as_event(event: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: str(event.get(name) or "") for name in ("reason", "message")}
    count = event.get("count")
    return {
        **texts,
        "time": str(event.get("lastTimestamp") or ""),
        "type": str(event.get("type") or "Normal"),
        "count": count if isinstance(count, int) else 1,
    }


async def _remote_queues(aihc: AihcAdapter, pool: str, wants_details: bool) -> dict[str, Any]:
    answer = await aihc.client.describe_queues(pool)
    queues: list[dict[str, Any]] = answer.get("queues") or []
    if wants_details and queues:
        details = await asyncio.gather(*(aihc.client.describe_queue(str(each.get("queueId"))) for each in queues))
        answer["queues"] = [
            {**each, "detail": detail.get("queue") or detail} for each, detail in zip(queues, details, strict=True)
        ]
    return answer
