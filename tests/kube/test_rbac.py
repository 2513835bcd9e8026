from __future__ import annotations

from typing import Any

import pytest

from muster.kube.rbac import (
    AUTHENTICATED,
    MASTERS,
    Action,
    Grant,
    User,
    grants_of,
    is_allowed_by_roles,
    missing_actions,
    rule_permits,
    service_account_user,
)

BOT = service_account_user("team", "bot")
ADA = User("ada", frozenset({"data", AUTHENTICATED}))


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": groups.split(",")}
    return made | ({"resourceNames": names.split()} if names else {})


def role(name: str, *rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": list(rules), **more}


def binding(role_name: str, *subjects: dict[str, str], namespace: str = "", to: str = "ClusterRole") -> dict[str, Any]:
    return {
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": "b", **({"namespace": namespace} if namespace else {})},
        "subjects": list(subjects),
        "roleRef": {"kind": to, "name": role_name},
    }


THE_BOT = {"kind": "ServiceAccount", "name": "bot", "namespace": "team"}


@pytest.mark.parametrize(
    ("given", "action", "fits"),
    [
        (rule("get", "pods"), Action("get", "", "pods"), True),
        (rule("get", "pods"), Action("list", "", "pods"), False),
        (rule("*", "pods"), Action("list", "", "pods"), True),
        (rule("get", "pods"), Action("get", "batch", "pods"), False),
        (rule("get", "jobs", "batch"), Action("get", "batch", "jobs"), True),
        (rule("get", "*", "*"), Action("get", "batch", "jobs"), True),
        (rule("get", "pods"), Action("get", "", "pods", "log"), False),
        (rule("get", "pods/log"), Action("get", "", "pods", "log"), True),
        (rule("get", "pods/log"), Action("get", "", "pods"), False),
        (rule("update", "*/scale", "*"), Action("update", "batch", "jobs", "scale"), True),
        (rule("update", "*/scale", "*"), Action("update", "batch", "jobs"), False),
        (rule("get", "*"), Action("get", "", "pods", "log"), True),
        (rule("get", "secrets", names="a b"), Action("get", "", "secrets", name="b"), True),
        (rule("get", "secrets", names="a b"), Action("get", "", "secrets", name="c"), False),
        (rule("list", "secrets", names="a"), Action("list", "", "secrets"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, Action("get", path="/metrics"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}, Action("get", path="/logs/a"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}, Action("get", path="/log"), False),
        (rule("get", "*", "*"), Action("get", path="/metrics"), False),
        ({}, Action("get", "", "pods"), False),
    ],
)  # fmt: skip
def test_rule_permits(given: dict[str, Any], action: Action, fits: bool) -> None:
    assert rule_permits(given, action) is fits


READER = role("reader", rule("get list", "pods"))
LOCAL = role("reader", rule("delete", "pods"), namespace="team")
IN_TEAM = Action("get", "", "pods", namespace="team")
ELSEWHERE = Action("get", "", "pods", namespace="other")
EVERYWHERE = Action("get", "", "pods")


@pytest.mark.parametrize(
    ("user", "action", "bindings", "may"),
    [
        (BOT, IN_TEAM, [], False),
        (User("root", frozenset({MASTERS})), Action("delete", "", "nodes", name="n"), [], True),
        (BOT, IN_TEAM, [binding("reader", THE_BOT)], True),
        (BOT, EVERYWHERE, [binding("reader", THE_BOT)], True),
        (BOT, IN_TEAM, [binding("reader", THE_BOT, namespace="team")], True),
        (BOT, ELSEWHERE, [binding("reader", THE_BOT, namespace="team")], False),
        (BOT, EVERYWHERE, [binding("reader", THE_BOT, namespace="team")], False),
        # A Role is not the ClusterRole of the same name.
        (BOT, IN_TEAM, [binding("reader", THE_BOT, namespace="team", to="Role")], False),
        (BOT, IN_TEAM._replace(verb="delete"), [binding("reader", THE_BOT, namespace="team", to="Role")], True),
        (BOT, ELSEWHERE._replace(verb="delete"), [binding("reader", THE_BOT, namespace="other", to="Role")], False),
        # A service account without a namespace is in the namespace of the binding.
        (BOT, IN_TEAM, [binding("reader", {"kind": "ServiceAccount", "name": "bot"}, namespace="team")], True),
        (BOT, ELSEWHERE, [binding("reader", {"kind": "ServiceAccount", "name": "bot"}, namespace="other")], False),
        (BOT, IN_TEAM, [binding("reader", {"kind": "Group", "name": "system:serviceaccounts:team"})], True),
        (BOT, IN_TEAM, [binding("reader", {"kind": "Group", "name": "system:serviceaccounts:x"})], False),
        (BOT, IN_TEAM, [binding("reader", {"kind": "User", "name": "bot"})], False),
        (ADA, IN_TEAM, [binding("reader", {"kind": "User", "name": "ada"})], True),
        (ADA, IN_TEAM, [binding("reader", {"kind": "Group", "name": "data"})], True),
        (ADA, IN_TEAM, [binding("no-such-role", {"kind": "User", "name": "ada"})], False),
        (ADA, Action("get", path="/api/v1"), [], True),
        (ADA, Action("get", path="/metrics"), [], False),
        (User("nobody"), Action("get", path="/api/v1"), [], False),
        (ADA, Action("create", "authorization.k8s.io", "selfsubjectaccessreviews"), [], True),
        (ADA, Action("create", "authorization.k8s.io", "subjectaccessreviews"), [], False),
    ],
)  # fmt: skip
def test_permissions(user: User, action: Action, bindings: list[dict[str, Any]], may: bool) -> None:
    assert is_allowed_by_roles(user, action, [READER, LOCAL], bindings) is may


def test_an_aggregated_role_has_the_rules_of_the_selected_roles() -> None:
    gathered = role("all", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"into": "all"}}]})
    part = role("part", rule("get", "pods"), metadata={"labels": {"into": "all"}})
    bound = [binding("all", {"kind": "User", "name": "ada"})]
    assert is_allowed_by_roles(ADA, EVERYWHERE, [gathered, part], bound)
    assert not is_allowed_by_roles(ADA, EVERYWHERE, [gathered, READER], bound)


@pytest.mark.parametrize(
    ("wanted", "own", "lacks"),
    [
        (rule("get", "pods"), [rule("get list", "pods secrets")], []),
        (rule("get delete", "pods"), [rule("get", "pods")], ["delete pods"]),
        (rule("*", "pods"), [rule("get list watch", "pods")], ["* pods"]),
        (rule("*", "*", "*"), [rule("*", "*", "*")], []),
        (rule("get", "pods"), [rule("get", "pods", names="a")], ["get pods"]),
        (rule("get", "pods", names="a"), [rule("get", "pods", names="a")], []),
        (rule("get", "pods/log"), [rule("get", "pods")], ["get pods/log"]),
    ],
)  # fmt: skip
def test_missing_permissions_of_a_rule(wanted: dict[str, Any], own: list[dict[str, Any]], lacks: list[str]) -> None:
    found = missing_actions([wanted], "team", [Grant("team", tuple(own))])
    assert [f"{a.verb} {a.resource}{'/' + a.subresource if a.subresource else ''}" for a in found] == lacks


def test_rights_in_one_namespace_cannot_be_given_in_another() -> None:
    own = grants_of(BOT, [READER], [binding("reader", THE_BOT, namespace="team")])
    assert missing_actions([rule("get", "pods")], "team", own) == []
    assert len(missing_actions([rule("get", "pods")], "other", own)) == 1
