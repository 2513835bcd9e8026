"""The operator as a Deployment with its own permissions and restrictions, for each way of installing it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest

from muster.kube.builtin import LEASE, POD
from muster.kube.errors import Invalid
from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.chart import CHART_FOLDER, helm
from tests.cluster.conftest import Needs
from tests.cluster.takeover import without_theirs
from tests.cluster.waiting import has, until
from tools.cluster import images
from tools.cluster.build import program
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.operator_image import operator_image
from tools.cluster.sources import HELM
from tools.deploy import BASE, DEPLOY

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

WHERE = "muster-system"
MUSTER = [sys.executable, "-m", "muster", "operator"]


@pytest.fixture(params=["install", "kustomize", "helm"])
async def installed(request: pytest.FixtureRequest, needs: Needs, remote: RemoteCluster) -> AsyncIterator[RealCluster]:
    cluster = needs("node")
    cluster.load(operator_image())
    with without_theirs(cluster):
        if request.param == "install":
            said = ran(cluster, *MUSTER, "install", "--timeout=3m")
            assert said.splitlines()[-1] == f"{WHERE}/muster-operator: 2 of 2 replicas available"
        elif request.param == "kustomize":
            ran(cluster, "kubectl", "apply", "--server-side", "--force-conflicts", "-k", str(DEPLOY / BASE))
        else:
            helm("version")
            release = [str(program(HELM, "helm")), "--namespace", WHERE]
            values = ["--create-namespace", "--take-ownership", "--wait", "--timeout=3m"]
            ran(cluster, *release, "install", "muster-operator", str(CHART_FOLDER), *values)
        cluster.kubectl("rollout", "status", "deployment/muster-operator", f"--namespace={WHERE}", seconds=180)
        try:
            yield cluster
        finally:
            if request.param == "helm":
                ran(cluster, *release, "uninstall", "muster-operator", "--wait")
            said = ran(cluster, *MUSTER, "uninstall")
            assert "CustomResourceDefinitions and jobs are kept" in said
            cluster.kubectl("delete", "namespace", WHERE, "--ignore-not-found", "--wait")


def ran(cluster: RealCluster, *command: str) -> str:
    done = cluster.run(command, seconds=240)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def job(name: str, namespace: str, container: str = "pytorch") -> Object:
    spec = {
        "containers": [{"name": container, "image": images.BUSYBOX, "imagePullPolicy": "Never", "command": ["true"]}],
    }
    roles = {role: {"restartPolicy": "OnFailure", "template": {"spec": spec}} for role in ("Master", "Worker")}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": roles},
    }


async def test_it_runs_jobs_and_its_webhook_is_called(
    installed: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    kind = await remote.find("pytorchjobs.kubeflow.org")
    with pytest.raises(Invalid) as refused:
        await remote.create(job("wrong", namespace, container="main"))
    where = "spec.pytorchReplicaSpecs.Master.template.spec.containers"
    assert 'admission webhook "jobs.operator.muster.dev" denied the request' in refused.value.message
    assert refused.value.causes[0].field == where
    assert (
        refused.value.causes[0].message == 'one container must be named "pytorch", the training container; found "main"'
    )

    await remote.create(job("first", namespace))
    await until(remote, kind, "first", namespace, has("Succeeded"))

    # The leader is killed without a shutdown; another replica takes over.
    lease = await remote.get(LEASE, "muster-operator", WHERE)
    leader = str(spec_of(lease)["holderIdentity"]).partition("_")[0]
    pods = {name_of(pod): pod for pod in (await remote.list(POD, WHERE)).items}
    assert leader in pods and len(pods) == 2
    await remote.delete(POD, leader, WHERE, grace_seconds=0)
    await remote.create(job("second", namespace))
    await until(remote, kind, "second", namespace, has("Succeeded"))

    for name in pods.keys() - {leader}:
        log = installed.kubectl("logs", name, f"--namespace={WHERE}")
        assert "forbidden" not in log.lower()
        assert '"level":"error"' not in log
    assert all(not status["restartCount"] for pod in pods.values() for status in status_of(pod)["containerStatuses"])
