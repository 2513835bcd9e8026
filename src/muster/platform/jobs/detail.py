"""One job in detail: its members by role, its PodGroup, its events, and why it waits or failed."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from muster.kube.builtin import EVENT, PLUGIN_POD_GROUP, POD, POD_GROUP, SECRET
from muster.kube.cluster import Cluster
from muster.kube.columns import summarize_pod
from muster.kube.controller import Informer
from muster.kube.errors import ApiError
from muster.kube.events import event_selector, sort_events
from muster.kube.kinds import Kind
from muster.kube.objects import Condition, Object, name_of, namespace_of, owned_by, spec_of, status_of, uid_of
from muster.kube.pod_diagnosis import MAX_DIAGNOSED_PODS, diagnose_pod, select_pods_to_diagnose
from muster.platform.jobs.jobs import ENDED, job_kind_of, state_of
from muster.platform.jobs.validation import secrets_in
from muster.platform.records.jobs import JobMember, JobRole, JobState, MemberState
from muster.platform.resources.queues import PodGroupStatus, describe_pod_group
from muster.platform.runs.status import Masks
from muster.training.diagnosis import JobProblem, diagnose_job
from muster.training.gang import is_gang_member
from muster.training.kinds.base import JobKind
from muster.training.model import JOB_NAME, TrainingJob, replica_name

_PHASES: Mapping[str, MemberState] = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


def members_of(job: TrainingJob, pods: Iterable[Object], state: JobState) -> list[JobRole]:
    """Returns the members by role, including those without a Pod."""
    by_name = {name_of(pod): pod for pod in pods}
    return [
        JobRole(
            role.name,
            role.replicas,
            role.restart,
            [
                _member(replica.index, replica_name(job, replica), by_name.get(replica_name(job, replica)), state)
                for replica in role.members()
            ],
        )
        for role in job.roles
    ]


def trainer_containers(job_kind: JobKind, job: TrainingJob) -> dict[str, str]:
    """Returns the training container by the name of each Pod that the job has or will have."""
    return {
        replica_name(job, replica): str(job_kind.training_container(role.template.get("spec") or {}).get("name") or "")
        for role in job.roles
        for replica in role.members()
    }


def _member(index: int, name: str, pod: Object | None, state: JobState) -> JobMember:
    if pod is None:
        gone = state in ENDED
        return JobMember(index, name, "", "gone" if gone else "waiting", "", 0, "", None, None, None, "", [], [])
    summary, ends = summarize_pod(pod), _ends(pod)
    finished = [end["finishedAt"] for end in ends if end.get("finishedAt")]
    codes = [int(end.get("exitCode") or 0) for end in ends]
    phase = str(status_of(pod).get("phase") or "Pending")
    over = phase in ("Succeeded", "Failed")
    reasons = diagnose_pod(pod)
    return JobMember(
        index=index,
        pod=name,
        uid=uid_of(pod),
        state=_PHASES.get(phase, "waiting"),
        word=summary.status,
        restarts=summary.restarts,
        host=str(spec_of(pod).get("nodeName") or ""),
        started=status_of(pod).get("startTime"),
        finished=max(finished) if over and finished else None,
        exit_code=max(codes) if over and codes else None,
        message=reasons[0] if reasons else "",
        message_parts=[],
        containers=[str(each.get("name") or "") for each in spec_of(pod).get("containers") or ()],
    )


def _ends(pod: Object) -> Sequence[Mapping[str, Any]]:
    statuses = status_of(pod).get("containerStatuses") or ()
    return [end for each in statuses if (end := (each.get("state") or {}).get("terminated"))]


class JobParts(NamedTuple):
    """What a job consists of, as the cluster has it."""

    roles: list[JobRole]
    conditions: Sequence[Condition]
    group: PodGroupStatus | None
    gang: bool
    reasons: list[JobProblem]


async def describe_detail(cluster: Cluster, obj: Object) -> JobParts:
    job_kind = job_kind_of(obj)
    assert job_kind is not None
    pods, group = await pods_of(cluster, obj), await group_of(cluster, obj)
    told = select_pods_to_diagnose(pods)[:MAX_DIAGNOSED_PODS]
    pod_events = {uid_of(pod): await _events(cluster, POD, pod) for pod in told}
    job_events = await _events(cluster, job_kind.kind, obj)
    progress = job_kind.read_progress(obj)
    return JobParts(
        members_of(job_kind.read(obj), pods, state_of(progress)),
        status_of(obj).get("conditions") or (),
        describe_pod_group(group) if group is not None else None,
        group is not None or was_gang(pods, job_events),
        diagnose_job(obj, pods, group, job_events, pod_events),
    )


def was_gang(pods: Iterable[Object], job_events: Iterable[Object]) -> bool:
    """Whether a job without a PodGroup was a gang: its Pods say so, or the events do if the Pods are deleted, too."""
    if any(is_gang_member(pod) for pod in pods):
        return True
    return any("podgroup" in str(event.get("message") or "") for event in job_events)


async def pods_of(cluster: Cluster, obj: Object) -> list[Object]:
    """Returns the job's own Pods. The label alone proves nothing: any Pod may have it."""
    page = await cluster.list(POD, namespace_of(obj), labels=f"{JOB_NAME}={name_of(obj)}")
    return sorted(owned_by(page.items, obj), key=name_of)


async def group_of(cluster: Cluster, obj: Object) -> Object | None:
    """Returns the PodGroup of the job, of either kind; None if there is none."""
    for kind in (POD_GROUP, PLUGIN_POD_GROUP):
        try:
            return await cluster.get(kind, name_of(obj), namespace_of(obj))
        except ApiError:
            continue
    return None


async def events_about(cluster: Cluster, obj: Object) -> list[Object]:
    """Returns the events of the job, its current Pods and its PodGroup, the oldest first."""
    job_kind = job_kind_of(obj)
    assert job_kind is not None
    uids = {uid_of(obj), *(uid_of(pod) for pod in await pods_of(cluster, obj))}
    group = await group_of(cluster, obj)
    if group is not None:
        uids.add(uid_of(group))
    page = await cluster.list(EVENT, namespace_of(obj))
    return sort_events(event for event in page.items if (event.get("involvedObject") or {}).get("uid") in uids)


async def masks_for(cluster: Cluster, obj: Object) -> Masks:
    """Masks for the Secrets that its Pods use: logs must not show them."""
    texts: list[str] = []
    for name in sorted(await asyncio.to_thread(secrets_in, obj) - {""}):
        try:
            data = (await cluster.get(SECRET, name, namespace_of(obj))).get("data") or {}
        except ApiError:
            continue
        for value in data.values():
            try:
                text = b64decode(value).decode()
            except (NotBase64, UnicodeDecodeError):
                continue
            texts += [text, *text.splitlines()]
    return await asyncio.to_thread(Masks, texts)


@asynccontextmanager
async def watch_detail(cluster: Cluster, obj: Object) -> AsyncIterator[asyncio.Event]:
    """Yields an event that is set whenever the job, its Pods or its PodGroup change."""
    job_kind = job_kind_of(obj)
    assert job_kind is not None
    news = asyncio.Event()
    namespace, name = namespace_of(obj), name_of(obj)

    def changed(before: Object | None, after: Object | None) -> None:
        news.set()

    named = f"metadata.name={name}"
    async with AsyncExitStack() as stack:
        for kind, labels, fields in (
            (job_kind.kind, "", named),
            (POD, f"{JOB_NAME}={name}", ""),
            (POD_GROUP, "", named),
        ):
            if _is_known(cluster, kind):
                informer = Informer(cluster, kind, namespace, labels=labels, fields=fields, on_change=changed)
                await stack.enter_async_context(informer)
        yield news


async def _events(cluster: Cluster, kind: Kind, obj: Object) -> list[Object]:
    try:
        return sort_events((await cluster.list(EVENT, namespace_of(obj), fields=event_selector(kind, obj))).items)
    except ApiError:
        return []


def _is_known(cluster: Cluster, kind: Kind) -> bool:
    try:
        cluster.catalogue.of(kind.api_version, kind.kind)
    except ApiError:
        return False
    return True
