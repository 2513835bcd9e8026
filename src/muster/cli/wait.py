"""`muster wait`: until a condition, a value or the deletion of objects."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, NamedTuple

import typer

from muster.cli.apply import wait_until_deleted
from muster.cli.errors import CommandError, CommandExit, format_api_error
from muster.cli.options import AllNamespaces, Files, LabelSelector, on_cluster, parse_duration
from muster.cli.output import echo, warn
from muster.cli.selection import namespace_for, select_objects, watch_object
from muster.cli.session import Session
from muster.cli.targets import resource_name
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.jsonpath import JsonPathError, all_values
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, namespace_of, status_of, uid_of


class Goal(NamedTuple):
    kind: Literal["condition", "jsonpath", "delete", "create"]
    path: str = ""
    """The condition's type, or the JSONPath."""
    value: str | None = "true"
    """None: any value will do."""


@on_cluster
async def wait(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="(TYPE NAME... | TYPE/NAME...)")] = None,
    for_: Annotated[
        str, typer.Option("--for", help="condition=TYPE[=VALUE], jsonpath={PATH}[=VALUE], delete or create.")
    ] = "",
    filename: Files = None,
    selector: LabelSelector = "",
    all_: Annotated[bool, typer.Option("--all", help="All objects of the type in the namespace.")] = False,
    all_namespaces: AllNamespaces = False,
    timeout: Annotated[str, typer.Option("--timeout", help="How long to wait; 0 looks once.")] = "30s",
) -> None:
    """Wait until objects are as they should be."""
    goal = parse_goal(for_)
    patience = parse_duration(timeout, "--timeout")
    if patience < 0:
        patience = 7 * 86400.0
    if goal.kind == "create":
        await _until_created(session, words or (), patience)
        return
    found = await select_objects(
        session, words or (), files=filename or (), labels=selector, all_namespaces=all_namespaces
    )
    if not found.by_name and not (all_ or selector):
        raise CommandError("say which: names, a selector with -l, or --all")
    errors = [e for e in found.errors if not (goal.kind == "delete" and isinstance(e, NotFound))]
    for error in errors:
        warn(format_api_error(error))
    if errors:
        raise CommandExit(1)
    if not found.objects:
        if goal.kind == "delete":
            return
        raise CommandError("error: no matching resources found")
    results = await asyncio.gather(
        *(_one(session.cluster, kind, obj, goal, patience) for kind, obj in found.objects), return_exceptions=True
    )
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, CommandError):
            raise failure
        warn(failure.message)
    if failures:
        raise CommandExit(1)


def parse_goal(text: str) -> Goal:
    what, _, rest = text.partition("=")
    if what in ("delete", "create") and not rest:
        return Goal("delete") if what == "delete" else Goal("create")
    if what == "condition" and rest:
        type_, _, value = rest.partition("=")
        return Goal("condition", type_, (value or "true").lower())
    if what == "jsonpath" and rest:
        return _jsonpath_goal(rest)
    raise CommandError(
        f'--for: "{text}" is not known; write condition=Complete, jsonpath={{.status.phase}}=Running, delete or create'
    )


def is_reached(goal: Goal, obj: Object) -> bool:
    if goal.kind == "jsonpath":
        values = all_values(obj, goal.path)
        return bool(values) and (goal.value is None or any(_text(value) == goal.value for value in values))
    return any(
        str(condition.get("type")).lower() == goal.path.lower() and str(condition.get("status")).lower() == goal.value
        for condition in status_of(obj).get("conditions") or ()
    )


def _jsonpath_goal(text: str) -> Goal:
    path, value = text, None
    if text.startswith("{"):
        end = text.rfind("}")
        path, rest = text[: end + 1], text[end + 1 :]
        value = rest[1:] if rest.startswith("=") else None
        if end < 0 or (rest and not rest.startswith("=")):
            raise CommandError(f"--for: {text!r}: write jsonpath={{.status.phase}}=Running")
    elif "=" in text:
        path, _, value = text.partition("=")
    try:
        all_values({}, path)
    except JsonPathError as error:
        raise CommandError(f"--for: {text!r}: {error}") from None
    return Goal("jsonpath", path, value.strip("\"'") if value is not None else None)


async def _one(cluster: Cluster, kind: Kind, obj: Object, goal: Goal, patience: float) -> None:
    called = resource_name(kind, name_of(obj))
    try:
        async with asyncio.timeout(patience):
            if goal.kind == "delete":
                await wait_until_deleted(cluster, [(kind, obj)])
            else:
                await _until_reached(cluster, kind, obj, goal)
    except TimeoutError:
        if patience == 0 and goal.kind != "delete" and is_reached(goal, obj):
            pass
        else:
            raise CommandError(
                f"error: timed out waiting for the condition on {kind.resource}/{name_of(obj)}"
            ) from None
    echo(f"{called} condition met")


async def _until_reached(cluster: Cluster, kind: Kind, obj: Object, goal: Goal) -> None:
    async with watch_object(cluster, kind, name_of(obj), namespace_of(obj)) as states:
        async for now in states:
            if now is None:
                raise CommandError(f"error: {resource_name(kind, name_of(obj))} was deleted while waiting for it")
            if is_reached(goal, now):
                return


async def _until_created(session: Session, words: list[str] | tuple[str, ...], patience: float) -> None:
    targets = await session.targets(words)
    if any(not target.names for target in targets):
        raise CommandError("--for=create needs names")
    for kind, name in [(target.kind, name) for target in targets for name in target.names]:
        try:
            async with asyncio.timeout(patience or 0.001):
                async for event in session.cluster.watch(
                    kind, namespace_for(kind, session.namespace), fields=f"metadata.name={name}"
                ):
                    if event.type in ("ADDED", "MODIFIED") and uid_of(event.object):
                        break
        except TimeoutError:
            raise CommandError(f"error: timed out waiting for {resource_name(kind, name)} to be created") from None
        echo(f"{resource_name(kind, name)} condition met")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
