"""`muster events`, and events as table rows for `describe`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError
from muster.cli.output import SectionGrid, TableWriter, colorize, echo, supports_color, warn
from muster.cli.selection import list_objects
from muster.cli.session import AllNamespaces, Session, on_cluster
from muster.kube.events import event_message, event_source, involved_object, last_event_time, sort_events
from muster.kube.objects import Object, namespace_of, parse_time
from muster.kube.tables import format_duration

EVENT_HEADERS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def event_row(event: Object, now: datetime) -> tuple[str, str, str, str, str]:
    """Returns one line of `muster events`."""
    return (
        last_seen(event, now),
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        involved_object(event),
        event_message(event),
    )


def events_grid(events: Iterable[Object], now: datetime) -> SectionGrid:
    """Returns the events table of `describe`."""
    rows = [
        (
            event.get("type") or "",
            event.get("reason") or "",
            last_seen(event, now),
            event_source(event),
            event_message(event),
        )
        for event in sort_events(events)
    ]
    return SectionGrid(("Type", "Reason", "Age", "From", "Message"), rows)


def last_seen(event: Mapping[str, Any], now: datetime) -> str:
    """Returns `3s`, or `3s (x4 over 2m)` for a repeated event. Reads both event formats of Kubernetes."""
    last = last_event_time(event)
    ago = format_duration((now - last).total_seconds())
    count = int((event.get("series") or {}).get("count") or event.get("count") or 1)
    first = event.get("firstTimestamp") or event.get("eventTime")
    if count <= 1 or not first:
        return ago
    return f"{ago} (x{count} over {format_duration((now - parse_time(first)).total_seconds())})"


@on_cluster
async def events(
    session: Session,
    for_: Annotated[str, typer.Option("--for", metavar="TYPE/NAME", help="Show only events of this object.")] = "",
    types: Annotated[str, typer.Option("--types", help="Show only events of these types: Normal, Warning.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running and print new events.")] = False,
    all_namespaces: AllNamespaces = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print headers.")] = False,
) -> None:
    """List events, oldest first."""
    cluster = session.cluster
    kind = cluster.catalogue.of("v1", "Event")
    fields = await _involved_object_selector(session, for_)
    wanted = _parse_types(types)
    namespace = "" if all_namespaces else session.namespace
    writer = TableWriter((*(["NAMESPACE"] if all_namespaces else []), *EVENT_HEADERS), show_headers=not no_headers)
    colours = supports_color()

    def show(listed: list[Object]) -> None:
        now = datetime.now(UTC)
        chosen = [event for event in listed if not wanted or str(event.get("type")).lower() in wanted]
        rows = [(*([namespace_of(event)] if all_namespaces else []), *event_row(event, now)) for event in chosen]
        if not rows:
            return
        lines = writer.lines(rows)
        shown = [*([""] * (len(lines) - len(rows))), *(str(event.get("type")) for event in chosen)]
        for line, type_ in zip(lines, shown, strict=True):
            echo(colorize(line, "yellow", on=colours and type_ == "Warning"))

    if not watch:
        listed = sort_events(await list_objects(session, kind, namespace, fields=fields))
        show(listed)
        if not listed:
            warn("No events found" + ("." if all_namespaces else f" in {session.namespace} namespace."))
        return
    listing = await cluster.list(kind, namespace, fields=fields)
    show(sort_events(listing.items))
    version = listing.resource_version
    while True:
        async for event in cluster.watch(kind, namespace, fields=fields, resource_version=version):
            version = event.object["metadata"]["resourceVersion"]
            if event.type in ("ADDED", "MODIFIED"):
                show([event.object])


async def _involved_object_selector(session: Session, word: str) -> str:
    if not word:
        return ""
    if "/" not in word:
        raise CommandError(f'--for: "{word}" is not valid; use TYPE/NAME, as in pod/{word}')
    kind, name = await session.target(word)
    return f"involvedObject.kind={kind.kind},involvedObject.name={name}"


def _parse_types(text: str) -> set[str]:
    wanted = {word.strip().lower() for word in text.split(",") if word.strip()}
    unknown = wanted - {"normal", "warning"}
    if unknown:
        raise CommandError(f'--types: "{unknown.pop()}" is not an event type; use Normal, Warning or both')
    return wanted
