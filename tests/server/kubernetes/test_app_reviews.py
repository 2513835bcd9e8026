from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster.kube.errors import BadRequest
from muster.kube.objects import uid_of
from muster.kube.rbac import Action
from muster.server.kubernetes.app import parse_action
from tests.server.kubernetes.served import Served

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"


async def review(served: Served, path: str, spec: dict[str, Any], token: str | None = None, status: int = 201) -> Any:
    async with served.session(token) as http, http.post(path, json={"spec": spec}) as response:
        told = orjson.loads(await response.read())
        assert response.status == status, told
        return told


LIST_PODS = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}


async def test_self_subject_access_review(served: Served) -> None:
    asked = await review(served, f"{AUTHORIZATION}/selfsubjectaccessreviews", LIST_PODS)
    assert (asked["kind"], asked["status"]["allowed"]) == ("SelfSubjectAccessReview", True)
    nobody = served.identity.tokens.issue("nobody")
    asked = await review(served, f"{AUTHORIZATION}/selfsubjectaccessreviews", LIST_PODS, nobody)
    assert not asked["status"]["allowed"] and "nobody" in asked["status"]["reason"]


async def test_a_review_is_not_a_table(served: Served) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    body = {"spec": LIST_PODS}
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    async with served.session(**accept) as http, http.post(path, json=body) as response:
        assert response.status == 406


async def test_subject_access_review(served: Served) -> None:
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    assert not (await review(served, path, {**LIST_PODS, "user": "ada"}))["status"]["allowed"]
    masters = {**LIST_PODS, "user": "ada", "groups": ["system:masters"]}
    assert (await review(served, path, masters))["status"]["allowed"]
    await review(served, path, LIST_PODS, status=400)
    await review(served, path, LIST_PODS, served.identity.tokens.issue("nobody"), 403)
    local = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
    assert not (await review(served, local, {**LIST_PODS, "user": "ada"}))["status"]["allowed"]
    elsewhere = f"{AUTHORIZATION}/namespaces/kube-system/localsubjectaccessreviews"
    await review(served, elsewhere, {**LIST_PODS, "user": "ada"}, status=400)


async def test_self_reviews(served: Served) -> None:
    me = await review(served, f"{AUTHENTICATION}/selfsubjectreviews", {})
    assert me["status"]["userInfo"] == {"username": "test-admin", "groups": ["system:authenticated", "system:masters"]}
    rules = await review(served, f"{AUTHORIZATION}/selfsubjectrulesreviews", {"namespace": "default"})
    assert rules["status"]["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    few = await review(
        served, f"{AUTHORIZATION}/selfsubjectrulesreviews", {}, served.identity.tokens.issue("nobody")
    )  # fmt: skip
    assert {verb for rule in few["status"]["resourceRules"] for verb in rule["verbs"]} == {"create"}


async def test_token_reviews(served: Served) -> None:
    path = f"{AUTHENTICATION}/tokenreviews"
    account = await served.cluster.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "default"}}
    )
    token, _ = served.identity.service_accounts.issue("default", "bot", uid_of(account), audiences=["vault"])
    good = await review(served, path, {"token": token, "audiences": ["vault"]})
    assert good["status"]["authenticated"]
    assert good["status"]["user"]["username"] == "system:serviceaccount:default:bot"
    assert good["status"]["user"]["extra"].keys() == {"authentication.kubernetes.io/credential-id"}
    for spec in ({"token": token}, {"token": "x"}, {}):
        bad = await review(served, path, spec)
        assert not bad["status"]["authenticated"]
        assert token not in str(bad)


@pytest.mark.parametrize(
    ("spec", "action"),
    [
        (LIST_PODS, Action("list", "", "pods", "", "default")),
        ({"nonResourceAttributes": {"verb": "get", "path": "/logs"}}, Action("get", path="/logs")),
    ],
)
def test_actions_of_access_reviews(spec: dict[str, Any], action: Action) -> None:
    assert parse_action(spec) == action


@pytest.mark.parametrize("spec", [{}, {**LIST_PODS, "nonResourceAttributes": {"verb": "get", "path": "/"}}])
def test_a_review_has_exactly_one_subject(spec: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="exactly one"):
        parse_action(spec)
