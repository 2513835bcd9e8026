"""Quotas and limits of a namespace: writes are charged at once, and what ends is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.quotas import QuotaController
from muster.kube.builtin import LIMIT_RANGE, POD, RESOURCE_QUOTA
from muster.kube.errors import Forbidden, Invalid
from muster.kube.objects import Object, status_of
from tests.embedded.samples import config_map, pod
from tests.embedded.waiting import run_components, wait_for


def quota(**hard: str) -> Object:
    names = {name.replace("__", "."): amount for name, amount in hard.items()}
    metadata = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": names}}


def limits(**item: Any) -> Object:
    metadata = {"name": "l", "namespace": "default"}
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}


async def used(cluster: EmbeddedCluster) -> Object:
    return dict(status_of(await cluster.get(RESOURCE_QUOTA, "q", "default"))["used"])


async def test_a_quota_counts_what_is_there_and_refuses_what_exceeds_it(cluster: EmbeddedCluster) -> None:
    await cluster.create(config_map("before"))
    made = await cluster.create(quota(configmaps="2", resourcequotas="1"))
    assert status_of(made) == {
        "hard": {"configmaps": "2", "resourcequotas": "1"},
        "used": {"configmaps": "1", "resourcequotas": "1"},
    }
    await cluster.create(config_map("second"))
    assert (await used(cluster))["configmaps"] == "2"
    with pytest.raises(Forbidden, match=r'configmaps "third" is forbidden: exceeded quota: q, requested: configmaps=1'):
        await cluster.create(config_map("third"))
    await cluster.create(config_map("elsewhere", namespace="kube-system"))
    raised = await cluster.update({**made, "metadata": {"name": "q", "namespace": "default"}} | quota(configmaps="3"))
    assert status_of(raised)["hard"] == {"configmaps": "3"}, "a new limit is in force at once"
    await cluster.create(config_map("third"))


async def test_writes_at_the_same_time_do_not_exceed_a_quota(cluster: EmbeddedCluster) -> None:
    await cluster.create(quota(pods="5"))
    made = await asyncio.gather(*(cluster.create(pod(f"p{n}")) for n in range(20)), return_exceptions=True)
    assert sum(isinstance(one, dict) for one in made) == 5
    assert all(isinstance(one, dict | Forbidden) for one in made)
    assert await used(cluster) == {"pods": "5"}


async def test_a_dry_run_is_not_charged(cluster: EmbeddedCluster) -> None:
    await cluster.create(quota(pods="1"))
    await cluster.create(pod(), dry_run=True)
    assert await used(cluster) == {"pods": "0"}


async def test_what_ends_or_is_deleted_is_given_back(cluster: EmbeddedCluster) -> None:
    await cluster.create(quota(pods="2", **{"count/pods": "9"}))
    first, _ = await asyncio.gather(cluster.create(pod("a")), cluster.create(pod("b")))
    async with run_components(QuotaController(cluster)):
        await cluster.update({**first, "status": {**status_of(first), "phase": "Succeeded"}}, subresource="status")
        await wait_for(cluster, RESOURCE_QUOTA, "q", lambda q: status_of(q)["used"]["pods"] == "1")
        await cluster.delete(POD, "b", "default", grace_seconds=0)
        await wait_for(cluster, RESOURCE_QUOTA, "q", lambda q: status_of(q)["used"]["pods"] == "0")


async def test_a_count_that_is_wrong_is_set_right_at_start(cluster: EmbeddedCluster) -> None:
    made = await cluster.create(quota(pods="2"))
    await cluster.update({**made, "status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}}, subresource="status")
    async with run_components(QuotaController(cluster)):
        await wait_for(cluster, RESOURCE_QUOTA, "q", lambda q: status_of(q)["used"]["pods"] == "0")


async def test_a_limit_range_fills_in_defaults_and_refuses_the_rest(cluster: EmbeddedCluster) -> None:
    await cluster.create(limits(default={"cpu": "1"}, defaultRequest={"cpu": "100m"}, max={"cpu": "2"}))
    stored = (await cluster.get(LIMIT_RANGE, "l", "default"))["spec"]["limits"][0]
    assert stored["default"] == {"cpu": "1"}
    made = await cluster.create(pod("plain"))
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}
    assert status_of(made)["qosClass"] == "Burstable"

    def asking(**resources: Object) -> Object:
        return pod("big", containers=[{"name": "main", "image": "i", "resources": resources}])

    with pytest.raises(Forbidden, match="maximum cpu usage per Container is 2, but limit is 3"):
        await cluster.create(asking(limits={"cpu": "3"}))
    with pytest.raises(Invalid, match="must be less than or equal to cpu limit of 1"):
        await cluster.create(asking(requests={"cpu": "1500m"}))


async def test_defaults_of_a_limit_range_count_for_the_quota(cluster: EmbeddedCluster) -> None:
    await cluster.create(quota(requests__cpu="1"))
    with pytest.raises(Forbidden, match=r"must specify requests\.cpu for: main"):
        await cluster.create(pod())
    await cluster.create(limits(defaultRequest={"cpu": "600m"}))
    await cluster.create(pod("a"))
    assert await used(cluster) == {"requests.cpu": "600m"}
    with pytest.raises(Forbidden, match="exceeded quota"):
        await cluster.create(pod("b"))
