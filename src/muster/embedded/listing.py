"""Lists in pages that belong together: every page shows the objects as of the first page's resourceVersion."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

import orjson

from muster.embedded.store import Store
from muster.embedded.view import View
from muster.embedded.watching import Predicate
from muster.kube.cluster import Listing
from muster.kube.errors import BadRequest, Gone
from muster.kube.objects import Key, Object


def list_objects(
    store: Store, resource: str, namespace: str, matches: Predicate | None, limit: int, continue_: str
) -> Listing:
    if limit < 0:
        raise BadRequest(f"limit: {limit} is less than 0")
    if continue_:
        return _next_page(store, resource, namespace, matches, limit, decode_token(continue_))
    if limit and limit < store.view.count(resource, namespace):
        objects = _from(store.view, resource, namespace, None)
        return _page(objects, matches, limit, store.version, store.view.count(resource, namespace))
    everything = store.view.objects(resource, namespace)
    items = list(everything) if matches is None else [obj for obj in everything if matches(obj)]
    return Listing(items, str(store.version))


class Token(NamedTuple):
    """Where a list goes on: behind `last`, as of `version`. `left` objects remain, where that is known."""

    version: int
    last: Key
    left: int | None


def encode_token(token: Token) -> str:
    text = orjson.dumps({"rv": token.version, "after": list(token.last), "left": token.left})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def decode_token(text: str) -> Token:
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, name = fields["after"]
        left = fields["left"]
        return Token(int(fields["rv"]), Key(str(namespace), str(name)), None if left is None else int(left))
    except (ValueError, TypeError, KeyError, binascii.Error):
        raise BadRequest("continue: this is not a token of this cluster; start the list again without it") from None


def _next_page(
    store: Store, resource: str, namespace: str, matches: Predicate | None, limit: int, token: Token
) -> Listing:
    try:
        past = _past(store, resource, token.version)
    except Gone:
        raise Gone(
            "the continue token is too old: the cluster no longer knows how the list looked when it began; "
            "start the list again without it"
        ) from None
    now = _from(store.view, resource, namespace, token.last)
    then = sorted(
        (key, obj)
        for key, obj in past.items()
        if obj is not None and key > token.last and (not namespace or key.namespace == namespace)
    )
    unchanged = ((key, obj) for key, obj in now if key not in past)
    return _page(merge(unchanged, then, key=_key), matches, limit, token.version, token.left)


def _past(store: Store, resource: str, version: int) -> dict[Key, Object | None]:
    """How those objects looked at `version` that have changed since."""
    history = store.history(resource)
    position = store.position(resource, version)
    found: dict[Key, Object | None] = {}
    for change in history.read(position, history.end - position):
        found.setdefault(change.key, change.before)
    return found


def _from(view: View, resource: str, namespace: str, last: Key | None) -> Iterator[tuple[Key, Object]]:
    for each in [namespace] if namespace else view.namespaces(resource):
        shelf = view.shelf(resource, each)
        if shelf is None or (last is not None and each < last.namespace):
            continue
        names = shelf.names()
        start = bisect_right(names, last.name) if last is not None and each == last.namespace else 0
        for index in range(start, len(names)):
            yield Key(each, names[index]), shelf.objects[names[index]]


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
            return Listing(items, str(version), encode_token(Token(version, last, remaining)), remaining)
        items.append(obj)
        last = key
    return Listing(items, str(version))


def _key(pair: tuple[Key, Object]) -> Key:
    return pair[0]
