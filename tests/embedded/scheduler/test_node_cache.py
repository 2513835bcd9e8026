"""Which node fits a Pod, and the reasons if none does."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from tests.embedded.scheduler.objects import Bench, a_node, a_pod


def node_affinity(*expressions: dict[str, Any], **term: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions), **term}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def tainted(name: str, effect: str = "NoSchedule", value: str = "v") -> Object:
    return a_node(name, spec={"taints": [{"key": "k", "value": value, "effect": effect}]})


@pytest.mark.parametrize(
    ("nodes", "pod", "message"),
    [
        ([], a_pod(), "no nodes available to schedule pods"),
        ([a_node(gpu=1)], a_pod(gpu=2), "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        ([a_node()], a_pod(gpu=1), "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        ([a_node(cpu=1, memory=1)], a_pod(cpu=2, memory=2),
         "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."),
        ([a_node("a", pods=0), a_node("b", pods=0)], a_pod(), "0/2 nodes are available: 2 Too many pods."),
        ([tainted("a"), a_node("b"), a_node("c")], a_pod(nodeSelector={"disk": "ssd"}),
         "0/3 nodes are available: 1 node(s) had untolerated taint {k: v}, "
         "2 node(s) didn't match Pod's node affinity/selector."),
        ([tainted("a", "NoExecute", "")], a_pod(),
         "0/1 nodes are available: 1 node(s) had untolerated taint {k: }."),
        ([a_node(spec={"unschedulable": True})], a_pod(), "0/1 nodes are available: 1 node(s) were unschedulable."),
        ([a_node(conditions=[{"type": "Ready", "status": "Unknown"}])], a_pod(),
         "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }."),
        ([a_node()], a_pod(affinity=node_affinity(rule("kubernetes.io/hostname", "NotIn", "node"))),
         "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        ([a_node()], a_pod(affinity=node_affinity()),
         "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        ([a_node()], a_pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["1"]}]}]}}}),
         'matchFields: "spec.x" In: only metadata.name with In or NotIn is supported'),
    ],
    ids=["no nodes", "gpu", "a resource that no node has", "two resources", "pods", "sorted with counts", "NoExecute",
         "cordoned", "not ready", "affinity", "empty term", "malformed"],
)  # fmt: skip
def test_no_node_will_do(nodes: list[Object], pod: Object, message: str) -> None:
    bench = Bench(*nodes, pod)
    assert bench.run() == {}
    assert bench.reasons == {"pod": message}


LABELS = {"disk": "ssd", "cores": "16"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(nodeSelector={"disk": "ssd"}), "labelled"),
        (a_pod(affinity=node_affinity(rule("disk", "In", "hdd", "ssd"))), "labelled"),
        (a_pod(affinity=node_affinity(rule("disk", "NotIn", "ssd"))), "plain"),
        (a_pod(affinity=node_affinity(rule("disk", "Exists"))), "labelled"),
        (a_pod(affinity=node_affinity(rule("disk", "DoesNotExist"))), "plain"),
        (a_pod(affinity=node_affinity(rule("cores", "Gt", "8"))), "labelled"),
        (a_pod(affinity=node_affinity(rule("cores", "Lt", "8"))), None),
        (a_pod(affinity=node_affinity(rule("disk", "Exists"), rule("cores", "Gt", "16"))), None),
        (a_pod(affinity=node_affinity(matchFields=[rule("metadata.name", "In", "plain")])), "plain"),
        (a_pod(affinity=node_affinity(matchFields=[rule("metadata.name", "NotIn", "plain")])), "labelled"),
    ],
)
def test_selectors_and_required_affinity(pod: Object, expected: str | None) -> None:
    bench = Bench(a_node("plain"), a_node("labelled", labels=LABELS), pod)
    assert bench.run().get("pod") == expected


@pytest.mark.parametrize(
    ("toleration", "placed"),
    [
        ({}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True),
    ],
)
def test_tolerations(toleration: dict[str, str], placed: bool) -> None:
    bench = Bench(tainted("node"), a_pod(tolerations=[toleration]))
    assert bool(bench.run()) is placed


def test_a_cordoned_node_takes_pods_that_tolerate_it() -> None:
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    bench = Bench(a_node(spec={"unschedulable": True}), a_pod(tolerations=[toleration]))
    assert bench.run() == {"pod": "node"}


def preferring(weight: int, label: str) -> dict[str, Any]:
    preference = {"weight": weight, "preference": {"matchExpressions": [rule(label, "Exists")]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


@pytest.mark.parametrize(
    ("nodes", "pod", "expected"),
    [
        ([a_node("full", cpu=2), a_node("large", cpu=64)], a_pod(cpu=1), "full"),
        ([a_node("gpus", cpu=2, gpu=8), a_node("plain", cpu=64)], a_pod(cpu=1), "plain"),
        ([a_node("eight", gpu=8), a_node("two", gpu=2)], a_pod(gpu=2), "two"),
        ([a_node("small", cpu=2), a_node("liked", cpu=64, labels={"x": ""})],
         a_pod(cpu=1, affinity=preferring(1, "x")), "liked"),
        ([tainted("avoided", "PreferNoSchedule"), a_node("other", cpu=64)], a_pod(cpu=1), "other"),
        ([tainted("avoided", "PreferNoSchedule")], a_pod(cpu=1), "avoided"),
    ],
    ids=["packs cpu", "keeps off GPU nodes", "packs GPUs", "preferred affinity first", "avoids PreferNoSchedule",
         "but takes it if need be"],
)  # fmt: skip
def test_the_best_node(nodes: list[Object], pod: Object, expected: str) -> None:
    for order in (nodes, nodes[::-1]):
        assert Bench(*order, pod).run() == {"pod": expected}


def with_port(name: str, **port: Any) -> Object:
    pod = a_pod(name)
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, **port}]
    return pod


@pytest.mark.parametrize(
    ("second", "clash"),
    [
        ({"hostPort": 80}, True),
        ({"hostPort": 81}, False),
        ({"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "127.0.0.1"}, True),
        ({}, False),
    ],
)
def test_host_ports(second: dict[str, Any], clash: bool) -> None:
    bench = Bench(a_node(), with_port("first", hostPort=80), with_port("second", **second))
    assert len(bench.run()) == (1 if clash else 2)
    if clash:
        words = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
        assert bench.reasons == {"second": words}
        bench.remove("first")
        assert bench.run() == {"second": "node"}


def test_ports_on_one_address_each() -> None:
    first, second = (with_port(n, hostPort=80, hostIP=f"127.0.0.{i}") for i, n in enumerate("ab", 1))
    assert len(Bench(a_node(), first, second).run()) == 2


def test_on_the_host_network_every_port_is_a_host_port() -> None:
    first, second = with_port("first"), with_port("second")
    for pod in (first, second):
        pod["spec"]["hostNetwork"] = True
    assert len(Bench(a_node(), first, second).run()) == 1


def test_a_bound_pod_uses_its_node_even_before_the_node_is_known() -> None:
    bench = Bench(a_pod("preset", cpu=6, nodeName="node"), a_pod("other", cpu=4))
    bench.run()
    bench.put(a_node(cpu=8))
    assert bench.run() == {}
    bench.phase("Succeeded", "preset")
    assert bench.run() == {"other": "node"}


def test_a_node_that_comes_back_still_has_its_pods() -> None:
    bench = Bench(a_node(cpu=8), a_pod("first", cpu=6))
    assert bench.run() == {"first": "node"}
    bench.state.drop_node("node")
    bench.put(a_pod("second", cpu=6))
    assert bench.run() == {}
    bench.put(a_node(cpu=8))
    assert bench.run() == {}
    bench.put(a_node(cpu=16))
    assert bench.run() == {"second": "node"}


def test_new_kinds_of_resources_and_labels_come_with_nodes_and_pods() -> None:
    bench = Bench(a_node("old", cpu=8), a_pod("first", cpu=1))
    assert bench.run() == {"first": "old"}
    bench.put(a_node("new", cpu=8, gpu=2, labels={"zone": "z"}))
    bench.put(a_pod("gpu", gpu=2, cpu=1), a_pod("zonal", cpu=7, nodeSelector={"zone": "z"}), a_pod("large", cpu=7))
    assert bench.run() == {"gpu": "new", "zonal": "new", "large": "old"}


def test_a_pod_that_asks_for_nothing_fits_an_overcommitted_node() -> None:
    bench = Bench(a_node(cpu=1), a_pod("a", cpu=1, nodeName="node"), a_pod("b", cpu=1, nodeName="node"), a_pod("none"))
    assert bench.run() == {"none": "node"}
