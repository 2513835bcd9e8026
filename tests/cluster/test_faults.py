"""The API server or its database goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from muster.kube.builtin import CONFIG_MAP
from muster.kube.controller import Informer
from muster.kube.errors import Gone
from muster.kube.objects import Object, labels_of, name_of
from muster.kube.remote.client import RemoteCluster
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def away(real: RealCluster) -> Iterator[RealCluster]:
    """A cluster whose parts the test may stop. Afterwards, the controllers work again."""
    yield real
    real.reconnect()


def config_map(name: str, namespace: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
async def test_an_informer_survives_a_restart_of_the_api_server(
    away: RealCluster, remote: RemoteCluster, namespace: str, component: str
) -> None:
    seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def changed(_: Object | None, after: Object | None) -> None:
        if after is not None and name_of(after) != "kube-root-ca.crt":
            seen.put_nowait((name_of(after), labels_of(after).get("stage", "")))

    async with Informer(remote, CONFIG_MAP, namespace, on_change=changed) as informer, asyncio.timeout(120):
        await remote.create(config_map("a", namespace, stage="before"))
        assert await seen.get() == ("a", "before")
        away.stop(component, force=True)
        await asyncio.to_thread(away.restart, component)
        await asyncio.to_thread(away.wait_ready, "kube-apiserver")
        await remote.patch(CONFIG_MAP, "a", namespace, {"metadata": {"labels": {"stage": "after"}}})
        await remote.create(config_map("b", namespace, stage="after"))
        assert {await seen.get(), await seen.get()} == {("a", "after"), ("b", "after")}
        assert informer.get(namespace, "b") is not None


@pytest.mark.timeout(180)
async def test_a_watch_from_an_old_version_fails(away: RealCluster, remote: RemoteCluster) -> None:
    """A restarted server has no history; one that has run for long may have all of it."""
    await asyncio.to_thread(away.restart, "kube-apiserver")
    await asyncio.to_thread(away.wait_ready, "kube-apiserver")
    with pytest.raises(Gone):
        async with asyncio.timeout(30):
            async for _ in remote.watch(CONFIG_MAP, resource_version="1"):
                pass
