"""Which headers pass between a browser and a workspace, and how they are changed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

COOKIE_PREFIX: Final = "muster_"
_OURS: Final = re.compile(rb"(__(host|secure)-)?muster[_-]", re.IGNORECASE)
"""Names of the platform's cookies. Browsers send those of a host to all its ports."""

_HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
})  # fmt: skip
_NOT_FORWARDED: Final = _HOP_BY_HOP | {
    b"host", b"content-length", b"expect", b"forwarded", b"via", b"x-real-ip", b"x-scheme", b"x-client-ip",
    b"true-client-ip", b"cf-connecting-ip",
}  # fmt: skip
_NOT_RETURNED: Final = _HOP_BY_HOP | {
    # They concern the whole host, with the platform at another port of it, and stay when the workspace is gone.
    b"strict-transport-security", b"clear-site-data", b"alt-svc", b"public-key-pins", b"nel", b"report-to",
}  # fmt: skip
_UNSAFE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def request_headers(
    received: Iterable[tuple[bytes, bytes]], *, host: str, scheme: str, client: str, inject: Mapping[str, str]
) -> RawHeaders:
    """The headers for the workspace, without credentials of the platform. `inject` is what its server needs."""
    received = list(received)
    named = _named_in_connection(received)
    injected = {name.lower().encode() for name in inject}
    kept: RawHeaders = []
    for name, value in received:
        if name in _NOT_FORWARDED or name in named or name in injected or name.startswith(b"x-forwarded-"):
            continue
        if name == b"authorization" and b"mst_" in value:
            continue
        if name == b"cookie":
            value = strip_cookies(value)
            if not value:
                continue
        if not _UNSAFE.search(value):
            kept.append((name, value))
    own = {"host": host, "x-forwarded-for": client, "x-forwarded-host": host, "x-forwarded-proto": scheme, **inject}
    return kept + [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in own.items()]


def response_headers(received: Iterable[tuple[bytes, bytes]], *, status: int, keep_in_cache: bool = True) -> RawHeaders:
    """The headers for the browser. Without `keep_in_cache`, nothing is kept there: the origin may become another's."""
    received = [(name.lower(), value) for name, value in received]
    named = _named_in_connection(received)
    kept: RawHeaders = []
    for name, value in received:
        if name in _NOT_RETURNED or name in named or _UNSAFE.search(value) or _UNSAFE.search(name):
            continue
        if name == b"content-length" and status in {204, 304}:
            continue
        if name == b"cache-control" and not keep_in_cache:
            continue
        if name == b"set-cookie":
            cookie = restrict_cookie(value)
            if cookie is None:
                continue
            value = cookie
        kept.append((name, value))
    if not keep_in_cache:
        kept.append((b"cache-control", b"no-store"))
    return kept


def strip_cookies(header: bytes) -> bytes:
    """A Cookie header without the platform's own."""
    pairs = (pair.strip() for pair in header.split(b";"))
    return b"; ".join(pair for pair in pairs if pair and not _OURS.match(pair))


def restrict_cookie(header: bytes) -> bytes | None:
    """A Set-Cookie header that concerns only this host. None if it would set a cookie of the platform."""
    pair, *attributes = header.split(b";")
    # A cookie without a name is sent as its value alone, which may look like any other cookie.
    if not pair.partition(b"=")[0].strip() or b"=" not in pair or _OURS.match(pair.strip()):
        return None
    kept = [a for a in attributes if a.partition(b"=")[0].strip().lower() != b"domain"]
    return b";".join([pair, *kept])


def read_cookies(received: Iterable[tuple[bytes, bytes]], name: str) -> list[str]:
    """All values of a cookie. There is more than one if another one is set for a path or a parent domain."""
    wanted, found = name.encode(), []
    for header, value in received:
        if header == b"cookie":
            for pair in value.split(b";"):
                key, _, content = pair.strip().partition(b"=")
                if key == wanted:
                    found.append(content.decode("latin-1"))
    return found


def _named_in_connection(received: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The headers that Connection names, which are for the next hop only. It must not remove what guards a request."""
    named = {
        each.strip().lower() for name, value in received if name.lower() == b"connection" for each in value.split(b",")
    }
    return frozenset(named - {b"host", b"cookie", b"authorization", b"origin", b"content-length", b"content-type"})
