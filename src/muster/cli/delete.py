"""`muster delete`: asks for the deletion and, unless told otherwise, waits until the objects are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from muster.cli.durations import seconds
from muster.cli.failures import Ended, Failure, explain
from muster.cli.observe import observed
from muster.cli.options import AllNamespaces, Fields, Files, Labels, Timeout, on_cluster
from muster.cli.output import say, warn
from muster.cli.selection import Selection, select
from muster.cli.session import Session
from muster.cli.targets import title, type_title
from muster.cli.workflow_lookup import LATEST, lone, name_meant
from muster.kube.cluster import Cluster, Propagation
from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, namespace_of, uid_of

_CASCADES: dict[str, Propagation] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


@on_cluster
async def delete(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="(TYPE NAME... | TYPE/NAME... | @latest)")] = None,
    filename: Files = None,
    selector: Labels = "",
    field_selector: Fields = "",
    all_: Annotated[bool, typer.Option("--all", help="All objects of the type in the namespace.")] = False,
    all_namespaces: AllNamespaces = False,
    grace_period: Annotated[
        int, typer.Option("--grace-period", help="Seconds a Pod gets to end by itself; -1: what it asks for.")
    ] = -1,
    now: Annotated[bool, typer.Option("--now", help="The same as --grace-period=1.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for the Pod's processes to end.")] = False,
    cascade: Annotated[str, typer.Option("--cascade", help="background, foreground or orphan.")] = "background",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when the objects are gone.")] = True,
    timeout: Timeout = "0s",
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="What is gone is deleted.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="name: print only the names.")] = "",
) -> None:
    """Delete objects."""
    if cascade not in _CASCADES:
        raise Failure(f'--cascade: "{cascade}" is not known; write {", ".join(_CASCADES)}')
    if output not in ("", "name"):
        raise Failure(f'-o: "{output}" is not known; delete prints a sentence per object, or with -o name the names')
    grace = _grace(grace_period, now=now, force=force)
    found = await select(
        session,
        await _with_latest(session, words or ()),
        files=filename or (),
        labels=selector,
        fields=field_selector,
        all_namespaces=all_namespaces,
    )
    if not found.by_name and not (all_ or selector or field_selector):
        raise Failure("say which: names, a selector with -l, or --all")
    if force and grace == 0:
        warn("Warning: nothing waits for the processes of what is deleted by force; they may go on for a while.")
    deleted, failed = await _delete_all(
        session.cluster,
        found,
        _CASCADES[cascade],
        grace,
        ignore_not_found,
        verb="force deleted" if force else "deleted",
        names_only=output == "name",
    )
    if not found.objects and not found.errors:
        say("No resources found")
    if wait and deleted and not force:
        await until_gone(session.cluster, deleted, seconds(timeout, "--timeout") or None)
    if failed:
        raise Ended(1)


async def _with_latest(session: Session, words: Sequence[str]) -> list[str]:
    """`@latest`, or the name of a workflow and no type, is that workflow."""
    if len(words) == 1 and not ("/" in words[0] and LATEST not in words[0]):
        workflow = await lone(session, words)
        return [f"workflow/{name_of(workflow)}"] if workflow is not None else list(words)
    return [f"workflow/{await name_meant(session, word)}" if word == LATEST else word for word in words]


async def until_gone(cluster: Cluster, objects: list[tuple[Kind, Object]], timeout: float | None = None) -> None:
    """Returns when none of these objects is there any more, or one of the same name that is another."""
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            for kind, obj in objects:
                group.create_task(_until_gone(cluster, kind, obj))
    except TimeoutError:
        raise Failure(f"timed out after {timeout:.0f}s: not everything is gone yet") from None


async def _delete_all(
    cluster: Cluster,
    found: Selection,
    propagation: Propagation,
    grace: int | None,
    ignore_not_found: bool,
    *,
    verb: str,
    names_only: bool,
) -> tuple[list[tuple[Kind, Object]], bool]:
    deleted = []
    failed = False
    for kind, obj in found.objects:
        try:
            await cluster.delete(
                kind, name_of(obj), namespace_of(obj), propagation=propagation, grace_seconds=grace, uid=uid_of(obj)
            )
        except NotFound:
            continue
        except ApiError as error:
            warn(explain(error))
            failed = True
            continue
        deleted.append((kind, obj))
        say(title(kind, name_of(obj)) if names_only else f'{type_title(kind)} "{name_of(obj)}" {verb}')
    for missing in found.errors:
        if isinstance(missing, NotFound) and ignore_not_found:
            continue
        warn(explain(missing))
        failed = True
    return deleted, failed


async def _until_gone(cluster: Cluster, kind: Kind, obj: Object) -> None:
    async with observed(cluster, kind, name_of(obj), namespace_of(obj)) as states:
        async for now in states:
            if now is None or uid_of(now) != uid_of(obj):
                return


def _grace(grace_period: int, *, now: bool, force: bool) -> int | None:
    if now and grace_period >= 0:
        raise Failure("--now already says --grace-period=1; give one of them")
    if force and grace_period > 0:
        raise Failure("--force does not wait: leave out --grace-period, or make it 0")
    if now:
        return 1
    if force:
        return 0
    # Without --force nobody is cut off at once: 0 means 1, as in kubectl.
    return None if grace_period < 0 else max(grace_period, 1)
