"""The real node runs real containers."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import NODE, POD
from muster.kube.objects import is_condition_true, status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.waiting import phase_of, until
from tools.cluster import images

pytestmark = [pytest.mark.cluster, pytest.mark.smoke]


def pod(name: str, namespace: str, *command: str, image: str = images.BUSYBOX, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


async def log_of(remote: RemoteCluster, name: str, namespace: str) -> str:
    return b"".join([piece async for piece in remote.logs(name, namespace)]).decode()


async def test_the_node_is_ready(needs: Needs, remote: RemoteCluster) -> None:
    node = await remote.get(NODE, needs("node").layout.node)
    assert is_condition_true(status_of(node)["conditions"], "Ready")


async def test_a_pod_runs_to_its_end(needs: Needs, remote: RemoteCluster, namespace: str) -> None:
    needs("node")
    await remote.create(pod("hello", namespace, "sh", "-c", "echo hello from $(hostname)"))
    done = await until(remote, POD, "hello", namespace, lambda found: phase_of(found) in ("Succeeded", "Failed"))
    assert phase_of(done) == "Succeeded"
    assert await log_of(remote, "hello", namespace) == "hello from hello\n"


async def test_pods_find_each_other_by_the_name_of_a_service(
    needs: Needs, remote: RemoteCluster, namespace: str
) -> None:  # fmt: skip
    needs("node")
    serve = "mkdir /web; echo found > /web/index.html; exec httpd -f -p 8080 -h /web"
    await remote.create(pod("web", namespace, "sh", "-c", serve))
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    await remote.create(service)
    ask = f"until wget -q -O - http://web.{namespace}.svc; do sleep 0.2; done"
    await remote.create(pod("asking", namespace, "sh", "-c", ask))
    done = await until(remote, POD, "asking", namespace, lambda found: phase_of(found) in ("Succeeded", "Failed"))
    assert phase_of(done) == "Succeeded"
    assert (await log_of(remote, "asking", namespace)).endswith("found\n")


@pytest.mark.timeout(900)
async def test_an_image_that_was_built_here_trains_a_model(needs: Needs, remote: RemoteCluster, namespace: str) -> None:
    image = needs("node").load(images.python("muster-xgboost:test", ["xgboost-cpu", "numpy<3"]))
    train = (
        "import numpy, xgboost; x = numpy.arange(40.0).reshape(-1, 1); y = (x[:, 0] > 20).astype(int);"
        "model = xgboost.train({'objective': 'binary:logistic'}, xgboost.DMatrix(x, y), 5);"
        "print('right:', ((model.predict(xgboost.DMatrix(x)) > 0.5) == y).all())"
    )
    await remote.create(pod("train", namespace, "python3", "-c", train, image=image))
    done = await until(remote, POD, "train", namespace, lambda found: phase_of(found) in ("Succeeded", "Failed"))
    assert (phase_of(done), await log_of(remote, "train", namespace)) == ("Succeeded", "right: True\n")
