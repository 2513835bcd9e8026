"""Staying with workflows until they are over: the tree, the logs, or just the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from muster.cli.failures import Ended, Failure
from muster.cli.observe import observed
from muster.cli.output import say
from muster.cli.session import Session
from muster.cli.workflow_logs import LogView, print_logs
from muster.cli.workflow_lookup import whole, workflow_kind
from muster.cli.workflow_show import watch_until_over
from muster.cli.workflow_status import is_over, status_word, succeeded
from muster.kube.objects import Object, name_of, namespace_of, status_of

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Show the tree of nodes until the workflow is over.")]
LogOption = Annotated[bool, typer.Option("--log", help="Print what it writes until the workflow is over.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Return when the workflow is over.")]


def require_one_way(*, watch: bool, log: bool, wait: bool) -> None:
    if watch and log:
        raise Failure("--watch draws where --log would print; give one of them")
    if watch and wait:
        raise Failure("--watch waits already; leave out --wait")


async def follow(
    session: Session, workflows: Sequence[Object], *, watch: bool, log: bool, wait: bool, quiet: bool = False
) -> None:
    """In one of the ways, if any. Ended(1) unless all succeed."""
    if not (watch or log or wait):
        return
    if watch:
        ends: list[Object | None] = [await watch_until_over(session, workflow) for workflow in workflows]
    else:
        if log:
            for workflow in workflows:
                await print_logs(session, workflow, LogView(follow=True))
        ends = await asyncio.gather(*(until_over(session, workflow) for workflow in workflows))
        for workflow, end in zip(workflows, ends, strict=True):
            if not quiet:
                say(verdict(workflow, end))
    if not all(end is not None and succeeded(end) for end in ends):
        raise Ended(1)


async def until_over(session: Session, workflow: Object) -> Object | None:
    """None if it was deleted before it was over."""
    where = (workflow_kind(), name_of(workflow), namespace_of(workflow))
    async with observed(session.cluster, *where) as states:
        async for state in states:
            if state is None or is_over(state):
                return None if state is None else whole(session.cluster, state)
    return None


def verdict(workflow: Object, end: Object | None) -> str:
    if end is None:
        return f"{name_of(workflow)} was deleted before it was over"
    status = status_of(end)
    message = f": {status['message']}" if status.get("message") and not succeeded(end) else ""
    return f"{name_of(end)} {status_word(end)} at {status.get('finishedAt')}{message}"
