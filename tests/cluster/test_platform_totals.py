"""The totals of virtual clusters are enforced by the real cluster: with ResourceQuotas where there are no queues, and
with Kueue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import POD, PRIORITY_CLASS, RESOURCE_QUOTA
from muster.kube.errors import Forbidden
from muster.kube.manifests import dump
from muster.kube.objects import Object, name_of, spec_of
from muster.kube.remote.client import RemoteCluster
from muster.platform.resources import kueue, resource_quotas
from tests.cluster.conftest import Needs, OnDemand
from tests.cluster.operating import operating, without_the_peer
from tests.cluster.test_platform import Platform, finish, platform_on, start, until
from tests.platform.graphs.samples import graph, node, training
from tests.platform.resources.virtual_clusters import virtual_cluster
from tests.server.platform.whole import eventually
from tools.cluster import images
from tools.cluster.build import manifest
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.sources import KUEUE

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SKU = {"cpu": "50m", "memory": "32Mi"}
ONE = {"type": "compute", "cluster": "small"}


@pytest.fixture(scope="module")
def quotas(needs: Needs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform that uses ResourceQuotas, whatever else the cluster has."""
    real = needs("node", "argo", "s3")
    with platform_on(real, tmp_path_factory.mktemp("quotas"), kubernetes={"queues": "quota"}) as platform:
        yield platform


@pytest.fixture
async def small(quotas: Platform) -> AsyncIterator[dict[str, Any]]:
    """A virtual cluster of one SKU."""
    made = await quotas.admin.post("clusters", {"name": "small", "sku": SKU, "total": 1})
    yield made
    (await quotas.admin("DELETE", f"clusters/{made['id']}")).ok()


def pod(namespace: str, queue: str) -> Object:
    """A Pod that another client creates."""
    container = {"name": "main", "image": images.BUSYBOX, "command": ["true"], "resources": {"requests": SKU}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "other-", "namespace": namespace},
        "spec": {"containers": [container], "priorityClassName": queue, "restartPolicy": "Never"},
    }


async def test_a_node_waits_until_there_is_quota(
    quotas: Platform, small: dict[str, Any], remote: RemoteCluster
) -> None:
    admin, queue = quotas.admin, f"vc-{small['id']}"
    document = graph(*(node(name, command="sleep 6", task=ONE) for name in "ab"))
    run = await start(admin, document)

    async def is_used() -> bool:
        return bool((await admin.get("clusters/small"))["used"] == 1)

    await eventually(is_used)
    with pytest.raises(Forbidden, match=f"exceeded quota: {queue}"):
        await remote.create(pod(run["namespace"], queue))
    done = await until(admin, run["id"])
    assert (done["state"], done["message"]) == ("succeeded", "")
    pods = [each for each in (await remote.list(POD, run["namespace"])).items if run["id"] in name_of(each)]
    assert {spec_of(each)["priorityClassName"] for each in pods} == {queue}
    ran = sorted(_ran(each) for each in pods)
    assert ran[0][1] <= ran[1][0], "one after the other"
    assert (await admin.get("clusters/small"))["used"] == 0


def _ran(pod: Object) -> tuple[str, str]:
    """When its main container started and ended."""
    (main,) = (each for each in pod["status"]["containerStatuses"] if each["name"] == "main")
    ended = main["state"]["terminated"]
    return ended["startedAt"], ended["finishedAt"]


async def test_a_training_job_counts_too(quotas: Platform, small: dict[str, Any], real: RealCluster) -> None:
    admin = quotas.admin
    document = graph(training("train", "XGBoostJob", ("Master", 1), task=ONE, command="echo trained"))
    with without_the_peer(real), operating(real, f"--namespace=user-admin-{quotas.suffix}", name="quota-operator"):
        done = await finish(admin, document)
    assert (done["state"], done["message"]) == ("succeeded", "")
    (replica,) = await admin.get(f"runs/{done['id']}/nodes/train/pods")
    assert replica["phase"] == "Succeeded"


async def test_a_quota_follows_its_virtual_cluster(
    quotas: Platform, small: dict[str, Any], remote: RemoteCluster
) -> None:
    admin, queue, namespace = quotas.admin, f"vc-{small['id']}", f"user-admin-{quotas.suffix}"
    assert await remote.get(PRIORITY_CLASS, queue)
    (await admin("PATCH", f"clusters/{small['id']}", {"total": 3})).ok()
    wanted = resource_quotas.quota_spec(virtual_cluster(SKU, 3, id=small["id"]))
    assert spec_of(await remote.get(RESOURCE_QUOTA, queue, namespace)) == wanted
    (await admin("PATCH", f"clusters/{small['id']}", {"total": None})).ok()
    assert not [each for each in (await remote.list(RESOURCE_QUOTA, namespace)).items if name_of(each) == queue]
    assert (await finish(admin, graph(node("a", task=ONE))))["state"] == "succeeded", "there is nothing to wait for"


async def test_the_definitions_of_kueue_accept_our_queues(real: RealCluster, tmp_path: Path, namespace: str) -> None:
    """Its definitions alone: they say which objects are valid. Whether they were there before stays as it was."""
    folder = manifest(KUEUE, "config/components/crd/bases")
    if not folder.exists():
        pytest.skip("Kueue was not downloaded: python -m tools.cluster build kueue")
    names = ("clusterqueues", "localqueues", "resourceflavors")
    there = real.kubectl("get", "crd", "--output=name")
    files = [str(next(folder.glob(f"*_{name}.yaml"))) for name in names]
    new = [name for name in names if f"/{name}.kueue.x-k8s.io" not in there]
    if new:
        real.kubectl("apply", "--server-side", *(f"--filename={file}" for file in files))
        real.kubectl("wait", "--for=condition=Established", *(f"crd/{name}.kueue.x-k8s.io" for name in names))
    gpus = virtual_cluster(
        {"nvidia.com/gpu": "1", "cpu": "10"}, 3, node_selector={"pool": "a"}, tolerations=["gpu:NoSchedule"]
    )
    try:
        for kind, spec, where in (
            ("ResourceFlavor", kueue.flavor_spec(gpus), {}),
            ("ClusterQueue", kueue.cluster_queue_spec(gpus), {}),
            ("LocalQueue", kueue.local_queue_spec(gpus), {"namespace": namespace}),
        ):
            for version in ("v1beta1", "v1beta2"):
                obj = {"apiVersion": f"{kueue.GROUP}/{version}", "kind": kind, "metadata": {"name": "vc-1", **where}}
                file = tmp_path / "object.yaml"
                file.write_text(dump({**obj, "spec": spec}))
                said = real.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(file))
                assert "created (server dry run)" in said
    finally:
        if new:
            real.kubectl("delete", *(f"crd/{name}.kueue.x-k8s.io" for name in names))


@pytest.fixture
async def queues(on_demand: OnDemand, tmp_path: Path) -> AsyncIterator[Platform]:
    real = on_demand("kueue", "node", "argo", "s3")
    with platform_on(real, tmp_path, kubernetes={"queues": "kueue"}) as platform:
        yield platform


async def test_kueue_admits_nodes_one_after_the_other(queues: Platform, remote: RemoteCluster) -> None:
    admin = queues.admin
    made = await admin.post("clusters", {"name": "small", "sku": SKU, "total": 1})
    try:
        run = await finish(admin, graph(*(node(name, command="sleep 6", task=ONE) for name in "ab")))
        assert (run["state"], run["message"]) == ("succeeded", "")
        pods = [each for each in (await remote.list(POD, run["namespace"])).items if run["id"] in name_of(each)]
        ran = sorted(_ran(each) for each in pods)
        assert ran[0][1] <= ran[1][0], "one after the other"
    finally:
        (await admin("DELETE", f"clusters/{made['id']}")).ok()
