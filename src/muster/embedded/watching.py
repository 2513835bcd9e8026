"""What a watcher sees of a kind's history, through its namespace and selectors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from muster.embedded.history import Change, wake
from muster.embedded.store import Store
from muster.kube.cluster import WatchEvent
from muster.kube.errors import Unavailable
from muster.kube.kinds import Kind
from muster.kube.objects import Object
from muster.kube.selectors import parse_fields, parse_labels

Predicate: TypeAlias = Callable[[Object], bool]


def predicate(labels: str, fields: str) -> Predicate | None:
    """Whether an object passes both selectors; None when everything does."""
    label_selector = parse_labels(labels) if labels else None
    field_selector = parse_fields(fields) if fields else None
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


def seen(change: Change, matches: Predicate) -> WatchEvent | None:
    """Through a selector, a change that makes an object match is its arrival, and one that ends it its departure."""
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


async def follow(
    store: Store,
    kind: Kind,
    namespace: str,
    matches: Predicate | None,
    version: int,
    bookmarks: float | None,
) -> AsyncIterator[list[WatchEvent]]:
    """Batches of what happens after `version`. Holds nothing of the past itself: a consumer that is too slow gets
    Gone. With `bookmarks`, one goes out every so many seconds if the version has moved on."""
    history = store.history(kind.resource)
    loop = asyncio.get_running_loop()
    position, marked, due = store.position(kind.resource, version), version, loop.time() + (bookmarks or 0.0)
    timer: asyncio.Handle | None = None
    news: asyncio.Future[None] | None = None

    def look_up() -> None:
        nonlocal timer
        timer = None
        if news is not None:
            wake(news)

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
                        yield [bookmark(kind, marked)]
                    continue
                if bookmarks is not None and timer is None:
                    timer = loop.call_at(due, look_up)  # not one for every wait: most are short
                news = history.news()
                await news
                history.ignore(news)
                continue
            position += len(changes)
            if namespace:
                changes = [change for change in changes if change.key.namespace == namespace]
            if matches is None:
                events = [change.event for change in changes]
            else:
                events = [event for change in changes if (event := seen(change, matches)) is not None]
            if events:
                yield events
    finally:
        if timer is not None:
            timer.cancel()
        if news is not None:
            history.ignore(news)


def bookmark(kind: Kind, version: int) -> WatchEvent:
    return WatchEvent(
        "BOOKMARK",
        {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"resourceVersion": str(version)}},
    )
