"""Watches over HTTP: one JSON document per line for as long as the client listens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import orjson

from muster.embedded.cluster import BOOKMARK_SECONDS, EmbeddedCluster
from muster.kube.cluster import WatchEvent
from muster.kube.errors import ApiError, BadRequest, Cause, Invalid
from muster.kube.kinds import Kind
from muster.kube.objects import version_of
from muster.server.kubernetes import negotiation
from muster.server.kubernetes.negotiation import Form
from muster.server.kubernetes.request import ApiRequest, Target, stream

_REMEMBERED = 512
_TOO_LARGE_TO_KEEP = 64 * 1024


class Encoder:
    """Events as lines. Watchers of one kind see the same events at nearly the same time, so the last ones are kept."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[WatchEvent, bytes]] = {}

    def line(self, event: WatchEvent) -> bytes:
        found = self._lines.get(id(event))
        if found is not None and found[0] is event:
            return found[1]
        line = encode(event.type, event.object)
        if len(line) > _TOO_LARGE_TO_KEEP:
            return line
        if len(self._lines) >= _REMEMBERED:
            self._lines.pop(next(iter(self._lines)))
        # The event is kept with its line: as long as it is here, no other can have its id.
        self._lines[id(event)] = (event, line)
        return line


def encode(type_: str, obj: Any) -> bytes:
    return orjson.dumps({"type": type_, "object": obj}, option=orjson.OPT_APPEND_NEWLINE)


async def watch(cluster: EmbeddedCluster, encoder: Encoder, call: ApiRequest, kind: Kind, target: Target) -> None:
    """Answers the call itself, to its end."""
    render = _renderer(encoder, kind, call.form(), negotiation.parse_include(call.query))
    seconds = call.integer("timeoutSeconds")
    version = call.query.get("resourceVersion", "")
    if version and not version.isdigit():
        raise BadRequest(f'resourceVersion: "{version}" is not one of this cluster\'s')
    wants_initial = _wants_initial_events(call)
    batches = _batches(cluster, call, kind, target, wants_initial)
    if kind.stored_as_rows is not None and call.form().shape == "object":
        batches = _whole(cluster, kind, batches)
    lines = _lines(batches, render)
    await stream(call, lines, media="application/json", seconds=seconds or None)


async def _batches(
    cluster: EmbeddedCluster, call: ApiRequest, kind: Kind, target: Target, wants_initial: bool | None
) -> AsyncIterator[list[WatchEvent]]:
    query = call.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    version = query.get("resourceVersion", "")
    bookmarks = call.flag("allowWatchBookmarks")
    from_now = version in ("", "0")
    if wants_initial or (wants_initial is None and from_now):
        listing = await cluster.list(kind, target.namespace, labels=labels, fields=fields)
        if listing.items:
            yield [WatchEvent("ADDED", obj) for obj in listing.items]
        if wants_initial and bookmarks:
            ended = negotiation.bookmark_object(kind, listing.resource_version, initial_events_end=True)
            yield [WatchEvent("BOOKMARK", ended)]
        version = listing.resource_version
    elif from_now:
        version = (await cluster.list(kind, target.namespace, limit=1)).resource_version
    async for batch in cluster.watch_batches(
        kind,
        target.namespace,
        labels=labels,
        fields=fields,
        resource_version=version,
        bookmarks=BOOKMARK_SECONDS if bookmarks else None,
    ):
        yield batch


async def _whole(
    cluster: EmbeddedCluster, kind: Kind, batches: AsyncIterator[list[WatchEvent]]
) -> AsyncIterator[list[WatchEvent]]:
    """With the maps that are stored apart, as they are now."""
    async for batch in batches:
        yield [
            event if event.type == "BOOKMARK" else WatchEvent(event.type, cluster.whole(event.object, kind))
            for event in batch
        ]


async def _lines(
    batches: AsyncIterator[list[WatchEvent]], render: Callable[[WatchEvent], bytes]
) -> AsyncGenerator[bytes, None]:
    """What goes wrong after the beginning is an event, too: the client has already been told 200."""
    try:
        async for batch in batches:
            yield render(batch[0]) if len(batch) == 1 else b"".join([render(event) for event in batch])
    except ApiError as error:
        yield encode("ERROR", error.to_status())


def _renderer(encoder: Encoder, kind: Kind, form: Form, include: str) -> Callable[[WatchEvent], bytes]:
    if form.shape == "object":
        return encoder.line
    described = False

    def render(event: WatchEvent) -> bytes:
        nonlocal described
        if event.type == "BOOKMARK" and form.shape == "table":
            # A table of nothing, but with the version in it.
            shown = {**negotiation.shape_object(kind, event.object, form, include), "rows": []}
            shown["metadata"] = {"resourceVersion": version_of(event.object)}
        else:
            shown = negotiation.shape_object(kind, event.object, form, include)
        if form.shape == "table":
            # The columns are told once.
            if described:
                shown = {**shown, "columnDefinitions": None}
            described = True
        return encode(event.type, shown)

    return render


def _wants_initial_events(call: ApiRequest) -> bool | None:
    """None where the client did not say."""
    if "sendInitialEvents" not in call.query:
        if call.query.get("resourceVersionMatch"):
            raise _forbidden("resourceVersionMatch", "is forbidden for watch unless sendInitialEvents is provided")
        return None
    if call.query.get("resourceVersionMatch") != "NotOlderThan":
        raise _forbidden("resourceVersionMatch", "must be NotOlderThan where sendInitialEvents is provided")
    wanted = call.flag("sendInitialEvents")
    if wanted and not call.flag("allowWatchBookmarks"):
        raise BadRequest("sendInitialEvents needs allowWatchBookmarks=true: a bookmark tells where they end")
    return wanted


def _forbidden(field: str, why: str) -> Invalid:
    return Invalid(f"{field} {why}", causes=[Cause(field, f"Forbidden: {field} {why}", "FieldValueForbidden")])
