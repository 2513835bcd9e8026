"""A cluster with the workflow kinds, served with both APIs. No controller runs, so a test reads what was written."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from muster.embedded.auth.certificates import ensure_certificates
from muster.embedded.auth.identity import Identity
from muster.embedded.auth.kubeconfig import ensure_admin_kubeconfig
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.objects import Object
from muster.kube.rbac import MASTERS
from muster.server.argo.app import argo_app
from muster.server.http_server import serve_https
from muster.server.kubernetes.app import kube_app
from muster.server.workers import WorkerPool
from muster.training.registry import training_kinds
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.kinds import WORKFLOW, workflow_kinds
from tests.server.kubernetes.served import Served, ThisMachine


@asynccontextmanager
async def serving(
    home: Path, *, artifacts: bool = False, training: bool = False, workers: WorkerPool | None = None
) -> AsyncIterator[Served]:
    catalogue = new_catalogue()
    for kind in (*workflow_kinds(), *(training_kinds() if training else ())):
        catalogue.register(kind)
    async with EmbeddedCluster(home / "db", catalogue, durability="process") as cluster:
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
                reader = ArtifactClient(cluster, home) if artifacts else None
                kube = kube_app(cluster, identity, workers)
                app = argo_app(cluster, identity, kube, artifacts=reader, workers=workers)
                async with serve_https(app, listener, certificates):
                    yield Served(cluster, identity, node, certificates, url, kubeconfig, token)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


class Argo:
    """A client of the API."""

    def __init__(self, served: Served, session: aiohttp.ClientSession) -> None:
        self.served = served
        self.cluster = served.cluster
        self._session = session

    async def __call__(
        self, method: str, path: str, body: Any = None, *, status: int = 200, query: dict[str, str] | None = None
    ) -> Any:
        where = path if path.startswith("/") else f"/api/v1/{path}"
        async with self._session.request(method, where, json=body, params=query or {}) as response:
            answer = await response.json()
            assert response.status == status, answer
            return answer

    async def workflow(self, name: str, phase: str = "", nodes: Object | None = None, **more: Any) -> Object:
        """A stored Workflow with the status that the controller would have written."""
        status: Object = {}
        if phase:
            status = {"phase": phase, "startedAt": "2026-01-01T00:00:00Z", "progress": "1/1"}
            if phase not in ("Running", "Pending"):
                status["finishedAt"] = "2026-01-01T00:01:00Z"
        if nodes:
            status["nodes"] = nodes
        return await self.cluster.create({**hello(name), **({"status": status} if status else {}), **more})


def hello(name: str = "", **spec: Any) -> Object:
    metadata = {"name": name} if name else {"generateName": "hello-"}
    template = {"name": "main", "container": {"image": "busybox", "command": ["echo", "hello"]}}
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": WORKFLOW.kind,
        "metadata": {**metadata, "namespace": "default"},
        "spec": {"entrypoint": "main", "templates": [template], **spec},
    }
