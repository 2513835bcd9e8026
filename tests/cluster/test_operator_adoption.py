"""Our operator takes over jobs that the real training-operator started, and keeps their Pods."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from muster.kube.builtin import EVENT, POD, SERVICE
from muster.kube.kinds import Kind
from muster.kube.objects import Object, name_of, status_of, uid_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.takeover import without_theirs
from tests.cluster.waiting import has, phase_of, until
from tools.cluster import images
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.processes import Component, Health

pytestmark = pytest.mark.cluster

WAITING = "until [ -e /tmp/end ]; do sleep 0.2; done; exit $(cat /tmp/end)"


def job(kind: str, specs: str, container: str, roles: dict[str, int], namespace: str, **policy: Any) -> Object:
    spec = {"containers": [
        {"name": container, "image": images.BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", WAITING]}
    ]}  # fmt: skip
    replicas = {
        role: {"replicas": number, "restartPolicy": "ExitCode", "template": {"spec": spec}}
        for role, number in roles.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": kind.lower(), "namespace": namespace},
        "spec": {"runPolicy": {"cleanPodPolicy": "None", **policy}, specs: replicas},
    }


@contextmanager
def ours_instead(cluster: RealCluster, namespace: str) -> Iterator[None]:
    command = [
        sys.executable, "-m", "muster", "operator", f"--kubeconfig={cluster.kubeconfig_of('operator')}", "--port=8096",
        f"--namespace={namespace}", "--no-leader-elect",
    ]  # fmt: skip
    with without_theirs(cluster):
        try:
            cluster.start(Component("adopting-operator", command, health=Health(8096, "/readyz")))
            yield
        finally:
            cluster.stop("adopting-operator")


async def things(remote: RemoteCluster, kind: Kind, namespace: str) -> dict[str, str]:
    return {name_of(obj): uid_of(obj) for obj in (await remote.list(kind, namespace)).items}


async def end(remote: RemoteCluster, pod: str, namespace: str, code: int) -> None:
    process = await remote.exec(pod, namespace, ["sh", "-c", f"echo {code} > /tmp/end"])
    assert await process.wait() == 0


async def test_jobs_continue_with_the_pods_they_have(needs: Needs, remote: RemoteCluster, namespace: str) -> None:
    cluster = needs("node", "training-operator")
    jobs = [
        job("TFJob", "tfReplicaSpecs", "tensorflow", {"Chief": 1, "Worker": 2}, namespace),
        job("XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": 1, "Worker": 1}, namespace),
    ]
    kinds = [await remote.find(f"{obj['kind'].lower()}s.kubeflow.org") for obj in jobs]
    for obj in jobs:
        await remote.create(obj)
    leads = ["tfjob-chief-0", "xgboostjob-master-0"]
    members = [*leads, "tfjob-worker-0", "tfjob-worker-1", "xgboostjob-worker-0"]
    for name in members:
        await until(remote, POD, name, namespace, lambda pod: phase_of(pod) == "Running")
    begun = [
        await until(remote, kind, name_of(o), namespace, has("Running")) for kind, o in zip(kinds, jobs, strict=True)
    ]
    pods, services = await things(remote, POD, namespace), await things(remote, SERVICE, namespace)
    assert sorted(pods) == sorted(services) == sorted(members)

    with ours_instead(cluster, namespace):
        # Our operator restarts a Pod that has to be restarted; the others stay.
        await end(remote, "tfjob-worker-1", namespace, 137)
        again = await until(
            remote, POD, "tfjob-worker-1", namespace,
            lambda pod: uid_of(pod) != pods["tfjob-worker-1"] and phase_of(pod) == "Running",
        )  # fmt: skip
        for lead in leads:
            await end(remote, lead, namespace, 0)
        for kind, obj, was in zip(kinds, jobs, begun, strict=True):
            done = await until(remote, kind, name_of(obj), namespace, has("Succeeded"))
            assert status_of(done)["startTime"] == status_of(was)["startTime"]
        assert await things(remote, POD, namespace) == pods | {"tfjob-worker-1": uid_of(again)}
        assert await things(remote, SERVICE, namespace) == services
        events = (await remote.list(EVENT, namespace)).items
        by_us = [e["message"] for e in events if (e.get("source") or {}).get("component") == "muster-operator"]
        assert [m for m in by_us if m.startswith("Created")] == ["Created pod: tfjob-worker-1"]
