"""`muster events`: what happened, oldest first, and with -w what happens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from muster.cli.failures import Failure
from muster.cli.happenings import HEADERS, row
from muster.cli.options import AllNamespaces, on_cluster
from muster.cli.output import TableWriter, fancy, paint, say, warn
from muster.cli.selection import list_all
from muster.cli.session import Session
from muster.kube.happenings import in_order
from muster.kube.objects import Object, namespace_of


@on_cluster
async def events(
    session: Session,
    for_: Annotated[str, typer.Option("--for", metavar="TYPE/NAME", help="Only what happened to this object.")] = "",
    types: Annotated[str, typer.Option("--types", help="Only Normal or Warning ones.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and print those that come.")] = False,
    all_namespaces: AllNamespaces = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Without the line of headers.")] = False,
) -> None:
    """Show what happened, in order."""
    cluster = session.cluster
    kind = cluster.catalogue.of("v1", "Event")
    fields = await _fields(session, for_)
    wanted = _types(types)
    namespace = "" if all_namespaces else session.namespace
    writer = TableWriter((*(["NAMESPACE"] if all_namespaces else []), *HEADERS), show_headers=not no_headers)
    colours = fancy()

    def show(happened: list[Object]) -> None:
        now = datetime.now(UTC)
        chosen = [event for event in happened if not wanted or str(event.get("type")).lower() in wanted]
        rows = [(*([namespace_of(event)] if all_namespaces else []), *row(event, now)) for event in chosen]
        if not rows:
            return
        lines = writer.lines(rows)
        shown = [*([""] * (len(lines) - len(rows))), *(str(event.get("type")) for event in chosen)]
        for line, type_ in zip(lines, shown, strict=True):
            say(paint(line, "yellow", on=colours and type_ == "Warning"))

    if not watch:
        happened = in_order(await list_all(session, kind, namespace, fields=fields))
        show(happened)
        if not happened:
            warn("No events found" + ("." if all_namespaces else f" in {session.namespace} namespace."))
        return
    listing = await cluster.list(kind, namespace, fields=fields)
    show(in_order(listing.items))
    version = listing.resource_version
    while True:
        async for event in cluster.watch(kind, namespace, fields=fields, resource_version=version):
            version = event.object["metadata"]["resourceVersion"]
            if event.type in ("ADDED", "MODIFIED"):
                show([event.object])


async def _fields(session: Session, word: str) -> str:
    if not word:
        return ""
    if "/" not in word:
        raise Failure(f'--for: "{word}": write TYPE/NAME, as in pod/{word}')
    kind, name = await session.target(word)
    return f"involvedObject.kind={kind.kind},involvedObject.name={name}"


def _types(text: str) -> set[str]:
    wanted = {word.strip().lower() for word in text.split(",") if word.strip()}
    unknown = wanted - {"normal", "warning"}
    if unknown:
        raise Failure(f'--types: "{unknown.pop()}" is not a type of event; write Normal, Warning or both')
    return wanted
