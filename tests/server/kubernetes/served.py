"""Serves a cluster as in production: uvicorn on the loopback interface, TLS, tokens, a kubeconfig."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from muster.embedded.auth.certificates import Certificates, ensure_certificates
from muster.embedded.auth.identity import Identity
from muster.embedded.auth.kubeconfig import ensure_admin_kubeconfig
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, Conflict, NotFound, Unavailable
from muster.kube.metrics_api import UsageByPod
from muster.kube.objects import Object
from muster.kube.rbac import MASTERS
from muster.server.http_server import serve_https
from muster.server.kubernetes.app import kube_app

on_standing = pytest.mark.asyncio(loop_scope="module")


class Command:
    """A command on this machine, in place of one in a container."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.size = (0, 0)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        pieces: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

        async def read(number: int, stream: asyncio.StreamReader | None) -> None:
            while stream is not None and (data := await stream.read(65536)):
                pieces.put_nowait((number, data))
            pieces.put_nowait((number, b""))

        readers = [asyncio.create_task(read(n, s)) for n, s in ((1, self._process.stdout), (2, self._process.stderr))]
        try:
            open_ = 2
            while open_:
                number, data = await pieces.get()
                if data:
                    yield number, data
                else:
                    open_ -= 1
        finally:
            for reader in readers:
                reader.cancel()

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        if data:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        else:
            self._process.stdin.close()

    async def resize(self, rows: int, columns: int) -> None:
        self.size = (rows, columns)

    async def wait(self) -> int:
        return await self._process.wait()

    async def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class ThisMachine:
    """Replaces the node agent: commands run on this machine, and logs are what a test has written."""

    name = "this-machine"

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], list[bytes]] = {}
        self.asked: list[LogQuery] = []
        self.more = asyncio.Event()
        self.foreign_ports: set[int] = set()
        self.container = "main"
        """The only container of every Pod."""

    async def usage(self) -> tuple[UsageByPod, float]:
        raise Unavailable("nothing is measured here")

    def pods(self) -> dict[str, Object]:
        return {}

    def forward(self, pod: str, namespace: str) -> AbstractContextManager[str]:
        return nullcontext("127.0.0.1")

    def check_listener(self, pod: str, namespace: str, port: int) -> None:
        if port in self.foreign_ports:
            raise Conflict(f'what listens on port {port} of the Pod "{pod}" belongs to another namespace')

    async def logs(self, pod: str, namespace: str, query: LogQuery) -> AsyncIterator[bytes]:
        self.asked.append(query)
        self._check_container(pod, query.container)
        if (namespace, pod) not in self.lines:
            raise NotFound(f'pods "{pod}" not found')
        sent = 0
        while True:
            lines = self.lines[namespace, pod]
            for line in lines[sent:]:
                yield line
            sent = len(lines)
            if not query.follow:
                return
            self.more.clear()
            await self.more.wait()

    def write(self, namespace: str, pod: str, line: bytes) -> None:
        self.lines.setdefault((namespace, pod), []).append(line)
        self.more.set()

    async def exec(
        self, pod: str, namespace: str, command: Sequence[str], *, container: str, stdin: bool, tty: bool
    ) -> Command:
        self._check_container(pod, container)
        return Command(
            await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        )

    async def attach(self, pod: str, namespace: str, *, container: str, stdin: bool) -> Command:
        """A container repeats what it reads."""
        if pod == "none":
            raise NotFound(f'pods "{pod}" not found')
        if pod == "silent" and stdin:
            raise BadRequest(f"cannot attach to container {container}: it has no standard input")
        return await self.exec(pod, namespace, ["sh", "-c", "echo up; cat"], container=container, stdin=stdin, tty=True)

    def _check_container(self, pod: str, container: str) -> None:
        if container not in ("", self.container):
            raise BadRequest(f"container {container} is not valid for pod {pod}")


@dataclass
class Served:
    """A running API and clients for it."""

    cluster: EmbeddedCluster
    identity: Identity
    node: ThisMachine
    certificates: Certificates
    url: str
    kubeconfig: Path
    token: str

    def session(self, token: str | None = None, **headers: str) -> aiohttp.ClientSession:
        """Returns a client with the administrator's token, another token, or none ('')."""
        bearer = self.token if token is None else token
        return aiohttp.ClientSession(
            self.url,
            headers={**({"Authorization": f"Bearer {bearer}"} if bearer else {}), **headers},
            connector=aiohttp.TCPConnector(ssl=self.certificates.client_context()),
        )


@asynccontextmanager
async def serving(home: Path, *, history: int = 5000) -> AsyncIterator[Served]:
    async with EmbeddedCluster(home / "db", new_catalogue(), durability="process", history=history) as cluster:
        node = cluster.node = ThisMachine()
        identity = Identity.open(home / "identity", cluster)
        following = asyncio.create_task(identity.run())
        await identity.wait_synced()
        certificates = ensure_certificates(home / "identity")
        kubeconfig = home / "kubeconfig"
        try:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                url = f"https://127.0.0.1:{listener.getsockname()[1]}"
                ensure_admin_kubeconfig(kubeconfig, url, certificates, identity.tokens)
                token = identity.tokens.issue("test-admin", [MASTERS])
                async with serve_https(kube_app(cluster, identity), listener, certificates):
                    yield Served(cluster, identity, node, certificates, url, kubeconfig, token)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def free_environment(home: Path) -> dict[str, str]:
    """Returns an environment without settings of the machine for kubectl."""
    return {"PATH": os.environ["PATH"], "HOME": str(home)}
