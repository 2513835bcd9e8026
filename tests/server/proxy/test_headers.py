"""Which headers pass the proxy: as tables, and as laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.server.proxy.headers import (
    read_cookies,
    request_headers,
    response_headers,
    restrict_cookie,
    strip_cookies,
)


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        (b"a=1; b=2", b"a=1; b=2"),
        (b"a=1;muster_session=x;b=2", b"a=1; b=2"),
        (b"muster_workspace_1=x", b""),
        (b"__Host-muster_workspace_1=x; __Secure-muster_x=y; __Host-own=z", b"__Host-own=z"),
        (b" MUSTER_SESSION=x ;; a=muster_session=1", b"a=muster_session=1"),
        (b"muster=1; mustered=2; muster-x=3", b"muster=1; mustered=2"),
    ],
)
def test_cookies_of_the_platform_are_removed(sent: bytes, passed: bytes) -> None:
    assert strip_cookies(sent) == passed


@pytest.mark.parametrize(
    ("set_", "passed"),
    [
        (b"a=b; Path=/; HttpOnly", b"a=b; Path=/; HttpOnly"),
        (b"a=b; DOMAIN=example.com; Secure", b"a=b; Secure"),
        (b"a=b;Domain", b"a=b"),
        (b"muster_session=x", None),
        (b" muster_session=x", None),
        (b"__Host-Muster_session=x; Secure", None),
        (b"=muster_session=x", None),
        (b"muster_session", None),
    ],
)
def test_cookies_of_a_workspace_concern_its_host(set_: bytes, passed: bytes | None) -> None:
    assert restrict_cookie(set_) == passed


def test_all_values_of_a_cookie_are_found() -> None:
    headers = [(b"cookie", b"a=1; b=2"), (b"x", b"a=3"), (b"cookie", b"a=4;aa=5")]
    assert read_cookies(headers, "a") == ["1", "4"]


_NAME = st.sampled_from([
    "cookie", "authorization", "host", "connection", "upgrade", "transfer-encoding", "x-forwarded-for", "forwarded",
    "x-forwarded-user", "x-own", "content-length", "proxy-authorization", "te",
])  # fmt: skip
_HEADERS = st.lists(st.tuples(_NAME.map(str.encode), st.binary(max_size=40)), max_size=12)


@given(_HEADERS)
def test_a_request_has_our_headers_once_and_no_credentials(sent: list[tuple[bytes, bytes]]) -> None:
    passed = request_headers(sent, host="h", scheme="http", client="1.2.3.4", inject={"Authorization": "token own"})
    names = [name for name, _ in passed]
    for name in (b"host", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"authorization"):
        assert names.count(name) == 1
    assert dict(passed)[b"authorization"] == b"token own"
    assert not {b"connection", b"upgrade", b"transfer-encoding", b"forwarded", b"x-forwarded-user", b"te"} & set(names)
    assert all(not (set(value) & {0, 10, 13}) for _, value in passed)
    assert all(b"muster_" not in value.lower() for name, value in passed if name == b"cookie")


@given(_HEADERS, st.booleans())
def test_a_response_splits_nothing(sent: list[tuple[bytes, bytes]], keep: bool) -> None:
    passed = response_headers(sent, status=304, keep_in_cache=keep)
    assert all(not (set(name + value) & {0, 10, 13}) for name, value in passed)
    assert b"content-length" not in dict(passed)
    assert keep or [value for name, value in passed if name == b"cache-control"] == [b"no-store"]
