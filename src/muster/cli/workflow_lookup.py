"""Finds workflows by name, by `wf/NAME`, or by `@latest`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import orjson

from muster.cli.errors import CommandError
from muster.cli.session import Session
from muster.kube.cluster import Cluster, StatusRowsCluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.objects import Object, creation_order, name_of

if TYPE_CHECKING:
    from muster.kube.kinds import Kind

LATEST = "@latest"
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
