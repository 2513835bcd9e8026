"""The totals of virtual clusters as ResourceQuotas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import LIMIT_RANGE, NAMESPACE, PRIORITY_CLASS, RESOURCE_QUOTA, new_catalogue
from muster.kube.objects import name_of, spec_of
from muster.platform.namespace_objects import NamespaceParts, sync_objects
from muster.platform.records.resources import QueueSystem
from muster.platform.resources import resource_quotas
from muster.platform.resources.queues import list_usage, skus_used, sync_queues
from tests.platform.resources.virtual_clusters import virtual_cluster

SKU = {"nvidia.com/gpu": "1", "cpu": "10", "memory": "80G"}


@pytest.mark.parametrize(
    ("sku", "total", "hard"),
    [
        (
            {"cpu": "1", "memory": "1Gi"},
            2,
            {"pods": "2", "requests.cpu": "2020m", "requests.memory": "2112Mi"},
        ),
        ({"nvidia.com/gpu": "2"}, 3, {"pods": "3", "requests.nvidia.com/gpu": "6"}),
        ({"cpu": "1"}, 0, {"pods": "0", "requests.cpu": "0"}),
    ],
    ids=["with room for Argo's containers", "other resources are exact", "nothing"],
)
def test_a_quota_has_the_total(sku: dict[str, str], total: int, hard: dict[str, str]) -> None:
    spec = resource_quotas.quota_spec(virtual_cluster(sku, total))
    assert spec["hard"] == hard
    assert spec["scopeSelector"]["matchExpressions"] == [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["vc-1"]}
    ]


@pytest.mark.parametrize(
    ("used", "skus"),
    [
        ({}, 0),
        ({"pods": "1", "requests.cpu": "1010m", "requests.memory": "1056Mi"}, 1),
        ({"pods": "1", "requests.cpu": "1", "requests.memory": "1Gi"}, 1),
        ({"pods": "2", "requests.cpu": "3020m", "requests.memory": "3136Mi"}, 3),
    ],
    ids=["none", "a node of a graph", "a replica", "two nodes"],
)
def test_use_is_counted_without_the_containers_of_argo(used: dict[str, str], skus: int) -> None:
    found = resource_quotas.usage_of({"status": {"used": used}})
    assert skus_used(found, virtual_cluster({"cpu": "1", "memory": "1Gi"}, 9)) == skus


@pytest.mark.parametrize(
    ("system", "total", "made"),
    [("quota", 4, ["muster", "vc-1"]), ("quota", None, []), ("volcano", 4, []), ("embedded", 4, [])],
)
def test_namespaces_have_quotas_only_where_nothing_else_counts(
    system: QueueSystem, total: int | None, made: list[str]
) -> None:
    parts = NamespaceParts(queue_system=system)
    assert [name_of(obj) for obj in parts.objects("a", [virtual_cluster(SKU, total)])] == made


async def test_the_cluster_follows(tmp_path: Path) -> None:
    parts = NamespaceParts(queue_system="quota")
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        for name in ("a", "b"):
            await cluster.create({"apiVersion": NAMESPACE.api_version, "kind": "Namespace", "metadata": {"name": name}})

        async def sync(*clusters: Any) -> None:
            await sync_queues(cluster, clusters, "quota")
            wanted = [obj for name in ("a", "b") for obj in parts.objects(name, clusters)]
            assert await sync_objects(cluster, wanted, {"a", "b"}, parts.kinds) == {}

        await sync(virtual_cluster(SKU, 4))
        assert "vc-1" in {name_of(each) for each in (await cluster.list(PRIORITY_CLASS)).items}
        assert spec_of(await cluster.get(RESOURCE_QUOTA, "vc-1", "b"))["hard"]["requests.nvidia.com/gpu"] == "4"
        assert (await cluster.get(LIMIT_RANGE, "muster", "a"))["spec"] == resource_quotas.limit_range_spec()

        await sync(virtual_cluster({"cpu": "10"}, 5))
        hard = spec_of(await cluster.get(RESOURCE_QUOTA, "vc-1", "a"))["hard"]
        assert hard == {"pods": "5", "requests.cpu": "50050m"}, "what is no longer in the SKU is no longer limited"
        assert await list_usage(cluster, "quota") == {"1": {"cpu": "0"}}

        await sync()
        assert (await cluster.list(RESOURCE_QUOTA)).items == []
        assert (await cluster.list(LIMIT_RANGE)).items == []
        assert "vc-1" not in {name_of(each) for each in (await cluster.list(PRIORITY_CLASS)).items}
