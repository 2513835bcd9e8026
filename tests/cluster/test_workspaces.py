"""Our operator runs a notebook and a TensorBoard on a real cluster, with the real JupyterLab and TensorBoard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.kube.builtin import PERSISTENT_VOLUME, POD
from muster.kube.objects import Object, status_of
from muster.kube.remote.client import RemoteCluster
from muster.operator.install_manifests import build_crds
from muster.workspaces.addresses import Upstream, find_upstream
from muster.workspaces.kinds import NOTEBOOK, STOP_ANNOTATION, TENSORBOARD
from tests.cluster.operating import operating, until_pods, without_the_peer
from tests.cluster.waiting import phase_of, until
from tools.cluster import images
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

IMAGE = "muster-workspace:1"
REQUIREMENTS = ["jupyterlab", "tensorboard"]
SERVE = "exec python3 -m jupyterlab --ip=0.0.0.0 --port=8888 --allow-root --no-browser --ServerApp.base_url=$NB_PREFIX/"
ESTABLISHED = '{.status.conditions[?(@.type=="Established")].status}'
WRITE = """
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary

writer = EventFileWriter("/logs/run-1")
for step in range(10):
    value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(Event(step=step, summary=Summary(value=[value])))
writer.close()
"""


@pytest.fixture(scope="module")
def ours(real: RealCluster) -> Iterator[RealCluster]:
    with without_the_peer(real) as cluster:
        cluster.apply(*build_crds(workspaces=True))
        for kind in (NOTEBOOK, TENSORBOARD):
            # Unlike a wait for the condition, this one bears with a definition that has no status yet.
            cluster.kubectl("wait", f"--for=jsonpath={ESTABLISHED}=True", "--timeout=60s", f"crd/{kind.resource}")
        images.load(images.python(IMAGE, REQUIREMENTS), cluster.layout)
        yield cluster


@pytest.fixture
def operator(ours: RealCluster, namespace: str) -> Iterator[RealCluster]:
    with operating(ours, f"--namespace={namespace}", "--workspaces", f"--tensorboard-image={IMAGE}"):
        yield ours


@pytest.fixture
async def claim(remote: RemoteCluster, namespace: str, tmp_path: Path) -> AsyncIterator[str]:
    """A claim on a folder of the node."""
    volume = f"logs-{namespace}"
    size = {"storage": "1Gi"}
    await remote.create({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {"capacity": size, "accessModes": ["ReadWriteMany"], "hostPath": {"path": str(tmp_path)}},
    })  # fmt: skip
    await remote.create({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "logs", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "volumeName": volume,
                 "storageClassName": ""},
    })  # fmt: skip
    yield "logs"
    await remote.delete(PERSISTENT_VOLUME, volume)


async def get(upstream: Upstream, path: str, *, known: bool = True) -> tuple[int, Any]:
    headers = dict(upstream.headers) if known else {}
    url = f"http://{upstream.host}:{upstream.port}{upstream.prefix}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        is_json = response.content_type == "application/json"
        return response.status, await response.json() if is_json else await response.text()


async def test_a_notebook(operator: RealCluster, remote: RemoteCluster, namespace: str) -> None:
    prefix = {"name": "NB_PREFIX", "value": f"/notebook/{namespace}/lab"}
    container = {"name": "lab", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", SERVE]}
    await remote.create({
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {"name": "lab", "namespace": namespace},
        "spec": {"template": {"spec": {"containers": [{**container, "env": [prefix]}]}}},
    })  # fmt: skip
    await until(remote, NOTEBOOK, "lab", namespace, lambda nb: status_of(nb).get("readyReplicas") == 1, 300)
    upstream = await find_upstream(remote, NOTEBOOK, namespace, "lab")
    assert upstream is not None
    assert await get(upstream, "api/kernels") == (200, [])
    assert (await get(upstream, "api/kernels", known=False))[0] == 403
    stop = {"metadata": {"annotations": {STOP_ANNOTATION: "2026-11-17T00:00:00Z"}}}
    await remote.patch(NOTEBOOK, "lab", namespace, stop)
    await until_pods(remote, namespace, lambda pods: not pods)
    stopped = await until(remote, NOTEBOOK, "lab", namespace, lambda nb: not status_of(nb).get("readyReplicas"))
    assert not status_of(stopped).get("containerState")


async def test_a_tensorboard(operator: RealCluster, remote: RemoteCluster, namespace: str, claim: str) -> None:
    mount = {"name": "logs", "mountPath": "/logs"}
    writer: Object = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "volumeMounts": [mount]}
    volumes = [{"name": "logs", "persistentVolumeClaim": {"claimName": claim}}]
    container = {**writer, "command": ["python3", "-c", WRITE]}
    await remote.create({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "writer", "namespace": namespace},
        "spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes},
    })  # fmt: skip
    await until(remote, POD, "writer", namespace, lambda pod: phase_of(pod) == "Succeeded")
    await remote.create({
        "apiVersion": "tensorboard.kubeflow.org/v1alpha1",
        "kind": "Tensorboard",
        "metadata": {"name": "board", "namespace": namespace},
        "spec": {"logspath": f"pvc://{claim}/run-1"},
    })  # fmt: skip
    await until(remote, TENSORBOARD, "board", namespace, lambda tb: status_of(tb).get("readyReplicas") == 1, 300)
    upstream = await find_upstream(remote, TENSORBOARD, namespace, "board")
    assert upstream is not None
    assert (await get(upstream, "data/runs", known=False))[0] == 401
    async with asyncio.timeout(60):
        while "loss" not in str((await get(upstream, "data/plugin/scalars/tags"))[1]):  # noqa: ASYNC110
            await asyncio.sleep(0.5)
