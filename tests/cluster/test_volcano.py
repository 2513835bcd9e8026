"""Volcano holds a gang back until there is room for all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.kube.builtin import NODE, POD, POD_GROUP
from muster.kube.objects import name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.conftest import Needs
from tests.cluster.waiting import phase_of, until
from tools.cluster import kwok

pytestmark = [pytest.mark.cluster, pytest.mark.smoke]


@pytest.fixture
async def two_nodes(needs: Needs, remote: RemoteCluster, namespace: str) -> AsyncIterator[str]:
    """Two fake nodes for this test, with room for one large Pod each. Returns the value of their label."""
    needs("kwok", "volcano")
    for number in range(2):
        await remote.create(kwok.fake_node(f"{namespace}-{number}", cpu=4, labels={"of": namespace}))
    yield namespace
    for node in (await remote.list(NODE, labels=f"of={namespace}")).items:
        await remote.delete(NODE, name_of(node))


def member(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"scheduling.k8s.io/group-name": "gang"},
        },
        "spec": {
            "schedulerName": "volcano",
            "nodeSelector": {"of": namespace},
            "tolerations": [kwok.FAKE_TOLERATION],
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}],
        },
    }


async def test_a_gang_waits_until_it_fits_as_a_whole(remote: RemoteCluster, two_nodes: str) -> None:
    gang = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": two_nodes},
        "spec": {"minMember": 3, "queue": "default"},
    }
    await remote.create(gang)
    for number in range(3):
        await remote.create(member(f"member-{number}", two_nodes))
    waiting = await until(
        remote, POD_GROUP, "gang", two_nodes, lambda group: bool(status_of(group).get("conditions"))
    )  # fmt: skip
    assert status_of(waiting)["conditions"][0]["type"] == "Unschedulable"
    assert not any(spec_of(pod).get("nodeName") for pod in (await remote.list(POD, two_nodes)).items)

    await remote.create(kwok.fake_node(f"{two_nodes}-2", cpu=4, labels={"of": two_nodes}))
    await until(remote, POD_GROUP, "gang", two_nodes, lambda group: phase_of(group) == "Running")
    pods = (await remote.list(POD, two_nodes)).items
    assert len({spec_of(pod).get("nodeName") for pod in pods}) == 3
