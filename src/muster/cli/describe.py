"""`muster describe`: finds objects, their events and the end of failed logs, and prints them in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from muster.cli.describe_kinds import (
    describe_any,
    describe_config_map,
    describe_job,
    describe_node,
    describe_pod,
    describe_secret,
)
from muster.cli.errors import CommandExit, format_api_error
from muster.cli.events import events_grid
from muster.cli.output import NONE, SectionGrid, Sections, echo, format_pairs, format_timestamp, render_sections, warn
from muster.cli.pod_logs import read_log_tails
from muster.cli.selection import format_nothing_found, select_objects
from muster.cli.session import AllNamespaces, Files, LabelSelector, Session, on_cluster
from muster.cli.workflow_objects import failure_message, format_suspension, is_finished, succeeded, summary_fields
from muster.cli.workflow_tree import format_tree
from muster.kube.columns import pod_status
from muster.kube.errors import ApiError, NotFound
from muster.kube.events import event_selector, sort_events
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Object,
    controller_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from muster.kube.pod_diagnosis import MAX_DIAGNOSED_PODS, diagnose_pod, select_pods_to_diagnose
from muster.kube.tables import format_duration
from muster.training.diagnosis import JobProblem, diagnose_job, job_state

TRAINING_GROUPS = ("kubeflow.org", "batch.paddlepaddle.org")
_JOB_EVENTS_SHOWN = 12


def describe_training_job(
    job: Object,
    pods: Sequence[Object],
    group: Object | None,
    events: Sequence[Object],
    pod_events: Mapping[str, Sequence[Object]],
    last_lines: Mapping[str, Mapping[str, Sequence[str]]],
    now: datetime,
) -> Sections:
    """Describes a training job: its progress and, if it waits or failed, why.

    `group` is the PodGroup with the job's name. The events and last log lines, by Pod uid, belong to the Pods that
    `telling` returns.
    """
    status = status_of(job)
    fields: Sections = [
        ("Name", name_of(job)),
        ("Namespace", namespace_of(job)),
        ("Kind", f"{job.get('kind')} ({job.get('apiVersion')})"),
        ("State", job_state(job)),
        ("Created", format_timestamp(meta(job).get("creationTimestamp"))),
    ]
    if status.get("startTime"):
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        seconds = (end - parse_time(status["startTime"])).total_seconds()
        fields.append(("Ended after" if status.get("completionTime") else "Active for", format_duration(seconds)))
    if group is not None:
        fields.append(("PodGroup", _format_pod_group(group)))
    found = _join_by_reason(diagnose_job(job, pods, group, events, pod_events))
    if found:
        fields.append(("Why", found))
    for pod in select_pods_to_diagnose(pods)[:MAX_DIAGNOSED_PODS]:
        for container, lines in (last_lines.get(uid_of(pod)) or {}).items():
            said: Sections = [("Log", "\n".join(lines))]
            fields.append((f'Last lines of pod/{name_of(pod)}, container "{container}"', said))
    fields.append(
        (
            "Pods",
            SectionGrid(("Name", "Status", "Restarts", "Node"), [_pod_status_row(pod) for pod in pods])
            if pods
            else NONE,
        )
    )
    hidden = len(events) - _JOB_EVENTS_SHOWN
    label = f"Events (the last {_JOB_EVENTS_SHOWN} of {len(events)})" if hidden > 0 else "Events"
    fields.append((label, events_grid(events[-_JOB_EVENTS_SHOWN:], now) if events else NONE))
    return fields


def _join_by_reason(found: Sequence[JobProblem]) -> list[str]:
    """Joins the Pods that wait for the same reason into one line."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for reason in found:
        about = "" if reason.code == "pod" else reason.about
        told.setdefault((reason.code, reason.detail, about), []).append(str(reason))
    return [
        ", ".join([text.removesuffix(f": {detail}") for text in texts[:-1]] + texts[-1:])
        for (_, detail, _), texts in told.items()
    ]


def _format_pod_group(group: Object) -> str:
    minimum = spec_of(group).get("minMember", 1)
    return f"{status_of(group).get('phase') or 'Pending'}, needs room for {minimum} Pods at once"


def _pod_status_row(pod: Object) -> tuple[str, str, str, str]:
    restarts = sum(c.get("restartCount", 0) for c in status_of(pod).get("containerStatuses") or ())
    return name_of(pod), pod_status(pod), str(restarts), str(spec_of(pod).get("nodeName") or NONE)


LOG_LINES = 10


@on_cluster
async def describe(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="(TYPE [NAME...] | TYPE/NAME...)")] = None,
    filename: Files = None,
    selector: LabelSelector = "",
    all_namespaces: AllNamespaces = False,
    show_events: Annotated[bool, typer.Option("--show-events/--no-show-events", help="Include events.")] = True,
) -> None:
    """Show objects in detail, with their events and why they wait or failed."""
    found = await select_objects(
        session, words or (), files=filename or (), labels=selector, all_namespaces=all_namespaces, prefixes=True
    )
    now = datetime.now(UTC)
    failed = False
    for number, (kind, obj) in enumerate(found.objects):
        if number:
            echo("\n")
        fields = await describe_object(session, kind, obj, now, show_events=show_events)
        echo("\n".join(render_sections(fields)))
    for error in found.errors:
        warn(format_api_error(error))
        failed = True
    if failed:
        raise CommandExit(1)
    if not found.objects:
        warn(format_nothing_found(session.namespace if found.namespaced and not all_namespaces else ""))


async def describe_object(
    session: Session, kind: Kind, obj: Object, now: datetime, *, show_events: bool = True
) -> Sections:
    events = await list_events(session, kind, obj) if show_events else []
    match (kind.group, kind.kind):
        case ("", "Pod"):
            return describe_pod(obj, events, await read_log_tails(session.cluster, obj, LOG_LINES), now)
        case ("", "Node"):
            return describe_node(obj, await _list_pods_on(session, name_of(obj)), events, now)
        case ("", "ConfigMap"):
            return describe_config_map(obj, events, now)
        case ("", "Secret"):
            return describe_secret(obj, events, now)
        case ("batch", "Job"):
            return describe_job(obj, await _list_pods_of(session, obj), events, now)
        case ("argoproj.io", "Workflow"):
            return await _describe_workflow(session, obj, events, now)
        case (group, _) if group in TRAINING_GROUPS and spec_of(obj):
            return await _describe_training_job(session, kind, obj, events, now)
        case _:
            return describe_any(obj, events, now)


async def _describe_training_job(
    session: Session, kind: Kind, job: Object, events: Sequence[Object], now: datetime
) -> Sections:
    pods = sorted(await _list_pods_of(session, job), key=name_of)
    pod_kind = session.cluster.catalogue.of("v1", "Pod")
    told = select_pods_to_diagnose(pods)[:MAX_DIAGNOSED_PODS]
    pod_events = {uid_of(pod): await list_events(session, pod_kind, pod) for pod in told}
    lines = {uid_of(pod): await read_log_tails(session.cluster, pod, LOG_LINES) for pod in told}
    group = await _find_pod_group(session, job)
    return describe_training_job(job, pods, group, events, pod_events, lines, now)


async def _describe_workflow(session: Session, obj: Object, events: Sequence[Object], now: datetime) -> Sections:
    from muster.cli.workflow_objects import with_full_status

    pods = sorted(await _list_pods_of(session, obj), key=name_of)
    lines = {
        uid_of(pod): await read_log_tails(session.cluster, pod, LOG_LINES)
        for pod in select_pods_to_diagnose(pods)[:MAX_DIAGNOSED_PODS]
    }
    return describe_workflow(with_full_status(session.cluster, obj), pods, events, lines, now)


async def _find_pod_group(session: Session, job: Object) -> Object | None:
    try:
        groups = session.cluster.catalogue.of("scheduling.volcano.sh/v1beta1", "PodGroup")
        return await session.cluster.get(groups, name_of(job), namespace_of(job))
    except ApiError:
        return None


async def list_events(session: Session, kind: Kind, obj: Object) -> list[Object]:
    """Returns the events of an object, oldest first; none, with a warning, if they cannot be read."""
    catalogue = session.cluster.catalogue
    try:
        page = await session.cluster.list(
            catalogue.of("v1", "Event"), namespace_of(obj) or "default", fields=event_selector(kind, obj)
        )
    except NotFound:
        return []
    except ApiError as error:
        warn(f"the events could not be read: {error.message}")
        return []
    return sort_events(page.items)


async def _list_pods_on(session: Session, node: str) -> Sequence[Object]:
    pods = session.cluster.catalogue.of("v1", "Pod")
    page = await session.cluster.list(pods, fields=f"spec.nodeName={node}")
    return [pod for pod in page.items if status_of(pod).get("phase") not in ("Succeeded", "Failed")]


async def _list_pods_of(session: Session, owner: Object) -> Sequence[Object]:
    pods = session.cluster.catalogue.of("v1", "Pod")
    page = await session.cluster.list(pods, namespace_of(owner))
    uid = uid_of(owner)
    return [pod for pod in page.items if (controller_of(pod) or {}).get("uid") == uid]


_EVENTS_SHOWN = 12


def describe_workflow(
    workflow: Object,
    pods: Sequence[Object],
    events: Sequence[Object],
    last_lines: Mapping[str, Mapping[str, Sequence[str]]],
    now: datetime,
) -> Sections:
    """Describes a workflow: its progress, the tree of its nodes and, if it waits or failed, why.

    `workflow` has its full status. The last log lines, by Pod uid, belong to the Pods that `telling` returns.
    """
    fields: Sections = list(summary_fields(workflow, now))
    fields.insert(2, ("Labels", format_pairs(labels_of(workflow)) or NONE))
    told = [] if succeeded(workflow) else select_pods_to_diagnose(pods)[:MAX_DIAGNOSED_PODS]
    found = [format_suspension(workflow), failure_message(workflow) if is_finished(workflow) else ""]
    found += [f"pod/{name_of(pod)}: {cause}" for pod in told for cause in diagnose_pod(pod)]
    if any(found):
        fields.append(("Why", [text for text in found if text]))
    for pod in told:
        for container, lines in (last_lines.get(uid_of(pod)) or {}).items():
            said: Sections = [("Log", "\n".join(lines))]
            fields.append((f'Last lines of pod/{name_of(pod)}, container "{container}"', said))
    fields.append(("Nodes", "\n".join(format_tree(workflow, now)) or NONE))
    hidden = len(events) - _EVENTS_SHOWN
    label = f"Events (the last {_EVENTS_SHOWN} of {len(events)})" if hidden > 0 else "Events"
    fields.append((label, events_grid(events[-_EVENTS_SHOWN:], now) if events else NONE))
    return fields
