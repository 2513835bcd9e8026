"""A virtual cluster as a queue of Kueue."""

from __future__ import annotations

from muster.platform.resources import kueue
from muster.platform.resources.queues import describe_cluster_queue
from tests.platform.resources.virtual_clusters import virtual_cluster

GPUS = virtual_cluster(
    {"nvidia.com/gpu": "1", "cpu": "10"}, 3, node_selector={"pool": "gpu"}, tolerations=["gpu=yes:NoSchedule"]
)


def test_the_flavor_has_the_nodes_of_the_virtual_cluster() -> None:
    toleration = {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    assert kueue.flavor_spec(GPUS) == {"nodeLabels": {"pool": "gpu"}, "tolerations": [toleration]}
    assert kueue.flavor_spec(virtual_cluster({"cpu": "1"}, 1)) == {}


def test_the_queue_has_the_total_and_no_other_limit() -> None:
    """Pods may request memory although the SKU has none, and Kueue refuses what it has no quota for."""
    (group,) = kueue.cluster_queue_spec(GPUS)["resourceGroups"]
    (flavor,) = group["flavors"]
    assert group["coveredResources"] == ["cpu", "memory", "nvidia.com/gpu"]
    assert flavor == {
        "name": "vc-1",
        "resources": [
            {"name": "cpu", "nominalQuota": "30"},
            {"name": "memory", "nominalQuota": "1000Ti"},
            {"name": "nvidia.com/gpu", "nominalQuota": "3"},
        ],
    }


def test_a_queue_is_shown_with_its_limits_and_its_use() -> None:
    usage = [{"name": "cpu", "total": "20"}, {"name": "nvidia.com/gpu", "total": "2"}]
    queue = {
        "metadata": {"name": "vc-1", "labels": {"muster.dev/virtual-cluster": "1"}},
        "spec": kueue.cluster_queue_spec(GPUS),
        "status": {
            "flavorsUsage": [{"name": "vc-1", "resources": usage}],
            "pendingWorkloads": 4,
            "admittedWorkloads": 2,
        },
    }
    found = describe_cluster_queue(queue, "gpus")
    assert (found.cluster_id, found.cluster_name, found.state) == ("1", "gpus", "Open")
    assert found.capability == {"cpu": "30", "nvidia.com/gpu": "3"}
    assert found.allocated == {"cpu": "20", "nvidia.com/gpu": "2"}
    assert (found.groups["pending"], found.groups["running"]) == (4, 2)
