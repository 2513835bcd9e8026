from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CLUSTER_ROLE, POD, ROLE_BINDING, SERVICE_ACCOUNT, new_catalogue
from muster.kube.errors import Unauthorized
from muster.kube.objects import Object, uid_of
from muster.kube.rbac import Action, service_account_user

BOT = service_account_user("default", "bot")
LIST_PODS = Action("list", "", "pods", namespace="default")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path / "db", new_catalogue(), durability="process") as cluster:
        yield cluster


@pytest.fixture
async def identity(tmp_path: Path, cluster: EmbeddedCluster) -> AsyncIterator[Identity]:
    identity = Identity.open(tmp_path / "identity", cluster)
    task = asyncio.create_task(identity.run())
    await identity.wait_synced()
    yield identity
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def service_account(cluster: EmbeddedCluster) -> Object:
    return await cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "default"}}
    )


def view_binding() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "bot-views", "namespace": "default"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    }


async def eventually(identity: Identity, may: bool) -> None:
    """Changes of Roles take effect after a moment."""
    async with asyncio.timeout(10):
        while True:
            if identity.is_allowed(BOT, LIST_PODS) is may:
                return
            await asyncio.sleep(0.001)


async def test_rights_follow_the_bindings(cluster: EmbeddedCluster, identity: Identity) -> None:
    assert not identity.is_allowed(BOT, LIST_PODS)
    await cluster.create(view_binding())
    await eventually(identity, True)
    assert not identity.is_allowed(BOT, LIST_PODS._replace(verb="delete"))
    await cluster.delete(ROLE_BINDING, "bot-views", "default")
    await eventually(identity, False)


async def test_every_cluster_has_the_usual_roles(cluster: EmbeddedCluster, identity: Identity) -> None:
    names = {role["metadata"]["name"] for role in (await cluster.list(CLUSTER_ROLE)).items}
    assert {"cluster-admin", "admin", "edit", "view"} <= names


async def test_a_token_authenticates_its_service_account(cluster: EmbeddedCluster, identity: Identity) -> None:
    account = await service_account(cluster)
    token, _ = identity.service_accounts.issue("default", "bot", uid_of(account))
    assert await identity.authenticate(token) == service_account_user("default", "bot", uid_of(account))


async def test_a_token_ends_with_its_account(cluster: EmbeddedCluster, identity: Identity) -> None:
    account = await service_account(cluster)
    token, _ = identity.service_accounts.issue("default", "bot", uid_of(account))
    await cluster.delete(SERVICE_ACCOUNT, "bot", "default")
    with pytest.raises(Unauthorized, match="no longer exists"):
        await identity.authenticate(token)
    await service_account(cluster)
    with pytest.raises(Unauthorized, match="earlier"):
        await identity.authenticate(token)


async def test_a_token_ends_with_the_pod_it_was_made_for(cluster: EmbeddedCluster, identity: Identity) -> None:
    account = await service_account(cluster)
    pod = await cluster.create({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    })  # fmt: skip
    issue = identity.service_accounts.issue
    token, _ = issue("default", "bot", uid_of(account), pod="web", pod_uid=uid_of(pod))
    assert (await identity.authenticate(token)).name == BOT.name
    await cluster.delete(POD, "web", "default")
    with pytest.raises(Unauthorized):
        await identity.authenticate(token)


async def test_a_token_for_another_audience_is_not_for_the_api(cluster: EmbeddedCluster, identity: Identity) -> None:
    account = await service_account(cluster)
    token, _ = identity.service_accounts.issue("default", "bot", uid_of(account), audiences=["vault"])
    with pytest.raises(Unauthorized, match="audience"):
        await identity.authenticate(token)
    assert (await identity.authenticate(token, ["vault"])).name == BOT.name


async def test_keys_and_tokens_survive_a_restart(tmp_path: Path, cluster: EmbeddedCluster, identity: Identity) -> None:
    account = await service_account(cluster)
    token, _ = identity.service_accounts.issue("default", "bot", uid_of(account))
    again = Identity.open(tmp_path / "identity", cluster)
    assert (await again.authenticate(token)).name == BOT.name


async def test_the_default_roles_are_in_force_when_an_identity_has_synced(
    tmp_path: Path, cluster: EmbeddedCluster
) -> None:
    """Also after a restart at which they change, because there are new kinds."""
    await service_account(cluster)
    await cluster.create(view_binding())
    for _ in range(2):
        identity = Identity.open(tmp_path / "identity", cluster)
        task = asyncio.create_task(identity.run())
        await identity.wait_synced()
        assert identity.is_allowed(BOT, LIST_PODS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        role = await cluster.get(CLUSTER_ROLE, "view")
        await cluster.update({**role, "rules": []})
