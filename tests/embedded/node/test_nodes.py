from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.machine import NVIDIA, MachineInfo
from muster.embedded.node.nodes import (
    DECLARED_ANNOTATION,
    LEASE_NAMESPACE,
    SIMULATED_ANNOTATION,
    NodeHeartbeat,
    is_simulated,
    merge_node,
    node_objects,
)
from muster.embedded.settings import AgentSettings, NodeSettings
from muster.kube.builtin import LEASE, NODE
from muster.kube.objects import Object, name_of, uid_of
from tests.embedded.waiting import run_components, wait_for

MACHINE = MachineInfo("box", 4, 8 * 1024**3, 100 * 1024**3, {NVIDIA: ("0", "1")}, "arm64", "6.1", "Debian")
SETTINGS = AgentSettings(
    home=Path("/h"),
    capacity={"memory": "4Gi", "example.com/dongle": "2"},
    labels={"zone": "a"},
    taints=({"key": "k", "effect": "NoSchedule"},),
    nodes=(NodeSettings("big", simulated=True, capacity={"cpu": "64"}), NodeSettings("twin")),
)


def nodes(settings: AgentSettings = SETTINGS) -> list[Object]:
    return node_objects(settings, MACHINE, "v1", "sandbox://1", "2024-01-01T00:00:00Z")


def test_the_machines_own_node() -> None:
    own = nodes()[0]
    assert own["metadata"]["name"] == "box"
    assert own["metadata"]["labels"] == {
        "kubernetes.io/hostname": "box", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64", "zone": "a",
    }  # fmt: skip
    assert own["spec"] == {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    assert own["status"]["capacity"] == {
        "cpu": "4", "memory": "4Gi", "ephemeral-storage": "104857600Ki", "pods": "1000", NVIDIA: "2",
        "example.com/dongle": "2",
    }  # fmt: skip
    assert {c["type"]: c["status"] for c in own["status"]["conditions"]}["Ready"] == "True"
    assert own["status"]["nodeInfo"]["containerRuntimeVersion"] == "sandbox://1"
    assert nodes(AgentSettings(home=Path("/h"), node_name="named"))[0]["metadata"]["name"] == "named"


def test_declared_nodes_have_what_was_declared_but_not_the_machines_devices() -> None:
    _, big, twin = nodes()
    assert (is_simulated(big), is_simulated(twin)) == (True, False)
    assert (big["status"]["capacity"]["cpu"], twin["status"]["capacity"]["cpu"]) == ("64", "4")
    assert NVIDIA not in twin["status"]["capacity"]
    assert big["status"]["nodeInfo"]["containerRuntimeVersion"] == "simulated://1"


def test_changes_by_users_to_a_node_stay() -> None:
    wanted = nodes()[0]
    found = {
        "metadata": {
            "name": "box",
            "resourceVersion": "7",
            "labels": {"mine": "1", "zone": "old"},
            "annotations": {"x": "y"},
        },
        "spec": {"unschedulable": True, "taints": [{"key": "user", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Odd", "status": "True"}, {"type": "Ready", "status": "False"}]},
    }
    up_to_date = merge_node(found, wanted)
    assert up_to_date["metadata"]["resourceVersion"] == "7"
    assert up_to_date["metadata"]["labels"]["mine"] == "1" and up_to_date["metadata"]["labels"]["zone"] == "a"
    assert up_to_date["spec"]["unschedulable"] is True
    assert [t["key"] for t in up_to_date["spec"]["taints"]] == ["user", "k"]
    assert [c["type"] for c in up_to_date["status"]["conditions"]].count("Ready") == 1
    assert "Odd" in [c["type"] for c in up_to_date["status"]["conditions"]]
    assert [t["key"] for t in merge_node(up_to_date, wanted)["spec"]["taints"]] == ["user", "k"]


def seen_since(moment: str) -> Callable[[Object], bool]:
    return lambda node: bool(node["status"]["conditions"][0]["lastHeartbeatTime"] > moment)


async def test_this_machines_node_renews_its_lease_and_tells_when_it_was_seen(cluster: EmbeddedCluster) -> None:
    long_ago = "2020-01-01T00:00:00Z"
    status = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": long_ago}]}
    for name, more in {"own": {}, "simulated": {SIMULATED_ANNOTATION: "true"}}.items():
        metadata = {"name": name, "annotations": {DECLARED_ANNOTATION: "true", **more}}
        await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
    async with run_components(NodeHeartbeat(cluster, renew_seconds=0.01)):
        first = await wait_for(cluster, LEASE, "own", lambda _: True, namespace=LEASE_NAMESPACE)
        renewed = first["spec"]["renewTime"]
        await wait_for(
            cluster, LEASE, "own", lambda lease: lease["spec"]["renewTime"] > renewed, namespace=LEASE_NAMESPACE
        )
        node = await wait_for(
            cluster, NODE, "own", lambda n: n["status"]["conditions"][0]["lastHeartbeatTime"] > long_ago
        )
    assert first["metadata"]["ownerReferences"][0]["uid"] == uid_of(node)
    assert [name_of(lease) for lease in (await cluster.list(LEASE, LEASE_NAMESPACE)).items] == ["own"]
