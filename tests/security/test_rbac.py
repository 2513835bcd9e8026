"""Attacks on role-based access control: getting rights that nobody granted. The rules are those of Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from muster.kube.builtin import ROLE, ROLE_BINDING
from muster.kube.rbac import Grant, TooManyCombinations, effective_rules, missing_actions
from muster.workflows.executors.resource import service_account_permissions
from tests.server.kubernetes.served import Served, serving

RBAC = "rbac.authorization.k8s.io"
ROLES, BINDINGS = (f"/apis/{RBAC}/v1/namespaces/team/{plural}" for plural in ("roles", "rolebindings"))
CLUSTER_ROLES, CLUSTER_BINDINGS = (f"/apis/{RBAC}/v1/{plural}" for plural in ("clusterroles", "clusterrolebindings"))

on_server = pytest.mark.asyncio(loop_scope="module")


def rule(verbs: str, resources: str, group: str = "", names: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": [group]}
    return found if names is None else {**found, "resourceNames": names.split(",")}


def urls(verbs: str, paths: str) -> dict[str, Any]:
    return {"verbs": verbs.split(), "nonResourceURLs": paths.split()}


def role(name: str, *rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules), **more}


def binding(name: str, kind: str, role_name: str, user: str = "mallory", namespace: str = "team") -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role_name},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
    }


GATHERING = {"clusterRoleSelectors": [{"matchLabels": {"into": "all"}}]}
PARTS: list[dict[str, Any]] = [
    role("gathers", aggregationRule=GATHERING),
    role("chain", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"into": "chain"}}]}),
    role(
        "link",
        aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"into": "end"}}]},
        metadata={"labels": {"into": "chain"}},
    ),
    role("end", rule("get", "nodes"), metadata={"labels": {"into": "end"}}),
    role("part", rule("*", "nodes"), metadata={"labels": {"into": "all"}}),
    role("reads-secrets-everywhere", rule("get", "secrets")),
    role("binder", rule("bind", "clusterroles", RBAC, "reads-nodes"), rule("create", "rolebindings", RBAC)),
    role("reads-nodes", rule("get", "nodes")),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A cluster in which mallory is the admin of the namespace team, and of nothing else."""
    async with serving(tmp_path_factory.mktemp("rbac")) as running:
        create = running.cluster.create
        for name in ("team", "other"):
            await create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for part in PARTS:
            await create(part)
        await create(binding("mallory", "ClusterRole", "admin"))
        await create(role("bound", rule("get", "pods"), namespace="team"))
        await create(binding("bound", "Role", "bound", user="friend"))
        await create(binding("binder", "ClusterRole", "binder", user="trent"))
        await create(role("cluster-editor", rule("create get update patch", "clusterroles clusterrolebindings", RBAC)))
        await create(binding("olivia", "ClusterRole", "cluster-editor", user="olivia", namespace=""))
        await create(binding("names", "Role", "named", user="nadia"))
        await create(role("named", rule("get", "pods", names=""), rule("create", "roles", RBAC), namespace="team"))
        yield running


async def send(
    served: Served, user: str, method: str, path: str, body: Any = None, media: str = "application/json"
) -> int:
    """Sends a request and returns its status."""
    token = served.identity.tokens.issue(user)
    async with (
        served.session(token, **{"Content-Type": media}) as http,
        http.request(method, path, json=body) as response,
    ):
        return response.status


async def _settled(served: Served) -> None:
    """Waits until the identity has seen every role and binding that is stored."""
    async with asyncio.timeout(20):
        for kind in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
            resource = f"{kind}.{RBAC}"
            informers = [*served.identity._roles, *served.identity._bindings]
            informer = next(one for one in informers if one.kind.resource == resource)
            while len(informer.objects) != len(list(served.cluster.store.view.objects(resource))):  # noqa: ASYNC110
                await asyncio.sleep(0.001)


ESCALATIONS: list[Any] = [
    pytest.param(
        "mallory", "POST", BINDINGS, binding("x", "ClusterRole", "gathers"), 403,
        id="A namespace admin binds an aggregated ClusterRole beyond their rights",
    ),
    pytest.param(
        "mallory", "POST", BINDINGS, binding("x", "ClusterRole", "chain"), 403,
        id="A namespace admin binds a ClusterRole that aggregates an aggregated one",
    ),
    pytest.param(
        "mallory", "POST", BINDINGS, binding("x", "ClusterRole", "cluster-admin"), 403,
        id="A namespace admin binds cluster-admin in their namespace",
    ),
    pytest.param(
        "mallory", "POST", BINDINGS, binding("x", "ClusterRole", "not-there-yet"), 404,
        id="A namespace admin binds a role that does not exist yet, and waits for it",
    ),
    pytest.param(
        "mallory", "POST", CLUSTER_BINDINGS, binding("x", "ClusterRole", "view", namespace=""), 403,
        id="A namespace admin binds a role in all namespaces",
    ),
    pytest.param(
        "mallory", "POST", f"/apis/{RBAC}/v1/namespaces/other/rolebindings",
        binding("x", "ClusterRole", "view", namespace="other"), 403,
        id="A namespace admin binds a role in another namespace",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("*", "pods"), namespace="team"), 403,
        id="A namespace admin makes a role with every verb",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("get", "*"), namespace="team"), 403,
        id="A namespace admin makes a role for every resource",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("get", "pods", "*"), namespace="team"), 403,
        id="A namespace admin makes a role for every API group",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("escalate bind", "roles clusterroles", RBAC), namespace="team"), 403,
        id="A namespace admin makes a role with the verbs escalate and bind",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("impersonate", "users groups"), namespace="team"), 403,
        id="A namespace admin makes a role to impersonate users",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("update patch", "pods/status"), namespace="team"), 403,
        id="A namespace admin makes a role that writes the status of Pods",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("create", "pods/binding"), namespace="team"), 403,
        id="A namespace admin makes a role that binds Pods to nodes",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("update", "namespaces/finalize"), namespace="team"), 403,
        id="A namespace admin makes a role that finalizes namespaces",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", rule("get", "*/log"), namespace="team"), 403,
        id="A namespace admin makes a role for a subresource of every resource",
    ),
    pytest.param(
        "mallory", "PUT", f"{ROLES}/bound", role("bound", rule("*", "*", "*"), namespace="team"), 403,
        id="A namespace admin adds rules to a role that is already bound",
    ),
    pytest.param(
        "mallory", "POST", ROLES, role("x", {**rule("a b", "c d"), "verbs": ["v"] * 3000,
        "resources": ["r"] * 3000, "resourceNames": ["n"] * 3000}, namespace="team"), 403,
        id="A role with a billion combinations freezes the check",
    ),
    pytest.param(
        "nadia", "POST", ROLES, role("x", rule("get", "pods"), namespace="team"), 403,
        id="A right for the object with the empty name is passed on as a right for all objects",
    ),
    pytest.param(
        "olivia", "POST", CLUSTER_ROLES, role("x", rule("get", "nodes")), 403,
        id="An editor of ClusterRoles makes one beyond their rights",
    ),
    pytest.param(
        "olivia", "POST", CLUSTER_ROLES, role("x", aggregationRule=GATHERING), 403,
        id="An editor of ClusterRoles makes one that gathers the rules of others",
    ),
    pytest.param(
        "olivia", "PUT", f"{CLUSTER_ROLES}/gathers", role("gathers"), 403,
        id="An editor of ClusterRoles takes the aggregation away from one, to change its rules later",
    ),
    pytest.param(
        "olivia", "POST", CLUSTER_ROLES, role("x", urls("get", "/metrics")), 403,
        id="An editor of ClusterRoles grants a path that is no resource",
    ),
    pytest.param(
        "trent", "POST", BINDINGS, binding("x", "ClusterRole", "reads-secrets-everywhere"), 403,
        id="The verb bind for one ClusterRole is used for another",
    ),
]  # fmt: skip


@on_server
@pytest.mark.parametrize(("user", "method", "path", "body", "status"), ESCALATIONS)
async def test_nobody_grants_more_than_they_have(
    served: Served, user: str, method: str, path: str, body: dict[str, Any], status: int
) -> None:
    await _settled(served)
    assert await send(served, user, method, path, body) == status


GRANTS: list[Any] = [
    pytest.param("mallory", "POST", BINDINGS, binding("a", "ClusterRole", "view"), 201, id="view"),
    pytest.param("mallory", "POST", BINDINGS, binding("b", "ClusterRole", "admin"), 201, id="the same role"),
    pytest.param("mallory", "POST", ROLES, role("c", rule("get list", "pods"), namespace="team"), 201, id="a part"),
    pytest.param(
        "mallory", "POST", ROLES, role("d", rule("get", "pods", names="x"), namespace="team"), 201, id="one name"
    ),
    pytest.param("trent", "POST", BINDINGS, binding("e", "ClusterRole", "reads-nodes"), 201, id="with the verb bind"),
    pytest.param(
        "olivia", "POST", CLUSTER_ROLES, role("f", rule("get", "clusterroles", RBAC)), 201, id="a cluster-wide part"
    ),
]


@on_server
@pytest.mark.parametrize(("user", "method", "path", "body", "status"), GRANTS)
async def test_what_one_has_can_be_granted(
    served: Served, user: str, method: str, path: str, body: dict[str, Any], status: int
) -> None:
    await _settled(served)
    assert await send(served, user, method, path, body) == status


@on_server
async def test_a_patch_is_checked_against_the_state_it_is_applied_to(served: Served) -> None:
    """Two patches at once, each of which is allowed alone, make a rule that is not"""
    await _settled(served)
    media = "application/json-patch+json"
    verbs = [{"op": "replace", "path": "/rules/0/verbs", "value": ["impersonate"]}]
    resources = [{"op": "replace", "path": "/rules/0/resources", "value": ["pods"]}]
    kind = served.cluster.catalogue.of(f"{RBAC}/v1", "Role")
    for attempt in range(8):
        name = f"raced-{attempt}"
        first = role(name, rule("get", "serviceaccounts"), namespace="team")
        assert await send(served, "mallory", "POST", ROLES, first) == 201
        patches = (send(served, "mallory", "PATCH", f"{ROLES}/{name}", patch, media) for patch in (verbs, resources))
        assert sorted(await asyncio.gather(*patches)) == [200, 403]
        found = (await served.cluster.get(kind, name, "team"))["rules"][0]
        assert (found["verbs"], found["resources"]) != (["impersonate"], ["pods"])


@on_server
async def test_impersonation_needs_a_right_for_every_part(served: Served) -> None:
    """A namespace admin acts as another user, group or service account of another namespace"""
    await _settled(served)
    token = served.identity.tokens.issue("mallory")
    for headers in (
        {"Impersonate-User": "root"},
        {"Impersonate-User": "system:serviceaccount:other:default"},
        {"Impersonate-User": "system:serviceaccount:team:default", "Impersonate-Group": "system:masters"},
        {"Impersonate-User": "system:serviceaccount:team:a:b"},
        {"Impersonate-User": "system:serviceaccount:team"},
    ):
        async with served.session(token, **headers) as http, http.get("/api/v1/namespaces/team/pods") as response:
            assert response.status == 403, headers


@on_server
async def test_a_resource_template_grants_nothing(served: Served) -> None:
    """A workflow whose account may write RoleBindings binds cluster-admin with a resource template"""
    await served.cluster.create({**binding("robot", "ClusterRole", "admin"), "subjects": [_robot("robot")]})
    everywhere = binding("chief", "ClusterRole", "cluster-admin", namespace="")
    await served.cluster.create({**everywhere, "subjects": [_robot("chief")]})
    await _settled(served)
    may = service_account_permissions(served.identity)
    for kind in (ROLE, ROLE_BINDING):
        assert "is forbidden" in may("team", "robot", "create", kind, "team", "x")
        assert may("team", "chief", "create", kind, "team", "x") == ""
    assert may("team", "robot", "get", ROLE, "team", "x") == ""


def _robot(name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": "team"}


COVERS: list[Any] = [
    pytest.param([rule("get", "pods")], [rule("get", "pods", names="")], ["get pods"], id="names that are empty"),
    pytest.param([urls("get", "/a*")], [urls("get", "/a")], ["get path /a*"], id="a wildcard of paths"),
    pytest.param([urls("get", "/a/b")], [urls("get", "/a*")], [], id="a path below a wildcard"),
    pytest.param([urls("*", "*")], [rule("*", "*", "*")], ["* path *"], id="paths are no resources"),
    pytest.param([rule("get", "pods/log")], [rule("get", "*/log")], [], id="a subresource of everything"),
    pytest.param([rule("get", "pods/log")], [rule("get", "pods/*")], ["get pods/log"], id="pods/* is no pattern"),
    pytest.param([rule("get list", "pods")], [rule("get", "pods"), rule("list", "pods")], [], id="two rules together"),
    pytest.param([rule("get", "pods", names="a,b")], [rule("get", "pods", names="a"), rule("get", "pods", names="b")],
                 [], id="two rules for two names"),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "own", "missing"), COVERS)
def test_which_rules_cover_others(wanted: list[dict[str, Any]], own: list[dict[str, Any]], missing: list[str]) -> None:
    found = missing_actions(wanted, "team", [Grant("", tuple(own))])
    shown = [
        f"{a.verb} path {a.path}"
        if a.path
        else f"{a.verb} {a.resource}" + (f"/{a.subresource}" if a.subresource else "")
        for a in found
    ]
    assert shown == missing


def test_a_rule_with_too_many_combinations_is_refused() -> None:
    huge = {"verbs": ["v"] * 1000, "apiGroups": ["g"] * 1000, "resources": ["r"] * 1000}
    with pytest.raises(TooManyCombinations):
        missing_actions([huge], "team", [])


def test_roles_that_aggregate_each_other_end() -> None:
    one = role("one", aggregationRule=GATHERING, metadata={"labels": {"into": "all"}})
    two = role("two", rule("get", "pods"), aggregationRule=GATHERING, metadata={"labels": {"into": "all"}})
    plain = role("plain", rule("get", "nodes"), metadata={"labels": {"into": "all"}})
    assert effective_rules(one, [one, two, plain]) == (rule("get", "nodes"),)
