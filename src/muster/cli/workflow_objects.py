"""Finds workflows by name, by `wf/NAME`, or by `@latest`, and describes their state in a word or a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson

from muster.cli.errors import CommandError
from muster.cli.session import LATEST, Session
from muster.kube.cluster import Cluster, StatusRowsCluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.objects import Object, creation_order, meta, name_of, namespace_of, parse_time, spec_of, status_of

if TYPE_CHECKING:
    from muster.kube.kinds import Kind


_WORDS = ("wf", "workflow", "workflows", "workflow.argoproj.io", "workflows.argoproj.io")
_LIGHT = (
    "metadata,items.metadata,items.spec.priority,items.spec.suspend,items.spec.shutdown,items.spec.arguments,"
    "items.status.phase,items.status.message,items.status.startedAt,items.status.finishedAt,items.status.progress"
)


def workflow_kind() -> Kind:
    from muster.workflows.kinds import WORKFLOW

    return WORKFLOW


def strip_workflow_type(word: str) -> str:
    """Returns x for `wf/x`, and '' for words with another type."""
    kind, slash, name = word.rpartition("/")
    return name if not slash or kind.lower() in _WORDS else ""


def with_full_status(cluster: Cluster, workflow: Object) -> Object:
    """Adds the nodes to the status. A cluster in this process stores them separately; over HTTP they are always
    there."""
    return cluster.with_status_rows(workflow, workflow_kind()) if isinstance(cluster, StatusRowsCluster) else workflow


async def find_workflow(session: Session, word: str) -> Object:
    """Raises a `CommandError` that suggests similar names."""
    name = await resolve_workflow_name(session, word)
    try:
        found = await session.cluster.get(workflow_kind(), name, session.namespace)
    except NotFound:
        raise CommandError(await _format_not_found(session, name)) from None
    return with_full_status(session.cluster, found)


async def resolve_workflow_name(session: Session, word: str) -> str:
    """Returns the name that the word stands for. Only for `@latest` must the workflow exist."""
    name = strip_workflow_type(word)
    if not name:
        raise CommandError(f'"{word}" is not a workflow; use a workflow name or {LATEST}')
    if name != LATEST:
        return name
    last = max(await list_workflow_summaries(session, session.namespace), key=creation_order, default=None)
    if last is None:
        raise CommandError(f"{LATEST}: there are no workflows in namespace {session.namespace}")
    return name_of(last)


def is_single_name(words: Sequence[str]) -> bool:
    """Whether the words can only be the name of a workflow."""
    return len(words) == 1 and "," not in words[0] and bool(strip_workflow_type(words[0]))


async def find_single_workflow(session: Session, words: Sequence[str]) -> Object | None:
    """Returns the workflow that a single word names, unless it is a type, as in `muster get my-workflow`."""
    if not is_single_name(words):
        return None
    word = words[0]
    if word == LATEST or "/" in word:
        return await find_workflow(session, word)
    if await _is_type(session, word):
        return None
    try:
        found = await session.cluster.get(workflow_kind(), word, session.namespace)
    except ApiError:
        return None
    return with_full_status(session.cluster, found)


async def check_type_exists(session: Session, word: str) -> None:
    """Raises a `CommandError` if the word is neither a type nor a workflow, but similar to one."""
    if await _is_type(session, word):
        return
    near = await _find_similar_names(session, word)
    if near:
        raise CommandError(
            f'error: "{word}" is neither a type nor a workflow in namespace {session.namespace}; did you mean '
            f"{' or '.join(near)}?"
        )


async def list_workflow_summaries(session: Session, namespace: str, labels: str = "") -> list[Object]:
    """Lists workflows without their nodes, which would be many megabytes for a thousand workflows."""
    if session.remote is not None:
        query = urlencode({"fields": _LIGHT, **({"listOptions.labelSelector": labels} if labels else {})})
        try:
            answer = orjson.loads(await session.remote.raw(f"/api/v1/workflows/{namespace}?{query}"))
            items: list[Object] = answer.get("items") or []
            return items
        except NotFound:
            pass  # the API server of a real cluster does not serve Argo's API
    page = await session.cluster.list(workflow_kind(), namespace, labels=labels)
    return page.items


async def _is_type(session: Session, word: str) -> bool:
    from muster.cli.session import find_kinds

    for _ in range(2):
        try:
            return bool(find_kinds(word, session.cluster.catalogue))
        except NotFound:
            await session.discover()
    return False


async def _format_not_found(session: Session, name: str) -> str:
    near = await _find_similar_names(session, name)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f'error: there is no workflow "{name}" in namespace {session.namespace}{hint}'


async def _find_similar_names(session: Session, name: str) -> list[str]:
    try:
        known = sorted(name_of(one) for one in await list_workflow_summaries(session, session.namespace))
    except ApiError:
        return []
    return get_close_matches(name, known, n=3, cutoff=0.6)


ENDED = ("Succeeded", "Failed", "Error")
_FAILURES_SHOWN = 3
STYLES = {
    "Pending": "yellow",
    "Running": "cyan",
    "Succeeded": "green",
    "Failed": "red",
    "Error": "red",
    "Skipped": "dim",
    "Omitted": "dim",
}


def is_workflow(obj: Object) -> bool:
    return obj.get("kind") == "Workflow" and str(obj.get("apiVersion")).startswith("argoproj.io/")


def failure_cause(workflow: Object) -> str:
    """Returns why the workflow failed. Its own message often only names the id of a failed child: then the messages of
    the failed nodes say more."""
    message = str(status_of(workflow).get("message") or "")
    names_child = message.startswith("child '")
    return (failure_message(workflow) if names_child or not message else "") or message


def failure_message(workflow: Object) -> str:
    """Returns the messages of the failed nodes."""
    nodes = (status_of(workflow).get("nodes") or {}).values()
    groups = ("Steps", "StepGroup", "DAG", "TaskGroup", "Retry")
    failed = [n for n in nodes if n.get("phase") in ("Failed", "Error") and n.get("type") not in groups]
    messages = [
        f"{n.get('displayName')}: {n['message']}" if n.get("message") else str(n.get("displayName")) for n in failed
    ]
    more = f", and {len(messages) - _FAILURES_SHOWN} more" if len(messages) > _FAILURES_SHOWN else ""
    return "; ".join(messages[:_FAILURES_SHOWN]) + more


def is_finished(workflow: Object) -> bool:
    return status_of(workflow).get("phase") in ENDED


def succeeded(workflow: Object) -> bool:
    return status_of(workflow).get("phase") == "Succeeded"


def phase_of(workflow: Object) -> str:
    return str(status_of(workflow).get("phase") or "Pending")


def status_word(workflow: Object) -> str:
    """Returns the phase, and whether the workflow is suspended or was stopped."""
    phase = phase_of(workflow)
    if phase == "Running" and is_suspended(workflow):
        return "Running (Suspended)"
    if phase == "Failed" and spec_of(workflow).get("shutdown"):
        return "Failed (Terminated)"
    return phase


def is_suspended(workflow: Object) -> bool:
    """Whether the workflow, or one of its steps, is suspended."""
    nodes = status_of(workflow).get("nodes") or {}
    return bool(spec_of(workflow).get("suspend")) or any(is_waiting(node) for node in nodes.values())


def is_waiting(node: Mapping[str, Any]) -> bool:
    """Whether the node waits to be resumed."""
    return node.get("type") == "Suspend" and node.get("phase") == "Running"


def format_suspension(workflow: Object) -> str:
    """Returns what the workflow waits for and the command that resumes it; '' if it does not wait."""
    status, spec = status_of(workflow), spec_of(workflow)
    resume = f"continue with `muster resume {name_of(workflow)}`"
    if is_finished(workflow):
        return ""
    if spec.get("suspend"):
        return f"suspended; {resume}"
    known = [*(spec.get("templates") or ()), *(status.get("storedTemplates") or {}).values()]
    timed = {t.get("name") for t in known if (t.get("suspend") or {}).get("duration")}
    nodes = (status.get("nodes") or {}).values()
    waiting = [str(n.get("displayName")) for n in nodes if is_waiting(n) and n.get("templateName") not in timed]
    return f"waits at {', '.join(waiting)}; {resume}" if waiting else ""


def format_workflow_time(thing: Mapping[str, Any], now: datetime) -> str:
    """Returns how long a workflow or node took, or has taken so far; '' if it has not started."""
    if not thing.get("startedAt"):
        return ""
    began = parse_time(str(thing["startedAt"]))
    ended = parse_time(str(thing["finishedAt"])) if thing.get("finishedAt") else now
    return format_seconds((ended - began).total_seconds())


def format_seconds(seconds: float) -> str:
    """Returns `7s`, `3m05s`, `2h07m` or `3d4h`."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def format_age(workflow: Object, now: datetime) -> str:
    created = meta(workflow).get("creationTimestamp")
    return format_seconds((now - parse_time(str(created))).total_seconds()) if created else ""


def summary_fields(workflow: Object, now: datetime) -> list[tuple[str, str]]:
    """Returns (label, text) for the lines above the tree."""
    spec, status = spec_of(workflow), status_of(workflow)
    resolved = status.get("storedWorkflowTemplateSpec") or spec
    lines = [
        ("Name", name_of(workflow)),
        ("Namespace", namespace_of(workflow)),
        ("ServiceAccount", str(resolved.get("serviceAccountName") or spec.get("serviceAccountName") or "")),
        ("Status", status_word(workflow)),
        ("Message", str(status.get("message") or "")),
    ]
    lines += [
        (str(condition.get("type")), str(condition.get("message") or condition.get("status") or ""))
        for condition in status.get("conditions") or ()
        if condition.get("type") not in ("Completed", "PodRunning")
    ]
    lines += [
        (label, _format_moment(text, now))
        for label, text in (
            ("Created", meta(workflow).get("creationTimestamp")),
            ("Started", status.get("startedAt")),
            ("Finished", status.get("finishedAt")),
        )
    ]
    lines += [("Duration", format_workflow_time(status, now))]
    if status.get("estimatedDuration") and not status.get("finishedAt"):
        lines += [("Estimated", format_seconds(status["estimatedDuration"]))]
    lines += [("Progress", str(status.get("progress") or ""))]
    shown = [(label, text) for label, text in lines if text]
    shown += _parameters("Parameters", (resolved.get("arguments") or {}).get("parameters") or ())
    shown += _parameters("Outputs", (status.get("outputs") or {}).get("parameters") or ())
    return shown


def _parameters(label: str, parameters: Any) -> list[tuple[str, str]]:
    values = [(f"  {p.get('name')}", str(p["value"])) for p in parameters if p.get("value") is not None]
    return [(label, ""), *values] if values else []


def _format_moment(text: Any, now: datetime) -> str:
    if not text:
        return ""
    moment = parse_time(str(text))
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC ({format_seconds((now - moment).total_seconds())} ago)"
