"""Pods on KWOK's fake nodes run nothing, and end according to their annotations."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import POD
from muster.kube.objects import status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.waiting import phase_of, until
from tools.cluster import kwok

pytestmark = [pytest.mark.cluster, pytest.mark.smoke]


def pod(name: str, namespace: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"type": kwok.FAKE_NODE},
            "tolerations": [kwok.FAKE_TOLERATION],
            "containers": [{"name": "main", "image": "none"}],
        },
    }


@pytest.mark.parametrize(
    ("annotations", "phase", "code"),
    [
        ({kwok.SECONDS: "0.1"}, "Succeeded", 0),
        ({kwok.SECONDS: "0.1", kwok.EXIT_CODE: "137"}, "Failed", 137),
    ],
)
async def test_they_end_as_annotated(
    needs: Needs, remote: RemoteCluster, namespace: str, annotations: dict[str, str], phase: str, code: int
) -> None:
    needs("kwok")
    await remote.create(pod("told", namespace, **annotations))
    done = await until(remote, POD, "told", namespace, lambda found: phase_of(found) in ("Succeeded", "Failed"))
    (container,) = status_of(done)["containerStatuses"]
    assert (phase_of(done), container["state"]["terminated"]["exitCode"]) == (phase, code)


async def test_they_run_until_deleted_otherwise(needs: Needs, remote: RemoteCluster, namespace: str) -> None:
    needs("kwok")
    await remote.create(pod("standing", namespace))
    running = await until(remote, POD, "standing", namespace, lambda found: phase_of(found) == "Running")
    assert status_of(running)["podIP"]
