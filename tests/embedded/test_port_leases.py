"""Every Pod port gets its own lease, which stays the same as long as its owner exists."""

from __future__ import annotations

import asyncio
import socket

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.port_leases import PORT_LEASE, PortLeases
from muster.kube.builtin import CONFIG_MAP
from muster.kube.objects import Object
from tests.embedded.waiting import wait_for_all


async def owner(cluster: EmbeddedCluster) -> Object:
    cluster.catalogue.register(PORT_LEASE)
    return await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job"}})


async def test_every_pod_gets_its_own_port_and_keeps_it(cluster: EmbeddedCluster) -> None:
    job = await owner(cluster)
    addresses = PortLeases(cluster)
    pods = [f"worker-{n}" for n in range(20)]
    given = await asyncio.gather(*(addresses.endpoint(pod, "default", 2222, owner=job) for pod in pods))
    assert len({end.port for end in given}) == 20
    later = PortLeases(cluster)
    assert [await later.endpoint(pod, "default", 2222, owner=job) for pod in pods] == given


async def test_another_attempt_gets_another_port(cluster: EmbeddedCluster) -> None:
    job = await owner(cluster)
    addresses = PortLeases(cluster)
    first = await addresses.endpoint("worker-0", "default", 2222, owner=job)
    assert await addresses.endpoint("worker-0", "default", 2222, owner=job, attempt=1) != first
    assert await addresses.endpoint("worker-0", "default", 2223, owner=job) != first


async def test_a_new_owner_of_an_old_name_gets_another_port(cluster: EmbeddedCluster) -> None:
    addresses = PortLeases(cluster)
    before = await owner(cluster)
    first = await addresses.endpoint("worker-0", "default", 2222, owner=before)
    await cluster.delete(CONFIG_MAP, "job", "default")
    assert await addresses.endpoint("worker-0", "default", 2222, owner=await owner(cluster)) != first


async def test_a_port_in_use_is_not_given(cluster: EmbeddedCluster) -> None:
    job = await owner(cluster)
    addresses = PortLeases(cluster)
    first = await addresses.endpoint("a", "default", 1, owner=job)
    with socket.create_server(("127.0.0.1", first.port + 1)):
        second = await addresses.endpoint("b", "default", 1, owner=job)
    assert second.port != first.port + 1


async def test_a_lease_ends_with_its_owner(tidy_cluster: EmbeddedCluster) -> None:
    job = await owner(tidy_cluster)
    await PortLeases(tidy_cluster).endpoint("a", "default", 1, owner=job)
    await tidy_cluster.delete(tidy_cluster.catalogue.of("v1", "ConfigMap"), "job", "default")
    await wait_for_all(tidy_cluster, PORT_LEASE, lambda leases: not leases)
