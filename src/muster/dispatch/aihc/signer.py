"""Signs requests to Baidu AI Cloud: bce-auth-v1.

    Authorization: bce-auth-v1/{access key}/{UTC time}/{seconds it is valid}/{signed headers}/{signature}

The signing key is the HMAC of the first four parts. The signature covers the method, the path, the query and some
headers, but not the body: TLS protects that.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

VALID_SECONDS = 1800
_BLANK = " \t\r\n\v\f"
DEFAULT_HEADERS = frozenset({"host", "content-length", "content-type", "content-md5"})
"""What is signed if the list of signed headers is empty, besides every x-bce-* header."""


def authorize(
    access_key: str,
    secret_key: str,
    *,
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    now: datetime,
    signed_headers: Collection[str] = (),
    valid_seconds: int = VALID_SECONDS,
) -> str:
    """Returns the Authorization header. `signed_headers` are lower-case names; empty: the default ones."""
    prefix = f"bce-auth-v1/{access_key}/{format_time(now)}/{valid_seconds}"
    names = ";".join(sorted(signed_headers))
    digest = sign(secret_key, prefix, canonical_request(method, path, query, headers, signed_headers))
    return f"{prefix}/{names}/{digest}"


def sign(secret_key: str, prefix: str, request: str) -> str:
    """Returns the signature of a canonical request. `prefix` is the Authorization header up to its fourth part."""
    return _hmac(_hmac(secret_key, prefix), request)


def canonical_request(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], signed_headers: Collection[str] = ()
) -> str:
    """Returns the text that is signed."""
    return "\n".join([
        method.upper(), encode(path, keep="/"), canonical_query(query), _canonical_headers(headers, signed_headers)
    ])  # fmt: skip


def canonical_query(query: Mapping[str, str]) -> str:
    """Returns the query, sorted and percent-encoded. Send it as it is, so that what is signed is what is sent."""
    return "&".join(sorted(f"{encode(name)}={encode(value)}" for name, value in query.items()))


def encode(text: str, *, keep: str = "") -> str:
    """Percent-encodes everything but A-Z a-z 0-9 - _ . ~ in UTF-8."""
    return quote(text, safe=keep)


def format_time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _canonical_headers(headers: Mapping[str, str], signed_headers: Collection[str]) -> str:
    chosen = {name.strip().lower(): value.strip(_BLANK) for name, value in headers.items()}
    wanted = frozenset(signed_headers) or DEFAULT_HEADERS
    lines = [
        f"{encode(name)}:{encode(value)}"
        for name, value in chosen.items()
        if value and (name in wanted or (not signed_headers and name.startswith("x-bce-")))
    ]
    return "\n".join(sorted(lines))


def _hmac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
