from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.objects import Object
from muster.workflows.artifacts.client import ArtifactClient

WORKFLOW: Object = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "wf", "namespace": "default", "uid": "u"},
    "spec": {},
}
SCOPE = {"workflow.name": "wf", "pod.name": "wf-a"}


class Shop:
    """A cluster with Secrets, and the artifact client of its workflows."""

    def __init__(self, cluster: EmbeddedCluster, home: Path) -> None:
        self.cluster = cluster
        self.home = home
        self.artifacts = ArtifactClient(cluster, home / "workflows")

    async def secret(self, name: str, **values: str) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        await self._put("Secret", name, data=data)

    async def config_map(self, name: str, annotations: dict[str, str] | None = None, **values: str) -> None:
        await self._put("ConfigMap", name, annotations=annotations, data=values)

    async def service(self, name: str, address: str, port: int, target: int) -> None:
        """A Service with one Pod that runs at this address."""
        ports = [{"port": port, "targetPort": target}]
        await self._put("Service", name, spec={"selector": {"app": name}, "ports": ports})
        metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
        containers = [{"name": "main", "image": "i", "command": ["true"]}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
        made = await self.cluster.create(pod)
        await self.cluster.update({**made, "status": {"phase": "Running", "podIP": address}}, subresource="status")

    async def _put(self, kind: str, name: str, annotations: dict[str, str] | None = None, **body: Any) -> None:
        metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
        await self.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, **body})

    def file(self, text: str, name: str = "file") -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def fetched(self, artifact: dict[str, Any], workflow: Object = WORKFLOW) -> Path:
        target = self.home / f"fetched-{len(list(self.home.glob('fetched-*')))}"
        await self.artifacts.fetch(workflow, artifact, target)
        return target

    async def read(self, artifact: dict[str, Any], workflow: Object = WORKFLOW) -> bytes:
        return b"".join([block async for block in self.artifacts.read(workflow, artifact)])


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), durability="process") as cluster:
        yield Shop(cluster, tmp_path)
