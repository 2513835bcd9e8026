"""The origins of workspaces, and which requests come from a page of one's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.server.proxy.origins import (
    is_below_domain,
    is_own_page,
    origin_by_name,
    origin_by_port,
    parse_host,
    workspace_of_host,
)
from muster.server.proxy.ports import choose_ports

UID = "0190c2d4-5b6e-7f80-9a1b-2c3d4e5f6071"


@pytest.mark.parametrize(
    ("host", "domain", "found"),
    [
        (f"{UID}.localhost:8265", "", True),
        (f"{UID.upper()}.LOCALHOST", "", True),
        (f"{UID}.ws.example.com", "ws.example.com", True),
        (f"{UID}.localhost", "ws.example.com", True),
        (f"{UID}.ws.example.com", "", False),
        (f"{UID}.ws.example.com.evil.example", "ws.example.com", False),
        (f"x.{UID}.localhost", "", False),
        (f"{UID}.localhost.", "", False),
        (f"{UID}.localhost@evil.example", "", False),
        (f"{UID}", "", False),
        ("localhost:8265", "", False),
        ("", "", False),
    ],
)
def test_the_workspace_of_a_host(host: str, domain: str, found: bool) -> None:
    assert workspace_of_host(host, domain) == (UID if found else None)


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    host = parse_host(text)
    assert host is None or parse_host(str(host)) == host
    assert not is_below_domain(text, "")


@pytest.mark.parametrize(
    ("platform", "host", "domain", "origin"),
    [
        ("http://127.0.0.1:8265", "127.0.0.1:8265", "", f"http://{UID}.localhost:8265"),
        ("http://127.0.0.1:8265", "localhost:9000", "", f"http://{UID}.localhost:9000"),
        ("http://127.0.0.1:8265", "[::1]:8265", "", f"http://{UID}.localhost:8265"),
        ("http://127.0.0.1:8265", "10.0.0.5:8265", "", None),
        ("http://127.0.0.1:8265", "127.0.0.1.evil.example", "", None),
        ("https://muster.example.com", "localhost", "", None),
        ("https://muster.example.com", "muster.example.com", "ws.example.com", f"https://{UID}.ws.example.com"),
        ("https://m.example:8443", "evil.example", "ws.example.com", f"https://{UID}.ws.example.com:8443"),
    ],
)
def test_the_origin_by_name(platform: str, host: str, domain: str, origin: str | None) -> None:
    assert origin_by_name(UID, platform, host, domain) == origin


def test_the_origin_by_port() -> None:
    assert origin_by_port("10.0.0.5:8265", 8300) == "http://10.0.0.5:8300"
    assert origin_by_port("evil.example/path", 8300) is None


_NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize(
    ("method", "headers", "websocket", "own"),
    [
        ("GET", {}, False, True),  # plain HTTP, or a script: browsers leave the headers out
        ("POST", {}, False, False),
        ("POST", {"origin": "http://h:1"}, False, True),
        ("POST", {"origin": "http://h:2"}, False, False),
        ("POST", {"origin": "http://H:1"}, False, True),
        ("GET", {"origin": "null"}, False, False),
        ("GET", {"sec-fetch-site": "same-origin"}, False, True),
        ("GET", {"sec-fetch-site": "none"}, False, True),
        ("GET", {"sec-fetch-site": "same-site"}, False, False),
        ("GET", {"sec-fetch-site": "cross-site", **_NAVIGATION}, False, True),
        ("POST", {"sec-fetch-site": "cross-site", **_NAVIGATION}, False, False),
        ("GET", {"sec-fetch-site": "cross-site", **_NAVIGATION, "sec-fetch-dest": "iframe"}, False, False),
        ("GET", {"sec-fetch-site": "same-origin", "origin": "http://evil"}, False, False),
        ("GET", {}, True, False),
        ("GET", {"origin": "http://h:1"}, True, True),
        ("GET", {"origin": "https://h:2"}, True, False),
    ],
)
def test_pages_of_the_same_origin(method: str, headers: dict[str, str], websocket: bool, own: bool) -> None:
    assert is_own_page(method, headers, "h:1", websocket=websocket) is own


def test_the_default_port_of_a_scheme() -> None:
    assert is_own_page("POST", {"origin": "https://h"}, "h")
    assert is_own_page("POST", {"origin": "https://h"}, "h:443")
    assert not is_own_page("POST", {"origin": "https://h"}, "h:80")


def test_ports_are_used_again_as_late_as_possible() -> None:
    ports = range(1, 5)
    assert choose_ports(ports, {}, {}) == [1, 2, 3, 4]
    assert choose_ports(ports, {"old": 1, "new": 2}, {}) == [3, 4, 1, 2]
    assert choose_ports(ports, {"old": 1, "new": 2}, {"new": 2}) == [3, 4, 1]
    assert choose_ports(ports, {"other range": 99, "a": 3}, {}) == [1, 2, 4, 3]
