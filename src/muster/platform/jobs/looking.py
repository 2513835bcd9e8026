"""All about one job: its members, its PodGroup, what was told of them, and why it waits or has failed."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from muster.kube.builtin import EVENT, PLUGIN_POD_GROUP, POD, POD_GROUP, SECRET
from muster.kube.cluster import Cluster
from muster.kube.conditions import Condition
from muster.kube.errors import ApiError
from muster.kube.happenings import in_order, selector
from muster.kube.informer import Informer
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, namespace_of, owned_by, status_of, uid_of
from muster.kube.why import PODS_SHOWN, telling
from muster.platform.jobs.checking import secrets_in
from muster.platform.jobs.jobs import dialect_for, state_of
from muster.platform.jobs.members import RoleMembers, members_of
from muster.platform.resources.lines import Gang, gang
from muster.platform.runs.masks import Masks
from muster.training.names import JOB_NAME
from muster.training.why import Reason, reasons


@dataclass(frozen=True, slots=True)
class Looked:
    roles: list[RoleMembers]
    conditions: Sequence[Condition]
    group: Gang | None
    reasons: list[Reason]


async def look_at(cluster: Cluster, obj: Object) -> Looked:
    dialect = dialect_for(obj)
    assert dialect is not None
    pods, group = await pods_of(cluster, obj), await group_of(cluster, obj)
    told = telling(pods)[:PODS_SHOWN]
    pod_events = {uid_of(pod): await _events(cluster, POD, pod) for pod in told}
    progress = dialect.read_progress(obj)
    return Looked(
        members_of(dialect.read(obj), pods, state_of(progress)),
        status_of(obj).get("conditions") or (),
        gang(group) if group is not None else None,
        reasons(obj, pods, group, await _events(cluster, dialect.kind, obj), pod_events),
    )


async def pods_of(cluster: Cluster, obj: Object) -> list[Object]:
    """Those that are its own: anybody's Pod may have such a label."""
    page = await cluster.list(POD, namespace_of(obj), labels=f"{JOB_NAME}={name_of(obj)}")
    return sorted(owned_by(page.items, obj), key=name_of)


async def group_of(cluster: Cluster, obj: Object) -> Object | None:
    """The PodGroup of its name, in whichever flavour the cluster has."""
    for kind in (POD_GROUP, PLUGIN_POD_GROUP):
        try:
            return await cluster.get(kind, name_of(obj), namespace_of(obj))
        except ApiError:
            continue
    return None


async def events_about(cluster: Cluster, obj: Object) -> list[Object]:
    """Of the job, the Pods it has now, and its PodGroup; the oldest first."""
    dialect = dialect_for(obj)
    assert dialect is not None
    uids = {uid_of(obj), *(uid_of(pod) for pod in await pods_of(cluster, obj))}
    group = await group_of(cluster, obj)
    if group is not None:
        uids.add(uid_of(group))
    page = await cluster.list(EVENT, namespace_of(obj))
    return in_order(event for event in page.items if (event.get("involvedObject") or {}).get("uid") in uids)


async def masks_for(cluster: Cluster, obj: Object) -> Masks:
    """What its Pods are given as Secrets is not for a log to show."""
    texts: list[str] = []
    for name in sorted(secrets_in(obj) - {""}):
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
    return Masks(texts)


@asynccontextmanager
async def looking_out(cluster: Cluster, obj: Object) -> AsyncIterator[asyncio.Event]:
    """Set whenever something changes about the job, its Pods or its PodGroup, for as long as the block lasts."""
    dialect = dialect_for(obj)
    assert dialect is not None
    news = asyncio.Event()
    namespace, name = namespace_of(obj), name_of(obj)

    def changed(before: Object | None, after: Object | None) -> None:
        news.set()

    named = f"metadata.name={name}"
    async with AsyncExitStack() as stack:
        for kind, labels, fields in (
            (dialect.kind, "", named),
            (POD, f"{JOB_NAME}={name}", ""),
            (POD_GROUP, "", named),
        ):
            if _is_known(cluster, kind):
                informer = Informer(cluster, kind, namespace, labels=labels, fields=fields, on_change=changed)
                await stack.enter_async_context(informer)
        yield news


async def _events(cluster: Cluster, kind: Kind, obj: Object) -> list[Object]:
    try:
        return in_order((await cluster.list(EVENT, namespace_of(obj), fields=selector(kind, obj))).items)
    except ApiError:
        return []


def _is_known(cluster: Cluster, kind: Kind) -> bool:
    try:
        cluster.catalogue.of(kind.api_version, kind.kind)
    except ApiError:
        return False
    return True
