"""A name of a Service leads the server where it leads Pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.objects import Object
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED
from muster.kube.service_names import resolve_service, split_name

CONTAINER = {"name": "main", "image": "busybox", "ports": [{"name": "api", "containerPort": 9001}]}
PORTS = [
    {"port": 80, "targetPort": 8080, "name": "a"},
    {"port": 90, "targetPort": "api", "name": "b"},
    {"port": 70, "name": "c"},
]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path / "db", new_catalogue(), durability="process") as cluster:
        for namespace, labels in (("argo", {}), ("team", {ISOLATION_LABEL: RESTRICTED})):
            await cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
            )
            for obj in store(namespace):
                made = await cluster.create(obj)
                if "status" in obj:
                    await cluster.update({**made, "status": obj["status"]}, subresource="status")
        yield cluster


def store(namespace: str) -> list[Object]:
    """A Service with a Pod that is ready and one that is not."""
    service = {"selector": {"app": "store"}, "ports": PORTS}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": "store"}},
            "spec": {"containers": [CONTAINER]},
            "status": {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": ready}]},
        }
        for name, address, ready in (("a-waits", "127.1.0.1", "False"), ("b-ready", "127.1.0.2", "True"))
    ]
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "store", "namespace": namespace}, "spec": service},
        *pods,
    ]


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("store", 80, ("127.1.0.2", 8080)),
        ("store.argo", 70, ("127.1.0.2", 70)),
        ("store.argo.svc.cluster.local", 90, ("127.1.0.2", 9001)),
        ("store", 71, None),
        ("other", 80, None),
        ("store.default", 80, None),
        ("store.team", 80, None),
    ],
)
async def test_a_name_leads_to_a_ready_pod(
    cluster: EmbeddedCluster, host: str, port: int, expected: tuple[str, int] | None
) -> None:
    assert await resolve_service(cluster, "argo", host, port) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "s3.amazonaws.com", "", "a..b", "::1", "10.1"])
def test_these_are_no_names_of_services(host: str) -> None:
    assert split_name(host, "argo") is None
