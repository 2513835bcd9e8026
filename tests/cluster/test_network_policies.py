"""The NetworkPolicies of the server and of the operator, enforced by a real controller: what may connect can, and
nothing else."""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.operator import install_manifests, platform_manifests
from muster.operator.platform_manifests import PlatformOptions
from muster.workspaces.kinds import NOTEBOOK_LABEL, TENSORBOARD_LABEL
from tests.cluster.conftest import Needs, is_running
from tests.cluster.takeover import without_theirs
from tests.cluster.test_platform import finish, log
from tests.cluster.test_platform_deployment import HOST, Deployed, deployed_by
from tests.platform.graphs.samples import SEED_LOG, seed_example
from tools.cluster import addons, network
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.layout import API_PORT
from tools.cluster.operator_image import server_image

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # the controller may have to be built first

PART = "network-policy"
DOCUMENT = Path(__file__).parents[2] / "docs" / "cluster-platform.md"
ETCD_PORT = 2379
LISTENED = 9999
"""A port at which Pods listen and that no policy names."""

LISTEN = f"""
import socket
listener = socket.create_server(("0.0.0.0", {LISTENED}))
while True:
    listener.accept()[0].close()
"""

CONNECT = """
import json, socket, sys
def reaches(host, port):
    try:
        socket.create_connection((host, port), timeout=3).close()
        return True
    except OSError:
        return False
print(json.dumps([reaches(*address) for address in json.loads(sys.argv[1])]))
"""
"""Prints for each address whether a connection is possible."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Client:
    """A Pod from which to connect, and to which others may."""

    real: RealCluster
    namespace: str
    name: str

    @property
    def address(self) -> str:
        return self.kubectl("get", "pod", self.name, "--output=jsonpath={.status.podIP}")

    def kubectl(self, *words: str) -> str:
        return self.real.kubectl(f"--namespace={self.namespace}", *words)

    def reached(self, addresses: Mapping[str, Address]) -> set[str]:
        """The names of those addresses to which it can connect."""
        return reached(self.real, self.namespace, self.name, addresses)


@pytest.fixture(scope="module")
def enforcing(real: RealCluster) -> Iterator[RealCluster]:
    """With the controller of policies. It is not there for other tests: it works at every change of a Pod."""
    if is_running(real, PART):
        yield real
        return
    with network.left():
        real.up([PART])
    try:
        yield real
    finally:
        real.stop("network-policy-controller")


@pytest.fixture
def deployed(enforcing: RealCluster, needs: Needs, namespace: str, tmp_path: Path) -> Iterator[Deployed]:
    real = needs("node", "argo", "s3")
    with without_theirs(real), deployed_by(real, namespace, tmp_path, with_operator=True) as platform:
        yield platform


async def test_the_platform_works_and_connects_only_where_its_policies_allow(deployed: Deployed) -> None:
    member = await deployed.member()
    done = await finish(member, seed_example())
    assert done["state"] == "succeeded", json.dumps(done["node_states"])
    assert await log(member, done["id"], "step2") == SEED_LOG

    real, namespace = deployed.real, deployed.namespace
    server, operator = pod_of(deployed, platform_manifests.SELECTOR), pod_of(deployed, install_manifests.SELECTOR)
    for pod in (server, operator):
        listen(deployed, pod)
    policy = json.loads(deployed.kubectl("get", "networkpolicy", platform_manifests.NAME, "--output=json"))
    ports = {each["port"] for each in policy["spec"]["egress"][1]["ports"]}
    (database,) = ports - {*PlatformOptions().egress_ports, addons.S3_PORT}
    with (
        client(real, "peer") as peer,
        client(real, "notebook", {NOTEBOOK_LABEL: "a"}) as notebook,
        socket.create_server((HOST, ETCD_PORT)),  # this process is in the cluster's network
    ):
        servers: dict[str, Address] = {
            "web": (address_of(deployed, server), platform_manifests.PORT),
            "monitoring": (address_of(deployed, server), platform_manifests.MONITORING_PORT),
            "web by its Service": (f"muster.{namespace}", 80),
            "another port of the server": (address_of(deployed, server), LISTENED),
            "webhook": (f"muster-operator.{namespace}", 443),
            "metrics of the operator": (f"muster-operator.{namespace}", install_manifests.PORT),
            "another port of the operator": (address_of(deployed, operator), LISTENED),
        }
        others = {"another port of the server", "another port of the operator"}
        assert peer.reached(servers) == servers.keys() - others
        # The node may connect to each port of its Pods, so something listens there.
        assert from_node(real, servers, others) == others

        outside: dict[str, Address] = {
            "API server": ("kubernetes.default", 443),
            "API server at its own port": (HOST, API_PORT),
            "DNS": (HOST, 53),
            "PostgreSQL": (HOST, database),
            "S3": (HOST, addons.S3_PORT),
            "kubelet": (HOST, 10250),
            "etcd of a PaddleJob": (HOST, ETCD_PORT),
            "a Pod": (peer.address, LISTENED),
            "a notebook": (notebook.address, LISTENED),
        }
        assert peer.reached(outside) == outside.keys(), "no policy applies to it"
        everyones = {"API server", "API server at its own port", "DNS", "a notebook"}
        assert reached(real, namespace, server, outside) == {*everyones, "PostgreSQL", "S3"}
        assert reached(real, namespace, operator, outside) == {*everyones, "etcd of a PaddleJob"}

        limited = PlatformOptions(
            namespace=namespace,
            ingress_from=[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": notebook.namespace}}}],
        )
        real.apply(platform_manifests.network_policy(limited))
        until_reached(peer, servers, servers.keys() - others - {"web", "web by its Service"})
        assert notebook.reached(servers) == servers.keys() - others


def test_the_policy_of_the_documentation_keeps_teams_apart(enforcing: RealCluster) -> None:
    """Pods of a namespace reach each other and the rest of the world. Others reach them only if they are the
    platform's."""
    real = enforcing
    real.load(server_image())
    with (
        client(real, "one") as one,
        client(real, "two", {TENSORBOARD_LABEL: "a"}) as two,
        client(real, "platform") as platform,
    ):
        beside = start_client(real, two.namespace, "beside")
        target: dict[str, Address] = {"two": (two.address, LISTENED)}
        assert one.reached(target) == target.keys()
        policy = policy_of_the_documentation(platform.namespace)
        assert policy["kind"] == "NetworkPolicy"
        policy["metadata"]["namespace"] = two.namespace
        real.apply(policy)
        until_reached(one, target, set())
        assert beside.reached(target) == target.keys()
        assert platform.reached(target) == target.keys()
        assert two.reached({"one": (one.address, LISTENED), "DNS": (HOST, 53)}) == {"one", "DNS"}


def policy_of_the_documentation(platform: str) -> dict[str, Any]:
    text = DOCUMENT.read_text()
    block = re.search(r"```yaml\n(apiVersion: networking\.k8s\.io/v1\n.*?)```", text, re.DOTALL)
    assert block is not None, "docs/cluster-platform.md has a NetworkPolicy for namespaces of teams"
    found: dict[str, Any] = yaml.safe_load(block[1].replace("muster-system", platform))
    return found


def until_reached(pod: Client, addresses: Mapping[str, Address], names: Set[str]) -> None:
    """The controller takes a moment to apply a policy."""
    for _ in range(20):
        found = pod.reached(addresses)
        if found == names:
            return
    assert found == names


def reached(real: RealCluster, namespace: str, pod: str, addresses: Mapping[str, Address]) -> set[str]:
    words = ["exec", f"--namespace={namespace}", pod, "--", "python3", "-c", CONNECT]
    answers = json.loads(real.kubectl(*words, json.dumps(list(addresses.values()))))
    return {name for name, is_reached in zip(addresses, answers, strict=True) if is_reached}


def from_node(real: RealCluster, addresses: Mapping[str, Address], names: set[str]) -> set[str]:
    wanted = sorted(names)
    ran = real.run(["python3", "-c", CONNECT, json.dumps([addresses[name] for name in wanted])], seconds=60)
    return {name for name, is_reached in zip(wanted, json.loads(ran.stdout), strict=True) if is_reached}


def pod_of(deployed: Deployed, selector: Mapping[str, str]) -> str:
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    return deployed.kubectl("get", "pods", f"--selector={labels}", "--output=name").split()[0].removeprefix("pod/")


def address_of(deployed: Deployed, pod: str) -> str:
    return deployed.kubectl("get", "pod", pod, "--output=jsonpath={.status.podIP}")


def listen(deployed: Deployed, pod: str) -> None:
    """Starts a listener beside the Pod's own process, and waits until it listens."""
    start = (
        "import subprocess, sys, socket, time\n"
        f"subprocess.Popen([sys.executable, '-c', {LISTEN!r}], start_new_session=True,"
        " stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "while True:\n"
        "    try:\n"
        f"        socket.create_connection(('127.0.0.1', {LISTENED})).close()\n"
        "        break\n"
        "    except OSError:\n"
        "        time.sleep(0.1)\n"
    )
    deployed.kubectl("exec", pod, "--", "python3", "-c", start)


@contextmanager
def client(real: RealCluster, name: str, labels: Mapping[str, str] | None = None) -> Iterator[Client]:
    """A Pod in a namespace of its own that listens at one port."""
    namespace = f"{name}-{uuid.uuid4().hex[:6]}"
    real.kubectl("create", "namespace", namespace)
    real.kubectl("wait", f"--namespace={namespace}", "--for=create", "serviceaccount/default", "--timeout=60s")
    try:
        yield start_client(real, namespace, name, labels)
    finally:
        real.kubectl("delete", "namespace", namespace, "--wait=false")


def start_client(real: RealCluster, namespace: str, name: str, labels: Mapping[str, str] | None = None) -> Client:
    probe = {"tcpSocket": {"port": LISTENED}, "periodSeconds": 1}
    container = {
        "name": "main", "image": server_image().name, "imagePullPolicy": "Never",
        "command": ["python3", "-c", LISTEN], "readinessProbe": probe,
    }  # fmt: skip
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    real.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod = Client(real, namespace, name)
    pod.kubectl("wait", "--for=condition=Ready", "--timeout=120s", f"pod/{name}")
    return pod
