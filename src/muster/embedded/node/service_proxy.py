"""Forwards the ports of Services whose Pods listen on other ports, as kube-proxy does for a cluster address.

Here the name of a Service leads to the addresses of its Pods. That is enough if `port` and `targetPort` are the same.
Otherwise the name leads to an address of the Service, on which a small process of its own listens and forwards
connections to the Pods in turn. It is not the server: what members send through it must not hold up the API. It ends
with the server, and the next server starts another.

    python -m muster.embedded.node.service_proxy     # reads a table per line: {"127.2.0.1:80": ["127.1.0.2:8080"]}
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from muster.kube.objects import Key, Object, key_of, spec_of

Table: TypeAlias = dict[str, list[str]]
"""`address:port` -> the `address:port` of the Pods behind it."""

FIRST_FREE_PORT = 1024
MAX_SERVICES = 64
"""Of one namespace. Every port is a file that the process holds open."""
MAX_PORTS = 16
"""Of one Service."""
MAX_CONNECTIONS = 2048
_LOW_PORT = (
    "its ports are not forwarded to the targetPort of its Pods, because one is below 1024: use a higher port in the "
    "Service, or the port of the Pods"
)
_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 2.0
_CHUNK = 1 << 16


def needs_proxy(service: Object, *, restricted: bool = False) -> bool:
    """Whether clients of the Service use another port than its Pods. Members of a `restricted` namespace cannot use
    ports below 1024: their Pods cannot bind these, and a listener on one keeps it from the machine's own programs,
    which bind all addresses."""
    spec = spec_of(service)
    if restricted and any(port["port"] < FIRST_FREE_PORT for port in _tcp_ports(service)):
        return False
    if spec.get("type") not in (None, "", "ClusterIP", "NodePort", "LoadBalancer") or spec.get("clusterIP"):
        return False
    return bool(spec.get("selector")) and any(
        port.get("targetPort") not in (None, 0, port["port"]) for port in _tcp_ports(service)
    )


def build_table(services: Iterable[tuple[Object, str, Sequence[Backend]]]) -> Table:
    """Each service comes with its own address and its Pods."""
    table: Table = {}
    for service, address, pods in services:
        for port in _tcp_ports(service)[:MAX_PORTS]:
            target = port.get("targetPort") or port["port"]
            numbers = [(pod, pod.ports.get(target) if isinstance(target, str) else int(target)) for pod in pods]
            table[f"{address}:{port['port']}"] = [f"{pod.address}:{number}" for pod, number in numbers if number]
    return table


def _tcp_ports(service: Object) -> list[Mapping[str, Any]]:
    return [port for port in spec_of(service).get("ports") or () if port.get("protocol") in (None, "", "TCP")]


class Backend(NamedTuple):
    """A Pod behind a Service."""

    address: str
    ports: Mapping[str, int]
    """Its named ports."""


class ServiceAddresses:
    """The addresses of the Services that need a proxy, and the process that listens on them."""

    def __init__(
        self, allocate: Callable[[], str], release: Callable[[str], None], on_problem: Callable[[Object, str], None]
    ) -> None:
        """`on_problem` is called with a Service and why its port cannot be served."""
        self._allocate = allocate
        self._release = release
        self._on_problem = on_problem
        self._addresses: dict[Key, str] = {}
        self._services: dict[Key, Object] = {}
        self._table: Table = {}
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    def set_service(self, service: Object, *, restricted: bool = False) -> None:
        if needs_proxy(service) and not needs_proxy(service, restricted=restricted):
            self._on_problem(service, _LOW_PORT)
        if needs_proxy(service, restricted=restricted):
            self._services[key_of(service)] = service
            if key_of(service) not in self._addresses and self._has_room(key_of(service).namespace):
                self._addresses[key_of(service)] = self._allocate()
        else:
            self.remove_service(key_of(service))

    def remove_service(self, key: Key) -> None:
        self._services.pop(key, None)
        address = self._addresses.pop(key, None)
        if address is not None:
            self._release(address)

    def address_of(self, service: Object) -> str:
        """'' if its name leads to its Pods."""
        return self._addresses.get(key_of(service), "")

    def _has_room(self, namespace: str) -> bool:
        return sum(key.namespace == namespace for key in self._addresses) < MAX_SERVICES

    def forward(self, table: Table) -> None:
        """Sends the table to the process, which is started when it is needed for the first time."""
        if table == self._table:
            return
        self._table = table
        if self._process is not None and self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(json.dumps(table).encode() + b"\n")
        elif self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._start(), name="service proxy")

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(sys.path)}, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._table).encode() + b"\n")
        self._reading = asyncio.get_running_loop().create_task(self._read(self._process.stdout), name="proxy problems")

    async def _read(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            listener, problem = json.loads(line)
            address, _, port = listener.rpartition(":")
            for key, own in self._addresses.items():
                if own == address:
                    self._on_problem(self._services[key], f"port {port} cannot be served on {address}: {problem}")

    async def close(self) -> None:
        if self._starting is not None:
            with suppress(asyncio.CancelledError, OSError):
                await self._starting
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # it ends
            await self._process.wait()
        if self._reading is not None:
            await self._reading


# The process.


class Proxy:
    def __init__(self) -> None:
        self._table: Table = {}
        self._servers: dict[str, asyncio.Server] = {}
        self._turns: dict[str, int] = {}
        self._connections = 0
        self._reported: set[str] = set()

    async def update(self, table: Table) -> None:
        self._table = table
        for listener in self._servers.keys() - table.keys():
            self._servers.pop(listener).close()
        self._reported &= table.keys()
        await self.listen()

    async def listen(self) -> bool:
        """Listens where it does not yet. Returns whether it listens everywhere: a port may be taken for a while."""
        for listener in self._table.keys() - self._servers.keys():
            host, _, port = listener.rpartition(":")
            try:
                self._servers[listener] = await asyncio.start_server(self._handler(listener), host, int(port))
            except OSError as error:
                if listener not in self._reported:
                    self._reported.add(listener)
                    print(json.dumps([listener, os.strerror(error.errno or 0)]), flush=True)
        return self._table.keys() == self._servers.keys()

    def _handler(self, listener: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._connections >= MAX_CONNECTIONS:
                writer.close()
                return
            self._connections += 1
            try:
                await self._forward(listener, reader, writer)
            finally:
                self._connections -= 1
                writer.close()

        return handle

    async def _forward(self, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tries the Pods in turn: one that has just ended, or does not listen yet, is skipped."""
        targets = self._table.get(listener) or []
        turn = self._turns[listener] = self._turns.get(listener, -1) + 1
        for target in islice((*targets[turn % len(targets) :], *targets), len(targets)) if targets else ():
            host, _, port = target.rpartition(":")
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    pod_reader, pod_writer = await asyncio.open_connection(host, int(port))
            except (OSError, TimeoutError):
                continue
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_copy(reader, pod_writer))
                    group.create_task(_copy(pod_reader, writer))
            finally:
                pod_writer.close()
            return


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies until the end of the stream, and passes that end on. The other direction may still be open."""
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def serve() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    proxy = Proxy()
    complete = True
    while True:
        try:
            async with asyncio.timeout(None if complete else _RETRY_SECONDS):
                line = await lines.readline()
        except TimeoutError:
            complete = await proxy.listen()
            continue
        if not line:
            return
        await proxy.update(json.loads(line))
        complete = await proxy.listen()


if __name__ == "__main__":
    asyncio.run(serve())
