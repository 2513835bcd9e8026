"""Usage in the form of metrics.k8s.io."""

from __future__ import annotations

from muster.kube.metrics_api import WHOLE_NODE, ResourceUsage, node_metrics, pod_metrics
from muster.kube.objects import Object


def pod(uid: str, node: str = "own", phase: str = "Running") -> Object:
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "labels": {"a": "b"}},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": phase},
    }


RATES = {
    "a": ResourceUsage(0.25, 2048),
    "b": ResourceUsage(1.5, 1024),
    "done": ResourceUsage(0, 0),
    WHOLE_NODE: ResourceUsage(1.9, 4096),
}


def test_a_pod_that_runs_and_was_measured_has_metrics() -> None:
    (found,) = pod_metrics([pod("a"), pod("unseen"), pod("done", phase="Succeeded")], RATES, "now", 0.5)
    assert found["metadata"] == {"name": "a", "namespace": "default", "labels": {"a": "b"}, "creationTimestamp": "now"}
    assert found["containers"] == [{"name": "main", "usage": {"cpu": "250000000n", "memory": "2Ki"}}]
    assert found["window"] == "0.500s"


def test_the_machines_node_uses_what_the_machine_uses_and_others_what_their_pods_do() -> None:
    nodes: list[Object] = [{"metadata": {"name": name}} for name in ("own", "other", "idle")]
    found = node_metrics(nodes, [pod("a", "other"), pod("b", "other")], "own", RATES, "now", 0.5)
    assert [(n["metadata"]["name"], n["usage"]["cpu"], n["usage"]["memory"]) for n in found] == [
        ("own", "1900000000n", "4Ki"),
        ("other", "1750000000n", "3Ki"),
        ("idle", "0n", "0Ki"),
    ]
