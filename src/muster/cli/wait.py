"""`muster wait`: waits for a condition, a value, the creation or the deletion of objects."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, NamedTuple

import typer

from muster.cli.apply import wait_until_deleted
from muster.cli.errors import CommandError, CommandExit, format_api_error
from muster.cli.output import echo, warn
from muster.cli.selection import namespace_for, select_objects, watch_object
from muster.cli.session import AllNamespaces, Files, LabelSelector, Session, on_cluster, parse_duration, resource_name
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.jsonpath import JsonPathError, all_values
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, namespace_of, status_of, uid_of


class Goal(NamedTuple):
    kind: Literal["condition", "jsonpath", "delete", "create"]
    path: str = ""
    """The type of the condition, or the JSONPath."""
    value: str | None = "true"
    """None accepts any value."""


@on_cluster
async def wait(
    session: Session,
    words: Annotated[list[str] | None, typer.Argument(metavar="(TYPE NAME... | TYPE/NAME...)")] = None,
    for_: Annotated[
        str,
        typer.Option(
            "--for", help="What to wait for: condition=TYPE[=VALUE], jsonpath={PATH}[=VALUE], delete or create."
        ),
    ] = "",
    filename: Files = None,
    selector: LabelSelector = "",
    all_: Annotated[bool, typer.Option("--all", help="Wait for all objects of the type in the namespace.")] = False,
    all_namespaces: AllNamespaces = False,
    timeout: Annotated[
        str, typer.Option("--timeout", help="How long to wait, as in 30s or 5m; 0 checks once.")
    ] = "30s",
) -> None:
    """Wait for a condition on objects."""
    goal = parse_goal(for_)
    timeout_seconds = parse_duration(timeout, "--timeout")
    if timeout_seconds < 0:
        timeout_seconds = 7 * 86400.0
    if goal.kind == "create":
        await _wait_until_created(session, words or (), timeout_seconds)
        return
    found = await select_objects(
        session, words or (), files=filename or (), labels=selector, all_namespaces=all_namespaces
    )
    if not found.by_name and not (all_ or selector):
        raise CommandError("specify the objects by name, with a selector (-l), or with --all")
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
        *(_wait_for_object(session.cluster, kind, obj, goal, timeout_seconds) for kind, obj in found.objects),
        return_exceptions=True,
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
        return _parse_jsonpath_goal(rest)
    raise CommandError(
        f'--for: "{text}" is not valid; use condition=Complete, jsonpath={{.status.phase}}=Running, delete or create'
    )


def is_reached(goal: Goal, obj: Object) -> bool:
    if goal.kind == "jsonpath":
        values = all_values(obj, goal.path)
        return bool(values) and (goal.value is None or any(_text(value) == goal.value for value in values))
    return any(
        str(condition.get("type")).lower() == goal.path.lower() and str(condition.get("status")).lower() == goal.value
        for condition in status_of(obj).get("conditions") or ()
    )


def _parse_jsonpath_goal(text: str) -> Goal:
    path, value = text, None
    if text.startswith("{"):
        end = text.rfind("}")
        path, rest = text[: end + 1], text[end + 1 :]
        value = rest[1:] if rest.startswith("=") else None
        if end < 0 or (rest and not rest.startswith("=")):
            raise CommandError(f"--for: {text!r} is not valid; use jsonpath={{.status.phase}}=Running")
    elif "=" in text:
        path, _, value = text.partition("=")
    try:
        all_values({}, path)
    except JsonPathError as error:
        raise CommandError(f"--for: {text!r}: {error}") from None
    return Goal("jsonpath", path, value.strip("\"'") if value is not None else None)


async def _wait_for_object(cluster: Cluster, kind: Kind, obj: Object, goal: Goal, timeout_seconds: float) -> None:
    called = resource_name(kind, name_of(obj))
    try:
        async with asyncio.timeout(timeout_seconds):
            if goal.kind == "delete":
                await wait_until_deleted(cluster, [(kind, obj)])
            else:
                await _wait_until_reached(cluster, kind, obj, goal)
    except TimeoutError:
        if timeout_seconds == 0 and goal.kind != "delete" and is_reached(goal, obj):
            pass
        else:
            raise CommandError(
                f"error: timed out waiting for the condition on {kind.resource}/{name_of(obj)}"
            ) from None
    echo(f"{called} condition met")


async def _wait_until_reached(cluster: Cluster, kind: Kind, obj: Object, goal: Goal) -> None:
    async with watch_object(cluster, kind, name_of(obj), namespace_of(obj)) as states:
        async for now in states:
            if now is None:
                raise CommandError(
                    f"error: {resource_name(kind, name_of(obj))} was deleted while the command waited for it"
                )
            if is_reached(goal, now):
                return


async def _wait_until_created(session: Session, words: list[str] | tuple[str, ...], timeout_seconds: float) -> None:
    targets = await session.targets(words)
    if any(not target.names for target in targets):
        raise CommandError("--for=create needs the names of objects")
    for kind, name in [(target.kind, name) for target in targets for name in target.names]:
        try:
            async with asyncio.timeout(timeout_seconds or 0.001):
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
