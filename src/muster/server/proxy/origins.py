"""The origin of a workspace: the address at which browsers open it.

A browser keeps pages apart by origin, and by nothing else. On the platform's own origin, the JavaScript of a notebook
could call the platform's API as the user who looks at it, whatever the path. So every workspace has an origin of its
own:

- `UID.DOMAIN`, if `workspaces.domain` is set, and its wildcard DNS leads to this server;
- `UID.localhost`, if the platform is opened on this machine: browsers resolve such names to the loopback address;
- else, if it is opened by an address or another name, a port from `workspaces.ports`.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

ENTER: Final = "/.muster/enter"
"""The path on the origin of a workspace that exchanges a ticket for a cookie."""
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HOST = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")


class HostName(NamedTuple):
    """The value of a Host header."""

    name: str
    port: int | None

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


def parse_host(header: str) -> HostName | None:
    """None if it is not the name or address of a host, with or without a port."""
    name, port = header.strip().lower(), ""
    if re.search(r":[0-9]{1,5}\Z", name):
        name, _, port = name.rpartition(":")
    if not _HOST.fullmatch(name) or (port and int(port) > 65535):
        return None
    return HostName(name, int(port) if port else None)


def is_uid(text: str) -> bool:
    return _UID.fullmatch(text) is not None


def workspace_of_host(header: str, domain: str = "") -> str | None:
    """The uid of the workspace that a Host header names; None if it names the platform."""
    host = parse_host(header)
    if host is None:
        return None
    for suffix in (f".{domain}", ".localhost") if domain else (".localhost",):
        uid = host.name.removesuffix(suffix)
        if uid != host.name and is_uid(uid):
            return uid
    return None


def is_below_domain(header: str, domain: str) -> bool:
    """Whether a Host header names something below the domain of workspaces, perhaps no workspace at all."""
    host = parse_host(header)
    return bool(domain) and host is not None and (host.name == domain or host.name.endswith(f".{domain}"))


def origin_by_name(uid: str, platform_url: str, host_header: str, domain: str = "") -> str | None:
    """The origin of a workspace for a browser that sends this Host header to the platform; None if it needs a port.
    `platform_url` is the address for browsers in the settings, or where the platform listens."""
    configured = urlsplit(platform_url)
    if domain:
        port = f":{configured.port}" if configured.port else ""
        return f"{configured.scheme}://{uid}.{domain}{port}"
    host = parse_host(host_header)
    if host is not None and configured.scheme == "http" and is_loopback(host.name):
        return f"http://{uid}.localhost" + (f":{host.port}" if host.port else "")
    return None


def origin_by_port(host_header: str, port: int) -> str | None:
    """The origin of a workspace with a port of its own; None if the header names no host."""
    host = parse_host(host_header)
    return f"http://{host.name}:{port}" if host is not None else None


def is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def is_own_page(method: str, headers: dict[str, str], host_header: str, *, websocket: bool = False) -> bool:
    """Whether a request that a cookie authenticates comes from a page of this origin, or from the user.

    Pages of other workspaces may be of the same site, so SameSite cookies do not keep them out. A user who follows a
    link from another page is let in, because that page learns nothing of the answer."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and not _same_host(origin, host_header):
        return False
    if websocket:
        return origin is not None  # every browser sends it
    is_safe = method in {"GET", "HEAD"}
    if site is None:
        # Browsers leave it out for plain HTTP, except on this machine. They never leave out the origin of a change.
        return is_safe or origin is not None
    if site in {"same-origin", "none"}:
        return True
    is_navigation = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_safe and is_navigation


def _same_host(origin: str, host_header: str) -> bool:
    parts = urlsplit(origin)
    here, there = parse_host(host_header), parse_host(parts.netloc)
    if here is None or there is None or parts.scheme not in {"http", "https"}:
        return False
    usual = 443 if parts.scheme == "https" else 80
    return (here.name, here.port or usual) == (there.name, there.port or usual)
