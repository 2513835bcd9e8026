"""Every namespace has a default service account."""

from __future__ import annotations

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import DefaultServiceAccountController
from muster.kube.builtin import SERVICE_ACCOUNT
from muster.kube.objects import uid_of
from tests.embedded.waiting import run_components, wait_for


async def test_a_new_namespace_gets_one_and_a_deleted_one_comes_back(cluster: EmbeddedCluster) -> None:
    async with run_components(DefaultServiceAccountController(cluster)):
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        first = await wait_for(cluster, SERVICE_ACCOUNT, "default", lambda _: True, namespace="team")
        await cluster.delete(SERVICE_ACCOUNT, "default", "team")
        await wait_for(cluster, SERVICE_ACCOUNT, "default", lambda a: uid_of(a) != uid_of(first), namespace="team")
