"""`muster describe`: finds the objects, what happened to them and the end of failed logs, and prints it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from muster.cli.describe_kinds import describe_any, describe_config_map, describe_job, describe_node, describe_secret
from muster.cli.describe_pod import describe_pod
from muster.cli.describe_training import GROUPS, describe_training_job
from muster.cli.failures import Ended, explain
from muster.cli.logtail import last_lines
from muster.cli.options import AllNamespaces, Files, Labels, on_cluster
from muster.cli.output import say, warn
from muster.cli.sections import Fields, render
from muster.cli.selection import nothing_found, select
from muster.cli.session import Session
from muster.kube.errors import ApiError, NotFound
from muster.kube.happenings import in_order, selector
from muster.kube.kinds import Kind
from muster.kube.objects import Object, controller_of, name_of, namespace_of, spec_of, status_of, uid_of
from muster.kube.why import PODS_SHOWN, telling

LOG_LINES = 10


@on_cluster
async def describe(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="(TYPE [NAME...] | TYPE/NAME...)")] = None,
    filename: Files = None,
    selector: Labels = "",
    all_namespaces: AllNamespaces = False,
    show_events: Annotated[bool, typer.Option("--show-events/--no-show-events", help="With the events.")] = True,
) -> None:
    """Show objects in detail, with their events and why they wait or failed."""
    found = await select(
        session, words or (), files=filename or (), labels=selector, all_namespaces=all_namespaces, prefixes=True
    )
    now = datetime.now(UTC)
    failed = False
    for number, (kind, obj) in enumerate(found.objects):
        if number:
            say("\n")
        fields = await described(session, kind, obj, now, show_events=show_events)
        say("\n".join(render(fields)))
    for error in found.errors:
        warn(explain(error))
        failed = True
    if failed:
        raise Ended(1)
    if not found.objects:
        warn(nothing_found(session.namespace if found.namespaced and not all_namespaces else ""))


async def described(session: Session, kind: Kind, obj: Object, now: datetime, *, show_events: bool = True) -> Fields:
    events = await events_of(session, kind, obj) if show_events else []
    match (kind.group, kind.kind):
        case ("", "Pod"):
            return describe_pod(obj, events, await last_lines(session.cluster, obj, LOG_LINES), now)
        case ("", "Node"):
            return describe_node(obj, await _pods_on(session, name_of(obj)), events, now)
        case ("", "ConfigMap"):
            return describe_config_map(obj, events, now)
        case ("", "Secret"):
            return describe_secret(obj, events, now)
        case ("batch", "Job"):
            return describe_job(obj, await _pods_of(session, obj), events, now)
        case ("argoproj.io", "Workflow"):
            return await _workflow(session, obj, events, now)
        case (group, _) if group in GROUPS and spec_of(obj):
            return await _training_job(session, kind, obj, events, now)
        case _:
            return describe_any(obj, events, now)


async def _training_job(session: Session, kind: Kind, job: Object, events: Sequence[Object], now: datetime) -> Fields:
    pods = sorted(await _pods_of(session, job), key=name_of)
    pod_kind = session.cluster.catalogue.of("v1", "Pod")
    told = telling(pods)[:PODS_SHOWN]
    pod_events = {uid_of(pod): await events_of(session, pod_kind, pod) for pod in told}
    lines = {uid_of(pod): await last_lines(session.cluster, pod, LOG_LINES) for pod in told}
    group = await _group_of(session, job)
    return describe_training_job(job, pods, group, events, pod_events, lines, now)


async def _workflow(session: Session, obj: Object, events: Sequence[Object], now: datetime) -> Fields:
    from muster.cli.describe_workflow import describe_workflow
    from muster.cli.workflow_lookup import whole

    pods = sorted(await _pods_of(session, obj), key=name_of)
    lines = {uid_of(pod): await last_lines(session.cluster, pod, LOG_LINES) for pod in telling(pods)[:PODS_SHOWN]}
    return describe_workflow(whole(session.cluster, obj), pods, events, lines, now)


async def _group_of(session: Session, job: Object) -> Object | None:
    try:
        groups = session.cluster.catalogue.of("scheduling.volcano.sh/v1beta1", "PodGroup")
        return await session.cluster.get(groups, name_of(job), namespace_of(job))
    except ApiError:
        return None


async def events_of(session: Session, kind: Kind, obj: Object) -> list[Object]:
    """Oldest first. A cluster that shows its events to nobody has none."""
    catalogue = session.cluster.catalogue
    try:
        page = await session.cluster.list(
            catalogue.of("v1", "Event"), namespace_of(obj) or "default", fields=selector(kind, obj)
        )
    except NotFound:
        return []
    except ApiError as error:
        warn(f"the events could not be read: {error.message}")
        return []
    return in_order(page.items)


async def _pods_on(session: Session, node: str) -> Sequence[Object]:
    pods = session.cluster.catalogue.of("v1", "Pod")
    page = await session.cluster.list(pods, fields=f"spec.nodeName={node}")
    return [pod for pod in page.items if status_of(pod).get("phase") not in ("Succeeded", "Failed")]


async def _pods_of(session: Session, owner: Object) -> Sequence[Object]:
    pods = session.cluster.catalogue.of("v1", "Pod")
    page = await session.cluster.list(pods, namespace_of(owner))
    uid = uid_of(owner)
    return [pod for pod in page.items if (controller_of(pod) or {}).get("uid") == uid]
