"""The examples of PaddleCloud's and Kubeflow's guides, run with the real kubectl and the real Volcano."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import NODE, POD, POD_GROUP
from muster.kube.objects import Object, name_of, spec_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.operating import KINDS, operating, until_pods, without_the_peer
from tests.cluster.waiting import has, phase_of, until
from tools.cluster import images, kwok
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PADDLECLOUD = ROOT / "examples" / "paddlecloud"
PROGRAMS = ROOT / "tests" / "examples" / "programs"
PADDLE = KINDS["batch.paddlepaddle.org/v1", "PaddleJob"]
PYTORCH = KINDS["kubeflow.org/v1", "PyTorchJob"]
TENSORFLOW = KINDS["kubeflow.org/v1", "TFJob"]
GPU = "nvidia.com/gpu"

SIMPLE = """\
apiVersion: "kubeflow.org/v1"
kind: PyTorchJob
metadata:
  name: pytorch-simple
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: kubeflowkatib/pytorch-mnist:v1beta1-45c5727
              imagePullPolicy: Always
              command: ["python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1"]
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: kubeflowkatib/pytorch-mnist:v1beta1-45c5727
              imagePullPolicy: Always
              command: ["python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1"]
"""

GENERATED = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  generateName: tfjob
spec:
  tfReplicaSpecs:
    PS:
      replicas: 1
      restartPolicy: OnFailure
      template: &trainer
        metadata:
          annotations:
            sidecar.istio.io/inject: "false"
        spec:
          containers:
            - name: tensorflow
              image: your-project/your-image
              command: [python, -m, trainer.task, --batch_size=32, --training_steps=1000]
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template: *trainer
"""


@pytest.fixture(scope="module")
def ours(real: RealCluster) -> Iterator[RealCluster]:
    with without_the_peer(real) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def paddle_images(needs: Needs, tmp_path_factory: pytest.TempPathFactory) -> RealCluster:
    """Small programs under the names of the guide's images."""
    cluster = needs("node")
    program = {"/wide_and_deep/train.py": PROGRAMS / "wide_and_deep" / "train.py"}
    deep = images.with_files(images.python(), "paddle-operator/demo-wide-and-deep:v1", program)
    cluster.load(images.Image(deep.name, deep.layers, ("python3", "/wide_and_deep/train.py")))
    python = tmp_path_factory.mktemp("image") / "python"
    python.write_text('#!/bin/sh\nexec python3 "$@"\n')
    python.chmod(0o755)
    launch = PROGRAMS / "resnet" / "paddle" / "distributed" / "launch.py"
    resnet = images.with_files(
        images.python(), "paddle-operator/demo-resnet:v1",
        {"/usr/lib/python3/dist-packages/paddle/distributed/launch.py": launch, "/usr/bin/python": python},
    )  # fmt: skip
    cluster.load(images.Image(resnet.name, resnet.layers))
    plain = images.python("paddle-operator/paddle-ubuntu:2.0.0-18.04")
    cluster.load(images.Image(plain.name, plain.layers))
    return cluster


@pytest.fixture
async def gpus(paddle_images: RealCluster, remote: RemoteCluster) -> AsyncIterator[None]:
    """The real node reports four GPUs of the kind that the guide uses."""
    node = paddle_images.layout.node
    there = {"status": {"capacity": {GPU: "4"}, "allocatable": {GPU: "4"}}}
    await remote.patch(NODE, node, "", there, subresource="status")
    await remote.patch(NODE, node, "", {"metadata": {"labels": {"accelerator": "nvidia-tesla-p100"}}})
    yield
    gone: Object = {"status": {"capacity": {GPU: None}, "allocatable": {GPU: None}}}
    await remote.patch(NODE, node, "", gone, subresource="status")
    await remote.patch(NODE, node, "", {"metadata": {"labels": {"accelerator": None}}})


@pytest.fixture
async def one_gpu(needs: Needs, remote: RemoteCluster, namespace: str) -> AsyncIterator[RealCluster]:
    """The only node is a fake one with one GPU, which accepts every Pod."""
    cluster = needs("kwok")
    fake = kwok.fake_node(f"{namespace}-gpu", gpus=1)
    await remote.create({**fake, "spec": {}})
    real_nodes = [name_of(n) for n in (await remote.list(NODE)).items if name_of(n) == cluster.layout.node]
    for node in real_nodes:
        await remote.patch(NODE, node, "", {"spec": {"unschedulable": True}})
    yield cluster
    for node in real_nodes:
        await remote.patch(NODE, node, "", {"spec": {"unschedulable": None}})
    await remote.delete(NODE, f"{namespace}-gpu")


async def said(remote: RemoteCluster, namespace: str, *pods: str) -> list[str]:
    logs = [b"".join([piece async for piece in remote.logs(pod, namespace)]).decode() for pod in pods]
    return [log.strip() for log in logs]


async def spoke_to_each_other(remote: RemoteCluster, namespace: str, job: str, gloo: str) -> None:
    members = [f"{job}-{role}-{n}" for role in ("ps", "worker") for n in (0, 1)]
    assert await said(remote, namespace, *members) == [
        *["heard of trainers 0 1"] * 2, *[f"told 2 servers; gloo {gloo}"] * 2,
    ]  # fmt: skip


async def completed(remote: RemoteCluster, namespace: str, job: str) -> None:
    done = await until(
        remote, PADDLE, job, namespace, lambda found: phase_of(found) in ("Completed", "Failed"), seconds=180
    )  # fmt: skip
    assert phase_of(done) == "Completed", done["status"]


async def test_paddlecloud_1_parameter_servers(
    ours: RealCluster, paddle_images: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    with operating(ours, f"--namespace={namespace}"):
        ours.kubectl("-n", namespace, "apply", "-f", str(PADDLECLOUD / "1-wide-and-deep.yaml"))
        await completed(remote, namespace, "wide-ande-deep")
        await spoke_to_each_other(remote, namespace, "wide-ande-deep", "1")
        header, row = ours.kubectl("-n", namespace, "get", "pdj").splitlines()
        assert header.split() == ["NAME", "STATUS", "MODE", "AGE"]
        assert row.split()[:3] == ["wide-ande-deep", "Completed", "PS"]
        pods = ours.kubectl("-n", namespace, "get", "pods", "--no-headers").splitlines()
        assert [line.split()[2] for line in pods] == ["Completed"] * 4, "cleanPodPolicy: Never"


async def test_paddlecloud_3_on_nodes_with_a_gpu(
    ours: RealCluster, gpus: None, remote: RemoteCluster, namespace: str
) -> None:
    with operating(ours, f"--namespace={namespace}"):
        ours.kubectl("-n", namespace, "apply", "-f", str(PADDLECLOUD / "3-node-selector.yaml"))
        await completed(remote, namespace, "wide-ande-deep")
        await until_pods(remote, namespace, lambda pods: not pods)  # cleanPodPolicy: OnCompletion


async def test_paddlecloud_4_the_users_own_pod_group(
    needs: Needs, ours: RealCluster, paddle_images: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    needs("volcano")
    with operating(ours, f"--namespace={namespace}"):
        ours.kubectl("-n", namespace, "apply", "-f", str(PADDLECLOUD / "4-volcano.yaml"))
        await completed(remote, namespace, "wide-ande-deep")
        await spoke_to_each_other(remote, namespace, "wide-ande-deep", "1")
        group = await remote.get(POD_GROUP, "wide-ande-deep", namespace)
        assert spec_of(group)["minMember"] == 4 and "ownerReferences" not in group["metadata"], "unchanged"


async def test_paddlecloud_5_code_and_data_on_a_volume(
    ours: RealCluster, paddle_images: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    """There is no NFS here, so a folder of the machine is the volume. Everything else is as in the guide."""
    drive = (PADDLECLOUD / "5-pv-pvc.yaml").read_text().replace("nfs-pv\n", f"nfs-{namespace}\n")
    drive = re.sub(r"  mountOptions:.*server: \S+", f"  hostPath: {{path: {PROGRAMS}}}", drive, flags=re.DOTALL)
    drive = drive.replace("Recycle", "Retain")
    with operating(ours, f"--namespace={namespace}"):
        ours.kubectl("-n", namespace, "apply", "-f", "-", given=drive)
        ours.kubectl("-n", namespace, "apply", "-f", str(PADDLECLOUD / "5-data-demo.yaml"))
        await completed(remote, namespace, "paddlejob-demo-1")
    ours.kubectl("delete", "pv", f"nfs-{namespace}", "--wait=false")


async def test_paddlecloud_2_collective_with_shared_memory(
    ours: RealCluster, gpus: None, remote: RemoteCluster, namespace: str
) -> None:
    with operating(ours, f"--namespace={namespace}"):
        ours.kubectl("-n", namespace, "apply", "-f", str(PADDLECLOUD / "2-resnet.yaml"))
        await completed(remote, namespace, "resnet")
        assert ours.kubectl("-n", namespace, "get", "pdj", "--no-headers").split()[:3] == [
            "resnet", "Completed", "Collective",
        ]  # fmt: skip
        told = await said(remote, namespace, "resnet-worker-0", "resnet-worker-1")
        assert told == [f"train_fleet.py tmpfs {n} of 2" for n in (0, 1)]


async def finish(cluster: RealCluster, namespace: str, *selector: str) -> None:
    """Lets fake Pods succeed."""
    cluster.kubectl("-n", namespace, "annotate", "pods", *(selector or ["--all"]), f"{kwok.SECONDS}=0")


async def test_kubeflow_3_a_pytorch_job(
    one_gpu: RealCluster, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    with operating(ours, f"--namespace={namespace}"):
        ours.kubectl("-n", namespace, "apply", "-f", "-", given=SIMPLE)
        await until(remote, PYTORCH, "pytorch-simple", namespace, has("Running"))
        row = ours.kubectl("-n", namespace, "get", "pytorchjobs", "--no-headers").split()
        assert row[:2] == ["pytorch-simple", "Running"]
        await finish(ours, namespace)
        await until(remote, PYTORCH, "pytorch-simple", namespace, has("Succeeded"))


async def test_kubeflow_4_a_tensorflow_job(
    one_gpu: RealCluster, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    with operating(ours, f"--namespace={namespace}"):
        made = ours.kubectl("-n", namespace, "create", "-f", "-", "-o", "name", given=GENERATED).strip()
        name = made.partition("/")[2]
        await until(remote, TENSORFLOW, name, namespace, has("Running"))
        pods = sorted(name_of(pod) for pod in (await remote.list(POD, namespace)).items)
        assert pods == [f"{name}-ps-0", *(f"{name}-worker-{n}" for n in range(3))]
        await finish(ours, namespace, "-l", "training.kubeflow.org/replica-type=worker")
        await until(remote, TENSORFLOW, name, namespace, has("Succeeded"))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_kubeflow_5_without_volcano_half_of_a_job_holds_the_gpu(
    one_gpu: RealCluster, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    with operating(ours, f"--namespace={namespace}"):
        ours.kubectl("-n", namespace, "apply", "-f", str(ROOT / "examples" / "gang" / "tf_job_mnist.yaml"))
        job = "dist-mnist-for-e2e-test"
        await until_pods(
            remote, namespace, lambda pods: len(pods) == 6 and [*map(phase_of, pods.values())].count("Running") == 3
        )  # fmt: skip
        found = {row[0]: row[2] for row in rows(ours.kubectl("-n", namespace, "get", "pods", "--no-headers"))}
        assert [found[f"{job}-ps-{n}"] for n in (0, 1)] == ["Running", "Running"]
        assert sorted(found[f"{job}-worker-{n}"] for n in range(4)) == ["Pending", "Pending", "Pending", "Running"]
        events = ours.kubectl("-n", namespace, "get", "events")
        assert "Insufficient nvidia.com/gpu" in events


async def test_kubeflow_5_with_volcano_nothing_starts_before_all_can(
    needs: Needs, one_gpu: RealCluster, ours: RealCluster, remote: RemoteCluster, namespace: str
) -> None:
    needs("volcano")
    job = "dist-mnist-for-e2e-test"
    with operating(ours, f"--namespace={namespace}", "--gang-scheduler-name=volcano"):
        ours.kubectl("-n", namespace, "apply", "-f", str(ROOT / "examples" / "gang" / "tf_job_mnist.yaml"))

        def unschedulable(group: Object) -> bool:
            return phase_of(group) == "Pending"

        await until(remote, POD_GROUP, job, namespace, unschedulable)
        header, row = rows(ours.kubectl("-n", namespace, "get", "podGroup"))
        assert header == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE"]
        assert row[:3] == [job, "Pending", "6"]
        assert ours.kubectl("-n", namespace, "get", "pods", "--no-headers") == ""

        more: dict[str, Any] = {"status": {"capacity": {GPU: "4"}, "allocatable": {GPU: "4"}}}
        await remote.patch(NODE, f"{namespace}-gpu", "", more, subresource="status")
        await until(remote, POD_GROUP, job, namespace, lambda group: phase_of(group) == "Running")
        assert rows(ours.kubectl("-n", namespace, "get", "podGroup", "--no-headers"))[0][:4] == [
            job,
            "Running",
            "6",
            "6",
        ]
        pods = (await remote.list(POD, namespace)).items
        assert {spec_of(pod)["schedulerName"] for pod in pods} == {"volcano"} and len(pods) == 6
        await finish(ours, namespace, "-l", "training.kubeflow.org/replica-type=worker")
        await until(remote, TENSORFLOW, job, namespace, has("Succeeded"))
