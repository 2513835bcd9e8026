from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.objects import Object
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.executors.resource import artifact_reader
from muster.workflows.executors.resource_conditions import ResourceError
from muster.workflows.model import Launch, Node

WORKFLOW: Object = {"metadata": {"name": "flow", "namespace": "default", "uid": "u-1"}, "spec": {}}


def launch(artifact: dict[str, Any]) -> Launch:
    return Launch(Node(id="n"), "resource", {"inputs": {"artifacts": [{"name": "m", **artifact}]}}, "")


async def test_a_manifest_is_read_from_an_artifact(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    artifacts = ArtifactClient(cluster, tmp_path / "artifacts")
    read = artifact_reader(artifacts, tmp_path / "work")
    source = tmp_path / "manifest.yaml"
    source.write_text("kind: ConfigMap\n")
    kept = await artifacts.save(
        WORKFLOW, {"name": "m", "path": "/m.yaml"}, source, scope={"workflow.name": "flow", "pod.name": "p"}
    )
    assert await read(WORKFLOW, launch(dict(kept)), "m") == b"kind: ConfigMap\n"
    assert await read(WORKFLOW, launch({"raw": {"data": "kind: Secret"}}), "m") == b"kind: Secret"
    assert list((tmp_path / "work").iterdir()) == []


async def test_one_that_is_not_there(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    read = artifact_reader(ArtifactClient(cluster, tmp_path / "artifacts"), tmp_path / "work")
    with pytest.raises(ResourceError, match=r'^resource.manifestFrom.artifact.name: artifact "m": '):
        await read(WORKFLOW, launch({"http": {"url": "http://127.0.0.1:1/x"}}), "m")
