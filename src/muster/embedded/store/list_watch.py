"""Lists and watches.

Every page of a list shows the objects as of the first page's resourceVersion. A watch shows the history of a kind
through a namespace and selectors.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator
from heapq import merge
from typing import NamedTuple, TypeAlias

import orjson

from muster.embedded.store.history import Change, wake_future
from muster.embedded.store.store import Store
from muster.embedded.store.view import View
from muster.kube.cluster import Listing, WatchEvent
from muster.kube.errors import BadRequest, Gone, Unavailable
from muster.kube.kinds import Kind
from muster.kube.objects import Key, Object
from muster.kube.selectors import parse_fields, parse_labels

Predicate: TypeAlias = Callable[[Object], bool]


def selector_predicate(kind: Kind, labels: str, fields: str) -> Predicate | None:
    """Returns a function that says whether an object matches both selectors, or None if every object does. Raises
    BadRequest for a field that selectors cannot name."""
    label_selector = parse_labels(labels) if labels else None
    field_selector = parse_fields(fields).select_from(kind.selectable_fields) if fields else None
    if not field_selector:
        if not label_selector:
            return None
        matches_labels = label_selector.matches
        return lambda obj: matches_labels(obj["metadata"].get("labels"))
    matches_fields = field_selector.matches
    if not label_selector:
        return matches_fields
    both = label_selector.matches
    return lambda obj: both(obj["metadata"].get("labels")) and matches_fields(obj)


def event_for_change(change: Change, matches: Predicate) -> WatchEvent | None:
    """Returns the event of a change through a selector: ADDED when it starts to match, DELETED when it stops."""
    before = change.before is not None and matches(change.before)
    after = change.after is not None and matches(change.after)
    if before and after:
        return change.event
    if after:
        return WatchEvent("ADDED", change.event.object)
    if not before:
        return None
    if change.after is None or change.before is None:
        return change.event
    metadata = {**change.before["metadata"], "resourceVersion": str(change.version)}
    return WatchEvent("DELETED", {**change.before, "metadata": metadata})


async def watch_history(
    store: Store,
    kind: Kind,
    namespace: str,
    matches: Predicate | None,
    version: int,
    bookmarks: float | None,
) -> AsyncIterator[list[WatchEvent]]:
    """Yields batches of events after `version`. It holds no events: a consumer that is too slow gets Gone.

    With `bookmarks`, it sends a bookmark every so many seconds if the version has changed."""
    history = store.history(kind.stored_resource)
    loop = asyncio.get_running_loop()
    position, marked, due = store.position(kind.stored_resource, version), version, loop.time() + (bookmarks or 0.0)
    timer: asyncio.Handle | None = None
    news: asyncio.Future[None] | None = None

    def look_up() -> None:
        nonlocal timer
        timer = None
        if news is not None:
            wake_future(news)

    try:
        while True:
            changes = history.read(position)
            if not changes:
                if store.closed:
                    raise Unavailable("the cluster is shutting down")
                if bookmarks is not None and loop.time() >= due:
                    due = loop.time() + bookmarks
                    if store.version != marked:
                        marked = store.version
                        yield [bookmark_event(kind, marked)]
                    continue
                if bookmarks is not None and timer is None:
                    timer = loop.call_at(due, look_up)  # one timer for many waits: most are short
                news = history.subscribe()
                await news
                history.unsubscribe(news)
                continue
            position += len(changes)
            if namespace:
                changes = [change for change in changes if change.key.namespace == namespace]
            if matches is None:
                events = [change.event for change in changes]
            else:
                events = [event for change in changes if (event := event_for_change(change, matches)) is not None]
            if events:
                yield events
    finally:
        if timer is not None:
            timer.cancel()
        if news is not None:
            history.unsubscribe(news)


def bookmark_event(kind: Kind, version: int) -> WatchEvent:
    return WatchEvent(
        "BOOKMARK",
        {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"resourceVersion": str(version)}},
    )


def list_objects(
    store: Store, resource: str, namespace: str, matches: Predicate | None, limit: int, continue_: str
) -> Listing:
    if limit < 0:
        raise BadRequest(f"limit: {limit} is less than 0")
    if continue_:
        return _next_page(store, resource, namespace, matches, limit, decode_continue(continue_))
    if limit and limit < store.view.count(resource, namespace):
        objects = _objects_after(store.view, resource, namespace, None)
        return _page(objects, matches, limit, store.version, store.view.count(resource, namespace))
    everything = store.view.objects(resource, namespace)
    items = list(everything) if matches is None else [obj for obj in everything if matches(obj)]
    return Listing(items, str(store.version))


class ContinueToken(NamedTuple):
    """Where a list continues: after `last`, as of `version`. `left` objects remain, if that is known."""

    version: int
    last: Key
    left: int | None


def encode_continue(token: ContinueToken) -> str:
    text = orjson.dumps({"rv": token.version, "after": list(token.last), "left": token.left})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def decode_continue(text: str) -> ContinueToken:
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, name = fields["after"]
        left = fields["left"]
        return ContinueToken(int(fields["rv"]), Key(str(namespace), str(name)), None if left is None else int(left))
    except (ValueError, TypeError, KeyError, binascii.Error):
        raise BadRequest("continue: this token is not from this cluster; start the list again without it") from None


def _next_page(
    store: Store, resource: str, namespace: str, matches: Predicate | None, limit: int, token: ContinueToken
) -> Listing:
    try:
        past = _states_at(store, resource, token.version)
    except Gone:
        raise Gone(
            "the continue token is too old: the state of the cluster when the list began is no longer known; "
            "start the list again without it"
        ) from None
    now = _objects_after(store.view, resource, namespace, token.last)
    then = sorted(
        (key, obj)
        for key, obj in past.items()
        if obj is not None and key > token.last and (not namespace or key.namespace == namespace)
    )
    unchanged = ((key, obj) for key, obj in now if key not in past)
    return _page(merge(unchanged, then, key=_key), matches, limit, token.version, token.left)


def _states_at(store: Store, resource: str, version: int) -> dict[Key, Object | None]:
    """Returns the objects that have changed since `version`, as they were at that version."""
    history = store.history(resource)
    position = store.position(resource, version)
    found: dict[Key, Object | None] = {}
    for change in history.read(position, history.end - position):
        found.setdefault(change.key, change.before)
    return found


def _objects_after(view: View, resource: str, namespace: str, last: Key | None) -> Iterator[tuple[Key, Object]]:
    for each in [namespace] if namespace else view.namespaces(resource):
        bucket = view.in_namespace(resource, each)
        if bucket is None or (last is not None and each < last.namespace):
            continue
        names = bucket.names()
        start = bisect_right(names, last.name) if last is not None and each == last.namespace else 0
        for index in range(start, len(names)):
            found = bucket.get(names[index])
            if found is not None:
                yield Key(each, names[index]), found


def _page(
    objects: Iterator[tuple[Key, Object]], matches: Predicate | None, limit: int, version: int, left: int | None
) -> Listing:
    items: list[Object] = []
    last: Key | None = None
    for key, obj in objects:
        if matches is not None and not matches(obj):
            continue
        if limit and len(items) == limit and last is not None:
            remaining = None if matches is not None or left is None else left - limit
            return Listing(items, str(version), encode_continue(ContinueToken(version, last, remaining)), remaining)
        items.append(obj)
        last = key
    return Listing(items, str(version))


def _key(pair: tuple[Key, Object]) -> Key:
    return pair[0]
