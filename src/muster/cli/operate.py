"""`muster stop | terminate | suspend | resume | retry | resubmit`: what is done to workflows that exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from muster.cli.failures import Ended, Failure, explain
from muster.cli.options import Labels, on_cluster
from muster.cli.output import say, warn
from muster.cli.session import Session
from muster.cli.submit import Parameters
from muster.cli.workflow_follow import LogOption, WaitOption, WatchOption, follow, require_one_way
from muster.cli.workflow_lookup import find, light
from muster.cli.workflow_show import show
from muster.kube.errors import ApiError
from muster.kube.objects import Object, name_of

Names = Annotated[list[str] | None, typer.Argument(metavar="(WORKFLOW... | @latest)")]
Nodes = Annotated[
    str,
    typer.Option("--node-field-selector", help="Only these nodes, as in displayName=approve or phase=Failed."),
]


@on_cluster
async def stop(
    session: Session,
    names: Names = None,
    selector: Labels = "",
    node_field_selector: Nodes = "",
    message: Annotated[str, typer.Option("--message", help="What to say about the nodes that fail.")] = "",
) -> None:
    """Stop workflows; their exit handlers still run."""
    from muster.workflows.operations.control import stop as stopped

    await _change(session, names, selector, "stopped", lambda w: stopped(w, node_field_selector, message))


@on_cluster
async def terminate(session: Session, names: Names = None, selector: Labels = "") -> None:
    """End workflows at once, without their exit handlers."""
    from muster.workflows.operations.control import terminate as terminated

    await _change(session, names, selector, "terminated", terminated)


@on_cluster
async def suspend(session: Session, names: Names = None, selector: Labels = "") -> None:
    """Keep workflows from beginning anything new."""
    from muster.workflows.operations.control import suspend as suspended

    await _change(session, names, selector, "suspended", suspended)


@on_cluster
async def resume(session: Session, names: Names = None, selector: Labels = "", node_field_selector: Nodes = "") -> None:
    """Let workflows, and steps that wait for somebody, go on."""
    from muster.workflows.operations.control import resume as resumed

    await _change(session, names, selector, "resumed", lambda w: resumed(w, node_field_selector))


@on_cluster
async def retry(
    session: Session,
    names: Names = None,
    selector: Labels = "",
    parameter: Parameters = None,
    restart_successful: Annotated[
        bool,
        typer.Option("--restart-successful", help="Also what --node-field-selector chooses, though it succeeded."),
    ] = False,
    node_field_selector: Nodes = "",
    watch: WatchOption = False,
    log: LogOption = False,
    wait: WaitOption = False,
) -> None:
    """Let failed workflows go on from where they failed; what succeeded is not run again."""
    from muster.workflows.operations import carrying_out

    async def one(workflow: Object) -> Object:
        return await carrying_out.retry(
            session.cluster,
            workflow,
            restart_successful=restart_successful,
            node_field_selector=node_field_selector,
            parameters=parameter or (),
        )

    require_one_way(watch=watch, log=log, wait=wait)
    done = await _each(session, names, selector, "retried", one)
    await follow(session, done, watch=watch, log=log, wait=wait)


@on_cluster
async def resubmit(
    session: Session,
    names: Names = None,
    selector: Labels = "",
    parameter: Parameters = None,
    memoized: Annotated[
        bool, typer.Option("--memoized", help="Take over what succeeded, and run only the rest.")
    ] = False,
    watch: WatchOption = False,
    log: LogOption = False,
    wait: WaitOption = False,
) -> None:
    """Start workflows again, as new ones."""
    from muster.workflows.operations.resubmit import resubmit as resubmitted

    async def one(workflow: Object) -> Object:
        new = resubmitted(workflow, memoized=memoized, parameters=parameter or ())
        return await session.cluster.create(new)

    require_one_way(watch=watch, log=log, wait=wait)
    done = await _each(session, names, selector, "resubmitted", one)
    if not watch:
        for workflow in done:
            show(workflow)
    await follow(session, done, watch=watch, log=log, wait=wait)


async def _change(
    session: Session, names: Sequence[str] | None, labels: str, verb: str, operation: Callable[[Object], Object]
) -> None:
    from muster.workflows.operations.carrying_out import write

    async def one(workflow: Object) -> Object:
        return await write(session.cluster, workflow, operation(workflow))

    await _each(session, names, labels, verb, one)


async def _each(
    session: Session,
    names: Sequence[str] | None,
    labels: str,
    verb: str,
    one: Callable[[Object], Awaitable[Object]],
) -> list[Object]:
    """One that cannot be helped does not keep the others from it."""
    if bool(names) == bool(labels):
        raise Failure("say which workflows: names, @latest, or a selector with -l")
    words = list(names or ()) or [name_of(found) for found in await light(session, session.namespace, labels)]
    if not words:
        raise Failure(f"error: no workflow in the namespace {session.namespace} has the labels {labels}")
    done = []
    failed = False
    for word in dict.fromkeys(words):
        try:
            workflow = await find(session, word)
            done.append(await one(workflow))
            say(f"workflow {name_of(workflow)} {verb}")
        except ApiError as error:
            warn(explain(error))
            failed = True
        except Failure as failure:
            warn(failure.message)
            failed = True
    if failed:
        raise Ended(1)
    return done
