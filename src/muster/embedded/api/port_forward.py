"""`port-forward`: TCP connections to a Pod's ports, over the channels of a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import parse_qsl

from muster.embedded.api import port_tunnel
from muster.embedded.api.calls import Call
from muster.embedded.api.sockets import Closed, Socket, choose
from muster.embedded.api.targets import Target
from muster.embedded.cluster import EmbeddedCluster
from muster.kube import builtin
from muster.kube.errors import BadRequest, Conflict
from muster.kube.objects import status_of
from muster.kube.remote.channels import V4, frame

_BASE64 = "v4.base64.channel.k8s.io"
_PROTOCOLS = (port_tunnel.PROTOCOL, V4, _BASE64)
_PIECE = 32 * 1024


async def forward(cluster: EmbeddedCluster, call: Call, target: Target) -> None:
    pod = await cluster.get(builtin.POD, target.name, target.namespace)
    status = status_of(pod)
    address = str(status.get("podIP") or "")
    if status.get("phase") != "Running" or not address:
        phase = status.get("phase") or "Pending"
        raise Conflict(f'the Pod "{target.name}" is not running but {phase}: it has no open ports')
    protocol = choose(call, _PROTOCOLS)
    if protocol != port_tunnel.PROTOCOL:
        return await _over_channels(call, protocol, address)
    socket = Socket(call)
    await socket.accept(protocol)
    return await port_tunnel.Tunnel(socket, address).run()


async def _over_channels(call: Call, protocol: str, address: str) -> None:
    """Two channels a port, data and errors, each beginning with the port's number."""
    ports = _ports(call)
    socket = Socket(call, base64_text=protocol == _BASE64)
    await socket.accept(protocol)
    writers: dict[int, asyncio.StreamWriter] = {}
    readers: list[asyncio.Task[None]] = []
    try:
        for number, port in enumerate(ports):
            for channel in (2 * number, 2 * number + 1):
                await socket.send(frame(channel, port.to_bytes(2, "little")))
        for number, port in enumerate(ports):
            try:
                reader, writers[2 * number] = await asyncio.open_connection(address, port)
            except OSError as error:
                await socket.send(frame(2 * number + 1, port_tunnel.refusal(port, error)))
                continue
            readers.append(asyncio.create_task(_copy(reader, socket, 2 * number), name=f"port-forward {port}"))
        while True:
            message = await socket.receive()
            writer = writers.get(message[0]) if message else None
            if writer is not None:
                with contextlib.suppress(OSError):
                    writer.write(message[1:])
                    await writer.drain()
    except Closed:
        return
    finally:
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for writer in writers.values():
            writer.close()


async def _copy(reader: asyncio.StreamReader, socket: Socket, channel: int) -> None:
    while data := await reader.read(_PIECE):
        await socket.send(frame(channel, data))


def _ports(call: Call) -> list[int]:
    texts = [
        text
        for name, value in parse_qsl(call.scope["query_string"].decode("latin-1"))
        if name == "ports"
        for text in value.split(",")
    ]
    if not texts:
        raise BadRequest("the query parameter ports is needed: ?ports=8080")
    try:
        ports = [int(text) for text in texts]
    except ValueError:
        raise BadRequest(f"ports must be numbers, not {','.join(texts)}") from None
    if not all(0 < port < 65536 for port in ports) or len(ports) > 100:
        raise BadRequest("ports must be numbers from 1 to 65535, at most 100 of them")
    return ports
