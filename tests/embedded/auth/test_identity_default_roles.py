from __future__ import annotations

import pytest

from muster.embedded.auth.identity import default_roles
from muster.kube.builtin import builtin_kinds
from muster.kube.objects import name_of
from muster.kube.rbac import Action, User, is_allowed_by_roles

ROLES = default_roles(builtin_kinds())
RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("action", "roles"),
    [
        (Action("get", "", "pods"), "view muster-member edit admin cluster-admin"),
        (Action("get", "", "pods", "log"), "view muster-member edit admin cluster-admin"),
        (Action("get", "batch", "jobs", "status"), "view muster-member edit admin cluster-admin"),
        (Action("get", "", "secrets"), "muster-member edit admin cluster-admin"),
        (Action("create", "", "pods"), "muster-member edit admin cluster-admin"),
        (Action("create", "", "pods", "exec"), "muster-member edit admin cluster-admin"),
        (Action("create", "", "serviceaccounts", "token"), "edit admin cluster-admin"),
        (Action("list", "", "secrets"), "edit admin cluster-admin"),
        (Action("deletecollection", "", "pods"), "edit admin cluster-admin"),
        (Action("create", "", "events"), "edit admin cluster-admin"),
        (Action("impersonate", "", "serviceaccounts"), "edit admin cluster-admin"),
        (Action("update", "batch", "jobs", "status"), "cluster-admin"),
        (Action("create", RBAC, "rolebindings"), "admin cluster-admin"),
        (Action("create", RBAC, "clusterrolebindings"), "cluster-admin"),
        (Action("delete", "", "nodes"), "cluster-admin"),
        (Action("create", "", "namespaces"), "cluster-admin"),
        (Action("get", path="/metrics"), "cluster-admin"),
    ],
)
def test_which_of_them_allow_it(action: Action, roles: str) -> None:
    ada = User("ada")
    found = []
    for role in ROLES:
        binding = {
            "metadata": {"name": "b"},
            "subjects": [{"kind": "User", "name": "ada"}],
            "roleRef": {"kind": "ClusterRole", "name": name_of(role)},
        }
        if is_allowed_by_roles(ada, action, ROLES, [binding]):
            found.append(name_of(role))
    assert sorted(found) == sorted(roles.split())
