from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from muster.kube.builtin import POD
from muster.kube.remote.exec_stream import V4
from muster.server.kubernetes import port_forward
from muster.server.kubernetes.port_forward import TUNNEL_PROTOCOL
from tests.server.kubernetes.served import Served

FORWARD = "/api/v1/namespaces/default/pods/web/portforward"


async def running_pod(served: Served) -> None:
    await served.cluster.create({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    })  # fmt: skip
    status = {"status": {"phase": "Running", "podIP": "127.0.0.1"}}
    await served.cluster.patch(POD, "web", "default", status, subresource="status")


@asynccontextmanager
async def shouting() -> AsyncIterator[int]:
    """A server that echoes in upper case, and stops when the client does."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()
        writer.write(b"!")
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def closed_port() -> int:
    async with shouting() as port:
        return port


@asynccontextmanager
async def socket_to(served: Served, protocol: str, **query: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        served.session() as http,
        asyncio.timeout(30),
        http.ws_connect(FORWARD, params=query, protocols=[protocol]) as socket,
    ):
        assert socket.protocol == protocol
        yield socket


async def test_over_channels(served: Served) -> None:
    """Two channels per port, as in the Python client."""
    await running_pod(served)
    closed = await closed_port()
    async with shouting() as port, socket_to(served, V4, ports=f"{port},{closed}") as socket:
        hello = [(await socket.receive()).data for _ in range(4)]
        numbers = [port.to_bytes(2, "little")] * 2 + [closed.to_bytes(2, "little")] * 2
        assert hello == [bytes((channel,)) + number for channel, number in enumerate(numbers)]
        problem = (await socket.receive()).data
        assert problem[0] == 3 and b"refused" in problem
        await socket.send_bytes(b"\x00abc")
        assert (await socket.receive()).data == b"\x00ABC"


class Tunnel:
    """The kubectl side of a tunnel."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.writer = port_forward.FrameWriter()
        self._reader = port_forward.FrameReader()
        self._frames: list[port_forward.Frame] = []

    async def connect(self, number: int, port: int) -> tuple[int, int]:
        errors, data = 4 * number + 1, 4 * number + 3
        for stream, type_ in ((errors, "error"), (data, "data")):
            headers = {"streamtype": type_, "port": str(port), "requestid": str(number)}
            await self.socket.send_bytes(self.writer.open(stream, headers))
        return errors, data

    async def next(self) -> port_forward.Frame:
        while not self._frames:
            self._frames += self._reader.feed((await self.socket.receive()).data)
        return self._frames.pop(0)

    async def until_closed(self, *streams: int) -> dict[int, bytes]:
        found = dict.fromkeys(streams, b"")
        left = set(streams)
        while left:
            frame = await self.next()
            assert isinstance(frame, port_forward.Data), frame
            found[frame.stream] += frame.data
            if frame.last:
                left.discard(frame.stream)
        return found


async def test_through_a_tunnel(served: Served) -> None:
    await running_pod(served)
    async with shouting() as port, socket_to(served, TUNNEL_PROTOCOL) as socket:
        tunnel = Tunnel(socket)
        first, second = await tunnel.connect(0, port), await tunnel.connect(1, port)
        for _, data in (first, second):
            await socket.send_bytes(tunnel.writer.data(data, b"a" * 100_000))
            await socket.send_bytes(tunnel.writer.data(data, b"", last=True))
        found = await tunnel.until_closed(*first, *second)
        for errors, data in (first, second):
            assert (found[errors], found[data]) == (b"", b"A" * 100_000 + b"!")
        await socket.send_bytes(tunnel.writer.ping(7))
        assert await tunnel.next() == port_forward.Ping(7)


async def test_a_closed_port(served: Served) -> None:
    await running_pod(served)
    closed = await closed_port()
    async with socket_to(served, TUNNEL_PROTOCOL) as socket:
        tunnel = Tunnel(socket)
        errors, data = await tunnel.connect(0, closed)
        found = await tunnel.until_closed(errors, data)
        assert f"forwarding port {closed}".encode() in found[errors] and found[data] == b""


async def test_invalid_spdy_closes_the_tunnel(served: Served) -> None:
    await running_pod(served)
    async with socket_to(served, TUNNEL_PROTOCOL) as socket:
        await socket.send_bytes(b"\x80\x02\x00\x01\x00\x00\x00\x00")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1002


@pytest.mark.parametrize(
    ("protocol", "query", "status"),
    [(V4, {}, 400), (V4, {"ports": "http"}, 400), (V4, {"ports": "70000"}, 400), ("v7", {"ports": "80"}, 400)],
)
async def test_invalid_port_forward_requests(served: Served, protocol: str, query: dict[str, str], status: int) -> None:
    await running_pod(served)
    async with served.session() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(FORWARD, params=query, protocols=[protocol])
        assert refused.value.status == status


async def test_a_pod_that_does_not_run_has_no_ports(served: Served) -> None:
    async with served.session() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(FORWARD, params={"ports": "80"}, protocols=[V4])
        assert refused.value.status == 404
        await running_pod(served)
        await served.cluster.patch(POD, "web", "default", {"status": {"phase": "Succeeded"}}, subresource="status")
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(FORWARD, params={"ports": "80"}, protocols=[V4])
        assert refused.value.status == 409
