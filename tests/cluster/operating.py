"""Our operator as a process beside the cluster, looking after a test's namespace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from muster.kube.builtin import POD
from muster.kube.cluster import Cluster
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, owners_of
from muster.operator.install_manifests import build_crds
from muster.training.registry import training_kinds
from tests.cluster.waiting import until_all
from tools.cluster import addons, kwok
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.processes import Component, Health

KINDS = {(kind.api_version, kind.kind): kind for kind in training_kinds()}
PEER = "training-operator"
PORT = 8086


@contextmanager
def without_the_peer(real: RealCluster) -> Iterator[RealCluster]:
    """Two operators would take turns with the same jobs. Its webhook goes with it: nobody would answer there."""
    there = real.pid(PEER) is not None
    if there:
        real.stop(PEER)
        real.kubectl(
            "delete", "validatingwebhookconfiguration", f"validator.{PEER}.kubeflow.org", "--ignore-not-found"
        )  # fmt: skip
    definitions = build_crds()
    real.apply(*definitions)
    names = [f"crd/{name_of(definition)}" for definition in definitions]
    real.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    try:
        yield real
    finally:
        if there:
            addons.prepare_training_operator(real.layout)
            real.restart(PEER)


def component(real: RealCluster, *options: str, name: str = "operator", port: int = PORT) -> Component:
    command = [
        sys.executable, "-m", "muster", "operator", f"--kubeconfig={real.kubeconfig_of('operator')}",
        f"--port={port}", "--host=127.0.0.1", *options,
    ]  # fmt: skip
    return Component(name, command, health=Health(port, "/readyz"))


@contextmanager
def operating(real: RealCluster, *options: str, name: str = "operator", port: int = PORT) -> Iterator[None]:
    real.start(component(real, *options, name=name, port=port))
    try:
        yield
    finally:
        real.stop(name)


def on_fake_nodes(seconds: str = "") -> Object:
    """Of a Pod template: what brings its Pods to KWOK's nodes, and how long they seem to run there."""
    return {
        "metadata": {"annotations": {kwok.SECONDS: seconds} if seconds else {}},
        "spec": {"nodeSelector": {"type": kwok.FAKE_NODE}, "tolerations": [kwok.FAKE_TOLERATION]},
    }


async def until_pods(
    cluster: Cluster, namespace: str, so: Callable[[Mapping[str, Object]], bool], seconds: float = 90.0
) -> dict[str, Object]:
    """All Pods of a namespace by name, once they are as wanted together."""
    return await until_all(cluster, POD, namespace, so, seconds)


async def belonging(cluster: Cluster, kind: Kind, job: Object) -> list[Object]:
    """What a job owns of a kind."""
    found = (await cluster.list(kind, job["metadata"]["namespace"])).items
    return [obj for obj in found if any(o["uid"] == job["metadata"]["uid"] for o in owners_of(obj))]
