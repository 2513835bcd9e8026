"""Watches over HTTP: one JSON document per line, until the client disconnects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import orjson

from muster.embedded.cluster import BOOKMARK_SECONDS, EmbeddedCluster
from muster.embedded.store.list_watch import selector_predicate
from muster.kube.cluster import WatchEvent
from muster.kube.errors import ApiError, BadRequest, Cause, Invalid, is_count
from muster.kube.kinds import Kind
from muster.kube.objects import version_of
from muster.server.kubernetes import request as negotiation
from muster.server.kubernetes.request import ApiRequest, Form, Target, end_turn, stream

_CACHED_LINES = 512
_LARGEST_CACHED = 64 * 1024
_PIECE_BYTES = 128 * 1024
"""Of a large batch, such as all objects at the start of a watch."""


class EventEncoder:
    """Encodes events as lines. Watchers of one kind see the same events at almost the same time, so lines are
    cached."""

    def __init__(self) -> None:
        self._event_lines: dict[int, tuple[WatchEvent, bytes]] = {}

    def line(self, event: WatchEvent) -> bytes:
        found = self._event_lines.get(id(event))
        if found is not None and found[0] is event:
            return found[1]
        line = encode(event.type, event.object)
        if len(line) > _LARGEST_CACHED:
            return line
        if len(self._event_lines) >= _CACHED_LINES:
            self._event_lines.pop(next(iter(self._event_lines)))
        # The event is kept with its line, so no other event can have its id.
        self._event_lines[id(event)] = (event, line)
        return line


def encode(type_: str, obj: Any) -> bytes:
    return orjson.dumps({"type": type_, "object": obj}, option=orjson.OPT_APPEND_NEWLINE)


async def watch(
    cluster: EmbeddedCluster, encoder: EventEncoder, request: ApiRequest, kind: Kind, target: Target
) -> None:
    """Streams the events as the response."""
    render = _renderer(encoder, kind, request.form(), negotiation.parse_include(request.query))
    seconds = request.integer("timeoutSeconds")
    version = request.query.get("resourceVersion", "")
    if version and not is_count(version):
        raise BadRequest(f'resourceVersion: "{version}" is not from this cluster')
    # Before the response begins: an invalid selector is an error, not an event.
    selector_predicate(kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
    wants_initial = _wants_initial_events(request)
    batches = _event_batches(cluster, request, kind, target, wants_initial)
    if kind.stored_as_rows is not None and request.form().shape == "object":
        render = _with_rows(cluster, kind, render)
    lines = _event_lines(batches, render)
    # Until all objects are sent, which a watch may begin with, it is as large as a list.
    await stream(request, lines, media="application/json", seconds=seconds or None, keeps_turn=True)


async def _event_batches(
    cluster: EmbeddedCluster, request: ApiRequest, kind: Kind, target: Target, wants_initial: bool | None
) -> AsyncIterator[list[WatchEvent]]:
    query = request.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    version = query.get("resourceVersion", "")
    bookmarks = request.flag("allowWatchBookmarks")
    from_now = version in ("", "0")
    if wants_initial or (wants_initial is None and from_now):
        listing = await cluster.list(kind, target.namespace, labels=labels, fields=fields)
        if listing.items:
            yield [WatchEvent("ADDED", obj) for obj in listing.items]
        if wants_initial and bookmarks:
            ended = negotiation.bookmark_object(kind, listing.resource_version, initial_events_end=True)
            yield [WatchEvent("BOOKMARK", ended)]
        version = listing.resource_version
        del listing
    elif from_now:
        version = (await cluster.list(kind, target.namespace, limit=1)).resource_version
    end_turn(request)
    async for batch in cluster.watch_batches(
        kind,
        target.namespace,
        labels=labels,
        fields=fields,
        resource_version=version,
        bookmarks=BOOKMARK_SECONDS if bookmarks else None,
    ):
        yield batch


def _with_rows(
    cluster: EmbeddedCluster, kind: Kind, render: Callable[[WatchEvent], bytes]
) -> Callable[[WatchEvent], bytes]:
    """Adds the current status rows to the objects."""

    def render_with_rows(event: WatchEvent) -> bytes:
        if event.type == "BOOKMARK":
            return render(event)
        return render(WatchEvent(event.type, cluster.with_status_rows(event.object, kind)))

    return render_with_rows


async def _event_lines(
    batches: AsyncIterator[list[WatchEvent]], render: Callable[[WatchEvent], bytes]
) -> AsyncGenerator[bytes, None]:
    """Sends an error after the start as an ERROR event: the status 200 has already been sent."""
    try:
        async for batch in batches:
            if len(batch) == 1:
                yield render(batch[0])
                continue
            lines, size = [], 0
            for event in batch:
                lines.append(render(event))
                size += len(lines[-1])
                if size > _PIECE_BYTES:
                    yield b"".join(lines)
                    lines, size = [], 0
            if lines:
                yield b"".join(lines)
    except ApiError as error:
        yield encode("ERROR", error.to_status())


def _renderer(encoder: EventEncoder, kind: Kind, form: Form, include: str) -> Callable[[WatchEvent], bytes]:
    if form.shape == "object":
        return encoder.line
    described = False

    def render(event: WatchEvent) -> bytes:
        nonlocal described
        if event.type == "BOOKMARK" and form.shape == "table":
            # An empty table, but with the version.
            shown = {**negotiation.shape_object(kind, event.object, form, include), "rows": []}
            shown["metadata"] = {"resourceVersion": version_of(event.object)}
        else:
            shown = negotiation.shape_object(kind, event.object, form, include)
        if form.shape == "table":
            # The columns are sent once.
            if described:
                shown = {**shown, "columnDefinitions": None}
            described = True
        return encode(event.type, shown)

    return render


def _wants_initial_events(request: ApiRequest) -> bool | None:
    """Returns None if the client did not specify it."""
    if "sendInitialEvents" not in request.query:
        if request.query.get("resourceVersionMatch"):
            raise _forbidden("resourceVersionMatch", "is forbidden for watch unless sendInitialEvents is provided")
        return None
    if request.query.get("resourceVersionMatch") != "NotOlderThan":
        raise _forbidden("resourceVersionMatch", "must be NotOlderThan where sendInitialEvents is provided")
    wanted = request.flag("sendInitialEvents")
    if wanted and not request.flag("allowWatchBookmarks"):
        raise BadRequest("sendInitialEvents requires allowWatchBookmarks=true: a bookmark marks their end")
    return wanted


def _forbidden(field: str, why: str) -> Invalid:
    return Invalid(f"{field} {why}", causes=[Cause(field, f"Forbidden: {field} {why}", "FieldValueForbidden")])
