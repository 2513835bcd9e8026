"""What every namespace has: a default service account and the certificate of the API; `default` has its Service."""

from __future__ import annotations

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import NamespaceContentsController
from muster.embedded.settings import ApiAccess
from muster.kube.builtin import CONFIG_MAP, SERVICE, SERVICE_ACCOUNT
from muster.kube.kinds import Kind
from muster.kube.objects import uid_of
from tests.embedded.waiting import run_components, wait_for

API = ApiAccess("127.0.0.1", 7443, "CA", lambda _pod, _audience, _seconds: "T")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(SERVICE_ACCOUNT, "default"), (CONFIG_MAP, "kube-root-ca.crt")],
    ids=lambda v: getattr(v, "kind", v),
)
async def test_a_new_namespace_gets_it_and_if_deleted_it_comes_back(
    cluster: EmbeddedCluster, kind: Kind, name: str
) -> None:
    async with run_components(NamespaceContentsController(cluster, API)):
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        first = await wait_for(cluster, kind, name, lambda _: True, namespace="team")
        await cluster.delete(kind, name, "team")
        await wait_for(cluster, kind, name, lambda found: uid_of(found) != uid_of(first), namespace="team")


async def test_the_certificate_and_the_service_follow_the_api(cluster: EmbeddedCluster) -> None:
    async with run_components(NamespaceContentsController(cluster, API)):
        await wait_for(cluster, SERVICE, "kubernetes", lambda s: s["spec"]["ports"][0]["port"] == 7443)
        change = {"data": {"ca.crt": "mine"}}
        await wait_for(cluster, CONFIG_MAP, "kube-root-ca.crt", lambda found: found["data"] == {"ca.crt": "CA"})
        await cluster.patch(CONFIG_MAP, "kube-root-ca.crt", "default", change)
        await wait_for(cluster, CONFIG_MAP, "kube-root-ca.crt", lambda found: found["data"] == {"ca.crt": "CA"})
    later = ApiAccess("127.0.0.1", 8443, "CA", API.token)
    async with run_components(NamespaceContentsController(cluster, later)):
        await wait_for(cluster, SERVICE, "kubernetes", lambda s: s["spec"]["ports"][0]["targetPort"] == 8443)
