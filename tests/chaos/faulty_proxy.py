"""A bad network between dispatchers and the API server of a cluster, as a process of its own:
`python -m tests.chaos.faulty_proxy KUBECONFIG OUTPUT` writes the kubeconfig that leads through it, and serves."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson
import yaml
from aiohttp import web

from tests.chaos.dispatch_crew import ROOT
from tests.dispatch.loopback import Call, Loopback, Problem, program_arguments, run_program

_CONNECTION_HEADERS = {"host", "connection", "transfer-encoding", "content-length"}
_LONGEST_WATCH = 8.0


class FaultyProxy(Loopback):
    """Passes calls on to the API server of a kubeconfig, and lets some of them fail. Every watch breaks off after some
    seconds. `creations` counts the objects that the API server created, by kind and name."""

    lost_seconds = 3.0

    def __init__(self, kubeconfig: Path, output: Path, *, fault_rate: float, seed: int) -> None:
        super().__init__(fault_rate=fault_rate, seed=seed)
        self._config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        self._server = str(self._config["clusters"][0]["cluster"]["server"])
        self._output = output

    def __enter__(self) -> Self:
        entered = super().__enter__()
        clusters = [{"name": self._config["clusters"][0]["name"], "cluster": {"server": self.url}}]
        self._output.write_text(yaml.safe_dump({**self._config, "clusters": clusters}))
        return entered

    def action_of(self, request: web.Request) -> str:
        return "WATCH" if "watch" in request.query else request.method

    def refusal(self, problem: Problem) -> tuple[int, dict[str, Any]]:
        status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": problem.code}
        return problem.status, {**status, "message": problem.message, "code": problem.status}

    async def respond(self, request: web.Request, call: Call) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _CONNECTION_HEADERS}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, self._server + request.path_qs, data=call.raw or None, headers=headers, ssl=False
            ) as upstream,
        ):
            kept = {name: value for name, value in upstream.headers.items() if name.lower() not in _CONNECTION_HEADERS}
            if call.action == "WATCH":
                return await self._stream(request, upstream, kept)
            body = await upstream.read()
        if call.method == "POST" and upstream.status == 201:
            created = orjson.loads(body)
            self.creations[f"{created['kind']}/{created['metadata']['name']}"] += 1
        return web.Response(status=upstream.status, body=body, headers=kept)

    async def _stream(
        self, request: web.Request, upstream: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status, headers=headers)
        await response.prepare(request)
        with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
            async with asyncio.timeout(random.uniform(1.0, _LONGEST_WATCH)):
                async for piece in upstream.content.iter_any():
                    await response.write(piece)
        return response


class ProxyProcess:
    """A `FaultyProxy` in front of a cluster, until the block ends."""

    def __init__(self, kubeconfig: Path, output: Path, *, fault_rate: float, seed: int) -> None:
        self.kubeconfig = output
        options = ["--fault-rate", str(fault_rate), "--seed", str(seed)]
        self._command = [sys.executable, "-m", "tests.chaos.faulty_proxy", str(kubeconfig), str(output), *options]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, f"the proxy ended with {self._process.wait()}; its error is above"
        self._url = said.split()[-1]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)

    def counts(self) -> dict[str, dict[str, int]]:
        """Returns the creations, calls and faults up to now."""
        with urllib.request.urlopen(f"{self._url}/_loopback/counts", timeout=60) as response:
            found: dict[str, dict[str, int]] = orjson.loads(response.read())
        return found


if __name__ == "__main__":
    parser = program_arguments("A proxy of a Kubernetes API that lets calls fail")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    proxy = FaultyProxy(given.kubeconfig, given.output, fault_rate=given.fault_rate, seed=given.seed)
    run_program(proxy, "faulty proxy")
