"""Authorization over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from muster.kube.objects import uid_of
from muster.kube.rbac import Action, service_account_user
from tests.server.kubernetes.served import Served

BOT = "system:serviceaccount:default:bot"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


async def bot_with(served: Served, *rules: dict[str, Any]) -> str:
    """Creates a service account with these rules in its namespace, and returns its token."""
    account = await served.cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "default"}}
    )
    group = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    place = {"name": "bot", "namespace": "default"}
    await served.cluster.create({**group, "kind": "Role", "metadata": place, "rules": list(rules)})
    await served.cluster.create({
        **group, "kind": "RoleBinding", "metadata": place,
        "subjects": [{"kind": "ServiceAccount", **place}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bot"},
    })  # fmt: skip
    user = service_account_user("default", "bot")
    async with asyncio.timeout(20):
        while True:
            if len(served.identity.grants(user)) > 1:
                break
            await asyncio.sleep(0.001)
    return served.identity.service_accounts.issue("default", "bot", uid_of(account))[0]


def rule(verbs: str, resources: str, group: str = "") -> dict[str, Any]:
    return {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": [group]}


async def test_a_service_account_has_the_rights_of_its_roles(served: Served) -> None:
    token = await bot_with(served, rule("get list", "pods"))
    async with served.session(token) as http:
        for path, status in (
            (PODS, 200),
            (f"{PODS}?watch=true", 403),
            ("/api/v1/pods", 403),
            ("/api/v1/namespaces/kube-system/pods", 403),
            ("/api/v1/namespaces/default/secrets", 403),
            (f"{PODS}/web/log", 403),
            ("/apis", 200),
            ("/metrics", 403),
            ("/api/v1/namespaces/default/widgets", 403),
        ):
            async with http.get(path) as response:
                assert (path, response.status) == (path, status), await response.text()
        async with http.post(PODS, json={}) as response:
            told = orjson.loads(await response.read())
            assert told["message"] == (
                f'pods is forbidden: User "{BOT}" cannot create resource "pods" in API group "" '
                'in the namespace "default"'
            )


async def test_users_cannot_grant_permissions_they_do_not_have(served: Served) -> None:
    token = await bot_with(
        served, rule("get", "pods"), rule("create patch update", "roles rolebindings", "rbac.authorization.k8s.io")
    )
    roles, bindings = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
    merge = {"Content-Type": "application/merge-patch+json"}
    to_admin: dict[str, Any] = {
        "metadata": {"name": "up"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }
    async with served.session(token) as http:
        mine = {"metadata": {"name": "mine"}, "rules": [rule("get", "pods")]}
        async with http.post(roles, json=mine) as response:
            assert response.status == 201, await response.text()
        more = {"metadata": {"name": "more"}, "rules": [rule("delete", "pods")]}
        async with http.post(roles, json=more) as response:
            assert response.status == 403
            assert "delete resource" in await response.text()
        async with http.patch(f"{roles}/mine", json={"rules": [rule("*", "*")]}, headers=merge) as response:
            assert response.status == 403
        async with http.put(f"{roles}/mine", json={**mine, "rules": [rule("list", "secrets")]}) as response:
            assert response.status == 403
        async with http.post(bindings, json=to_admin) as response:
            assert response.status == 403
        to_mine = {**to_admin, "roleRef": {**to_admin["roleRef"], "kind": "Role", "name": "mine"}}
        async with http.post(bindings, json=to_mine) as response:
            assert response.status == 201, await response.text()
    assert not served.identity.is_allowed(
        service_account_user("default", "bot"), Action("list", "", "secrets", "", "default")
    )


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"Impersonate-User": BOT}, PODS, 200),
        ({"Impersonate-User": BOT}, "/api/v1/namespaces/default/secrets", 403),
        ({"Impersonate-User": "ada"}, PODS, 403),
        ({"Impersonate-User": "ada", "Impersonate-Group": "system:masters"}, PODS, 200),
        ({"Impersonate-Group": "system:masters"}, PODS, 400),
        ({"Impersonate-User": BOT, "Impersonate-Uid": "7"}, PODS, 200),
        ({"Impersonate-User": "ada", "Impersonate-Extra-Team": "a"}, PODS, 400),
    ],
)
async def test_an_administrator_may_impersonate_others(
    served: Served, headers: dict[str, str], path: str, status: int
) -> None:
    await bot_with(served, rule("list", "pods"))
    async with served.session(**headers) as http, http.get(path) as response:
        assert response.status == status, await response.text()


async def test_others_may_not_impersonate(served: Served) -> None:
    token = await bot_with(served, rule("list", "pods"))
    for headers in ({"Impersonate-User": "ada"}, {"Impersonate-User": BOT, "Impersonate-Group": "system:masters"}):
        async with served.session(token, **headers) as http, http.get(PODS) as response:
            assert response.status == 403
