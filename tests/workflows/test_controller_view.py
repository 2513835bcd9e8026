"""The engine's view of the cluster: one namespace, as of now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, new_catalogue
from muster.kube.objects import Object
from muster.workflows.cluster_view import StoreView
from muster.workflows.engine.synchronization import LockTable
from muster.workflows.kinds import workflow_kinds

TEMPLATE = {"entrypoint": "a", "templates": [{"name": "a", "suspend": {}}]}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path, catalogue, durability="process") as found:
        yield found


def view(cluster: EmbeddedCluster, namespace: str = "default") -> StoreView:
    return StoreView(cluster, namespace, LockTable())


def config_map(namespace: str, **data: str) -> Object:
    body: dict[str, Any] = {"data": data} if data else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": namespace}, **body}


async def test_time_stands_still_while_it_is_looked_at(cluster: EmbeddedCluster) -> None:
    before = datetime.now(UTC)
    found = view(cluster)
    assert before <= found.now <= datetime.now(UTC)
    assert found.now is found.now


async def test_config_maps_are_those_of_the_namespace_as_they_are_now(cluster: EmbeddedCluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    found = view(cluster)
    assert found.config_map("limits") is None
    await cluster.create(config_map("default", gpus="2"))
    await cluster.create(config_map("other"))
    assert found.config_map("limits") == {"gpus": "2"}
    await cluster.patch(CONFIG_MAP, "limits", "default", {"data": {"gpus": "3"}})
    assert found.config_map("limits") == {"gpus": "3"}
    assert view(cluster, "other").config_map("limits") == {}


async def test_templates_are_of_the_namespace_or_of_the_cluster(cluster: EmbeddedCluster) -> None:
    api = "argoproj.io/v1alpha1"
    metadata = {"name": "train", "namespace": "default"}
    await cluster.create({"apiVersion": api, "kind": "WorkflowTemplate", "metadata": metadata, "spec": TEMPLATE})
    wide = {"apiVersion": api, "kind": "ClusterWorkflowTemplate", "metadata": {"name": "everywhere"}, "spec": TEMPLATE}
    await cluster.create(wide)
    for namespace, name, cluster_scope, kind in (
        ("default", "train", False, "WorkflowTemplate"),
        ("default", "train", True, None),
        ("other", "train", False, None),
        ("default", "everywhere", True, "ClusterWorkflowTemplate"),
        ("other", "everywhere", True, "ClusterWorkflowTemplate"),
        ("default", "everywhere", False, None),
    ):
        found = view(cluster, namespace).template(name, cluster_scope=cluster_scope)
        assert (found or {}).get("kind") == kind, (namespace, name, cluster_scope)
