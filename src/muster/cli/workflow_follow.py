"""Follows workflows until they finish: the tree, the logs, or only the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import colorize, echo, pick_color, supports_color
from muster.cli.pod_logs import visible_text
from muster.cli.selection import watch_object
from muster.cli.session import Session
from muster.cli.workflow_objects import (
    failure_cause,
    is_finished,
    status_word,
    succeeded,
    with_full_status,
    workflow_kind,
)
from muster.cli.workflow_tree import watch_until_finished
from muster.kube.cluster import LogQuery
from muster.kube.objects import Object, name_of, namespace_of, spec_of, status_of

if TYPE_CHECKING:
    from muster.workflows.logs import LogEntry


@dataclass(frozen=True, slots=True)
class LogView:
    node: str = ""
    container: str = "main"
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None


async def print_logs(session: Session, workflow: Object, view: LogView) -> None:
    from muster.workflows.logs import LogSelection, read_log_lines

    query = LogQuery(
        follow=view.follow,
        previous=view.previous,
        tail_lines=view.tail,
        since_seconds=view.since,
    )
    pods = find_pods_below(workflow, view.node) if view.node else {}
    printer = _Printer(view.timestamps)
    jobs = _creates_objects(workflow)
    if jobs:
        await session.discover()  # the workflow may create objects of kinds that only the server knows
    wanted = LogSelection(
        pods=tuple(pods.values()), container=view.container, query=query, jobs=jobs, nodes=tuple(pods)
    )
    async for bunch in read_log_lines(session.cluster, workflow, wanted):
        for entry in bunch:
            printer.put(entry)


def find_pods_below(workflow: Object, word: str) -> dict[str, str]:
    """Returns the Pods of a node, or of all nodes inside it, by node id. The word is the id, name or display name of
    the node, or the name of its Pod. Raises a `CommandError` that suggests similar names."""
    from muster.workflows.logs import pod_name_of

    nodes: dict[str, Object] = status_of(workflow).get("nodes") or {}
    pods = {one: pod_name_of(workflow, node) for one, node in nodes.items() if node.get("type") == "Pod"}
    meant = [
        one
        for one, node in nodes.items()
        if word in (one, node.get("name"), node.get("displayName"), pods.get(one))
    ]  # fmt: skip
    if not meant:
        known = sorted({str(node.get("displayName")) for node in nodes.values()})
        near = get_close_matches(word, known, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise CommandError(f'error: workflow {name_of(workflow)} has no node "{word}"{hint}')
    inside = _nodes_inside(nodes, meant)
    found = {one: pod for one, pod in pods.items() if one in inside}
    if not found:
        raise CommandError(f'error: node "{word}" of workflow {name_of(workflow)} has no Pod, so it has no log')
    return found


def _creates_objects(workflow: Object) -> bool:
    status = status_of(workflow)
    stored = (status.get("storedWorkflowTemplateSpec") or {}).get("templates") or ()
    templates = (*(spec_of(workflow).get("templates") or ()), *stored, *(status.get("storedTemplates") or {}).values())
    return any("resource" in template for template in templates)


def _nodes_inside(nodes: dict[str, Object], meant: list[str]) -> set[str]:
    members: dict[str, list[str]] = {}
    for one, node in nodes.items():
        members.setdefault(str(node.get("boundaryID") or ""), []).append(one)
    inside: set[str] = set()
    waiting = list(meant)
    while waiting:
        one = waiting.pop()
        if one in inside:
            continue
        inside.add(one)
        waiting += members.get(one, ())
        if nodes[one].get("type") in ("Retry", "TaskGroup", "StepGroup"):
            waiting += [child for child in nodes[one].get("children") or () if child in nodes]
    return inside


class _Printer:
    """Prints each line with its Pod, and each Pod in its own color."""

    def __init__(self, timestamps: bool) -> None:
        self._timestamps = timestamps
        self._colors = supports_color()
        self._known: dict[str, int] = {}

    def put(self, entry: LogEntry) -> None:
        number = self._known.setdefault(entry.pod, len(self._known))
        stamp = f"{entry.stamp} " if self._timestamps else ""
        echo(f"{colorize(f'{entry.pod}:', pick_color(number), on=self._colors)} {stamp}{visible_text(entry.text)}")


WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Show the tree of nodes until the workflow finishes.")]
LogOption = Annotated[bool, typer.Option("--log", help="Print the logs until the workflow finishes.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until the workflow finishes.")]


def check_follow_options(*, watch: bool, log: bool, wait: bool) -> None:
    if watch and log:
        raise CommandError("--watch and --log cannot be combined")
    if watch and wait:
        raise CommandError("--watch waits already; remove --wait")


async def follow_workflow(
    session: Session, workflows: Sequence[Object], *, watch: bool, log: bool, wait: bool, quiet: bool = False
) -> None:
    """Follows workflows in one of these ways, if any is set. Raises CommandExit(1) unless all succeed."""
    if not (watch or log or wait):
        return
    if watch:
        ends: list[Object | None] = [await watch_until_finished(session, workflow) for workflow in workflows]
    else:
        if log:
            for workflow in workflows:
                await print_logs(session, workflow, LogView(follow=True))
        ends = await asyncio.gather(*(wait_until_finished(session, workflow) for workflow in workflows))
        for workflow, end in zip(workflows, ends, strict=True):
            if not quiet:
                echo(format_end(workflow, end))
    if not all(end is not None and succeeded(end) for end in ends):
        raise CommandExit(1)


async def wait_until_finished(session: Session, workflow: Object) -> Object | None:
    """Returns the finished workflow, or None if it was deleted before."""
    where = (workflow_kind(), name_of(workflow), namespace_of(workflow))
    async with watch_object(session.cluster, *where) as states:
        async for state in states:
            if state is None or is_finished(state):
                return None if state is None else with_full_status(session.cluster, state)
    return None


def format_end(workflow: Object, end: Object | None) -> str:
    if end is None:
        return f"{name_of(workflow)} was deleted before it finished"
    said = f"{name_of(end)} {status_word(end)} at {status_of(end).get('finishedAt')}"
    if succeeded(end):
        return said
    cause = failure_cause(end)
    more = f"`muster describe workflow {name_of(end)}` shows more"
    return f"{said}: {cause}; {more}" if cause else f"{said}; {more}"
