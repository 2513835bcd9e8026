"""Connections that the server makes for members: not to this machine itself, nor to its neighbours' metadata service.

A name is resolved once, its addresses are checked, and the connection goes to a checked address, so that a name that
changes its address in between (DNS rebinding) gains nothing. `EgressProxy` does that for clients that resolve names
themselves: object stores and git. Redirects pass through it, too. As a program, this module connects ssh and git://.
Standard library only.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

CONNECT_SECONDS: Final = 30.0
_LONGEST_HEAD = 1 << 16
_BLOCK = 1 << 16
_NOT_FORWARDED = ("proxy-authorization", "proxy-connection", "connection", "keep-alive")
_METADATA = (
    ip_network("100.100.100.200/32"),  # Alibaba Cloud
    ip_network("168.63.129.16/32"),  # Azure
    ip_network("192.0.0.0/24"),  # Oracle Cloud
    ip_network("fd00:ec2::/32"),  # Amazon
    ip_network("fd20:ce::/32"),  # Google
)
_EMBEDDED = ((ip_network("64:ff9b::/96"), 0), (ip_network("2002::/16"), 80))
"""IPv6 networks that contain an IPv4 address, and how far it is from the right."""


class EgressRefused(OSError):
    """The address may not be used. The message is for the user."""


def address_problem(address: str, *, public_only: bool = False) -> str:
    """Returns why members may not make the server connect to an IP address; '' if they may. `public_only`: not to the
    networks around the server either. Pure."""
    found = _real_address(address)
    if found.is_loopback or found.is_unspecified:
        return "it is the server itself"
    if found.is_link_local or any(found in network for network in _METADATA if network.version == found.version):
        return "it may be the metadata service of the server's cloud"
    if found.is_multicast or (found.version == 4 and (found.is_reserved or found in ip_network("0.0.0.0/8"))):
        return "it is not the address of one machine"
    if public_only and not found.is_global:
        return "it is in the server's own network"
    return ""


def _real_address(address: str) -> IPv4Address | IPv6Address:
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return found
    if found.ipv4_mapped is not None:
        return found.ipv4_mapped
    for network, shift in _EMBEDDED:
        if found in network:
            return IPv4Address(int(found) >> shift & 0xFFFFFFFF)
    if int(found) >> 32 == 0 and int(found) > 1:  # ::127.0.0.1
        return IPv4Address(int(found))
    return found


def upstream_proxy() -> str:
    """Returns the proxy that this machine uses for all connections, if any. It decides where they may lead; exceptions
    (NO_PROXY) are for the server's own connections."""
    names = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


class Egress:
    """`allowed` are addresses of the settings that members may use all the same: `127.0.0.1:9000`, `store.local`,
    `10.0.0.0/8`. `setting` is the name of that setting, for messages. `public_only`: see `address_problem`."""

    def __init__(
        self,
        allowed: Collection[str] = (),
        *,
        setting: str = "artifacts.memberAddresses",
        public_only: bool = False,
    ) -> None:
        self._allowed = frozenset(each.lower() for each in allowed)
        self._networks = [ip_network(each, strict=False) for each in allowed if "/" in each]
        self._setting = setting
        self._public_only = public_only
        self.refused: list[str] = []
        """What was refused, for the message to the user."""
        self.is_unreachable = False
        """Whether a connection failed: a client of the proxy sees only a response with status 502."""

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises EgressRefused, or another OSError if the connection fails."""
        shown = f"{host}:{port}"
        is_allowed = self.is_named(host, port)
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await self._open(await self._addresses(host, port), port)
        own, peer = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        if own and peer and own[0] == peer[0] and not is_allowed and not self._is_in_network(str(peer[0])):
            writer.transport.abort()
            raise self._refuse(shown, "it is the server itself")
        return reader, writer

    async def check(self, host: str, port: int) -> None:
        """Raises EgressRefused for an address that may not be used. A name that is unknown here passes: it is for a
        request that goes through the proxy of this machine, which may know it."""
        with suppress(socket.gaierror):
            await self._addresses(host, port)

    async def _addresses(self, host: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        for address in addresses:
            problem = address_problem(address, public_only=self._public_only)
            if problem and not self.is_named(host, port) and not self._is_in_network(address):
                raise self._refuse(f"{host}:{port}", problem)
        return addresses

    def is_named(self, host: str, port: int) -> bool:
        """Whether the setting names this host, or the host with this port."""
        return not self._allowed.isdisjoint((host.lower(), f"{host}:{port}".lower()))

    def _is_in_network(self, address: str) -> bool:
        found = _real_address(address)
        return any(found in network for network in self._networks if network.version == found.version)

    async def _open(self, addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        last: OSError = OSError("the name has no address")
        for address in addresses:
            try:
                return await asyncio.open_connection(address, port, limit=_LONGEST_HEAD)
            except OSError as error:
                last = error
        raise last

    def _refuse(self, shown: str, problem: str) -> EgressRefused:
        told = f"{shown} cannot be used: {problem}. An admin can allow it: {self._setting} in config.yaml"
        self.refused.append(told)
        return EgressRefused(told)


@asynccontextmanager
async def egress_proxy(egress: Egress) -> AsyncIterator[str]:
    """Runs an HTTP proxy on this machine that makes only allowed connections. Yields its URL, which has a password."""
    password = secrets.token_urlsafe(24)
    expected = b"basic " + base64.b64encode(f"muster:{password}".encode())
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await _serve(egress, expected, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        except asyncio.CancelledError:
            pass  # the proxy is closed, and asyncio would log it as an error of the connection
        finally:
            tasks.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=_LONGEST_HEAD)
    try:
        yield f"http://muster:{password}@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _serve(egress: Egress, expected: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    method, target, version = first.split(b" ")
    headers = [tuple(part.strip() for part in line.split(b":", 1)) for line in lines if b":" in line]
    given = next((value for name, value in headers if name.lower() == b"proxy-authorization"), b"")
    scheme, _, credentials = given.partition(b" ")
    if not hmac.compare_digest(scheme.lower() + b" " + credentials, expected):
        writer.write(b'HTTP/1.1 407 Log In\r\nProxy-Authenticate: Basic realm="muster"\r\nContent-Length: 0\r\n\r\n')
        await writer.drain()
        return
    if method == b"CONNECT":
        parts = urlsplit(f"//{target.decode('ascii')}")
    else:
        parts = urlsplit(target.decode("ascii"))
        if parts.scheme != "http":
            raise ValueError("only http and CONNECT")
    host, port = parts.hostname or "", parts.port or 80
    try:
        other_reader, other_writer = await egress.connect(host, port)
    except (OSError, TimeoutError) as error:
        egress.is_unreachable = not isinstance(error, EgressRefused)
        status = b"502 Bad Gateway" if egress.is_unreachable else b"403 Forbidden"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return
    try:
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await writer.drain()
        else:
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}".encode("ascii")
            kept = [
                line for line in lines
                if line.split(b":", 1)[0].strip().lower().decode("latin-1") not in _NOT_FORWARDED
            ]  # fmt: skip
            request = b"\r\n".join([method + b" " + path + b" " + version, *kept, b"Connection: close"])
            other_writer.write(request + b"\r\n\r\n")
            await other_writer.drain()
        await _relay(reader, writer, other_reader, other_writer)
    finally:
        other_writer.close()
        with suppress(OSError):
            await other_writer.wait_closed()


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other_writer: asyncio.StreamWriter,
) -> None:
    """Copies both ways until the other side has closed its way back."""
    there = asyncio.create_task(_copy(reader, other_writer))
    try:
        await _copy(other_reader, writer)
    finally:
        there.cancel()
        await asyncio.gather(there, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while block := await source.read(_BLOCK):
            target.write(block)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()


async def _connect_stdio(host: str, port: int, allowed: Collection[str]) -> None:
    """Connects stdin and stdout to a host, as ssh's ProxyCommand and git's core.gitProxy do."""
    reader, writer = await Egress(allowed).connect(host, port)
    loop = asyncio.get_running_loop()
    own_reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(own_reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout.buffer)
    own_writer = asyncio.StreamWriter(transport, protocol, None, loop)
    await _relay(own_reader, own_writer, reader, writer)


def main(words: list[str]) -> int:
    try:
        asyncio.run(_connect_stdio(words[0], int(words[1]), words[2:]))
    except (OSError, TimeoutError, ValueError) as error:
        print(f"muster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
