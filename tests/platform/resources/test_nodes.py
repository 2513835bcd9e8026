"""The resources of the nodes, and how many SKUs they amount to."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.platform.resources.nodes import ResourceAmount, describe_node, largest_skus, skus_available

GI = 2**30


def node(name: str = "a", capacity: dict[str, str] | None = None, **more: Any) -> Object:
    status = {"capacity": capacity or {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2", "pods": "110"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": more.get("labels") or {}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": more.get("spec") or {},
        "status": {**status, "conditions": [{"type": "Ready", "status": more.get("ready", "True")}]},
    }


def pod(**requests: str) -> Object:
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "a", "containers": containers}, "status": {}}


def test_a_node_has_its_resources_and_the_requests_of_its_pods() -> None:
    found = describe_node(node(labels={"pool": "x"}), [pod(cpu="1500m", memory="1Gi"), pod(cpu="1")])
    assert found.ready
    assert found.pods == 2
    assert found.amounts == [
        ResourceAmount("cpu", 2.5, 8.0, 8.0),
        ResourceAmount("memory", GI, 16 * GI, 16 * GI),
        ResourceAmount("nvidia.com/gpu", 0, 2, 2),
        ResourceAmount("pods", 2, 110, 110),
    ]


def test_a_node_says_why_no_pods_are_scheduled_to_it() -> None:
    taint = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
    found = describe_node(node(ready="Unknown", spec={"unschedulable": True, "taints": [taint, {"key": "x"}]}), [])
    assert (found.ready, found.unschedulable, found.taints) == (False, True, ["gpu=a100:NoSchedule", "x:"])


@pytest.mark.parametrize(
    ("sku", "selector", "total", "expected"),
    [
        ({"cpu": "4"}, {}, None, 4),
        ({"cpu": "4"}, {}, 3, 3),
        ({"cpu": "4"}, {}, 9, 4),
        ({"cpu": "3"}, {}, None, 4),  # two on each: the remainders of both nodes make no whole SKU
        ({"cpu": "4"}, {"pool": "x"}, None, 2),
        ({"cpu": "4"}, {"pool": "y"}, None, 0),
        ({"cpu": "1", "nvidia.com/gpu": "1"}, {}, None, 2),
        ({"cpu": "1", "memory": "9Gi"}, {}, None, 2),
        ({"tpu": "1"}, {}, None, 0),
    ],
)
def test_available_skus_are_those_that_fit_onto_nodes(
    sku: dict[str, str], selector: dict[str, str], total: int | None, expected: int
) -> None:
    nodes = [
        node("a", labels={"pool": "x"}),
        node("b", {"cpu": "8", "memory": "16Gi"}),
    ]
    assert skus_available(nodes, selector, sku, total) == expected


def test_a_pod_gets_as_many_skus_as_fit_on_one_node() -> None:
    nodes = [node("a", {"cpu": "8"}), node("b", {"cpu": "13"}), node("c", {"cpu": "64"}, labels={"pool": "x"})]
    assert largest_skus(nodes[:2], {}, {"cpu": "4"}) == 3
    assert largest_skus(nodes, {"pool": "x"}, {"cpu": "4"}) == 16
    assert largest_skus(nodes, {"pool": "y"}, {"cpu": "4"}) == 0
