"""Our operator as a process beside the cluster, responsible for a test's namespace."""

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
    """Stops training-operator, so that only one operator works on a job, and removes its webhook, which would fail
    every request."""
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
    """Puts the Pods of a template on KWOK's nodes, where they seem to run for this long."""
    return {
        "metadata": {"annotations": {kwok.SECONDS: seconds} if seconds else {}},
        "spec": {"nodeSelector": {"type": kwok.FAKE_NODE}, "tolerations": [kwok.FAKE_TOLERATION]},
    }


async def until_pods(
    cluster: Cluster, namespace: str, so: Callable[[Mapping[str, Object]], bool], seconds: float = 90.0
) -> dict[str, Object]:
    """Returns all Pods of a namespace by name as soon as `wanted` holds for them."""
    return await until_all(cluster, POD, namespace, so, seconds)


async def owned_by(cluster: Cluster, kind: Kind, job: Object) -> list[Object]:
    """Returns the objects of a kind that a job owns."""
    found = (await cluster.list(kind, job["metadata"]["namespace"])).items
    return [obj for obj in found if any(o["uid"] == job["metadata"]["uid"] for o in owners_of(obj))]
