"""Every route needs a token, and roles decide what a token may do."""

from __future__ import annotations

import pytest

from muster.kube.rbac import AUTHENTICATED
from tests.server.argo.served import Argo, hello

PATHS = [
    ("GET", "workflows/default"),
    ("POST", "workflows/default"),
    ("GET", "workflows/default/wf"),
    ("PUT", "workflows/default/wf/stop"),
    ("PUT", "workflows/default/wf/retry"),
    ("GET", "workflows/default/wf/log"),
    ("GET", "workflow-events/default"),
    ("GET", "stream/events/default"),
    ("GET", "workflow-templates/default"),
    ("DELETE", "cron-workflows/default/wf"),
    ("GET", "archived-workflows"),
    ("GET", "archived-workflows/some-uid"),
    ("GET", "nonsense-of-argo/x"),
    ("GET", "version"),
    ("GET", "info"),
    ("GET", "userinfo"),
    ("POST", "tracking/event"),
]


@pytest.mark.parametrize("token", ["", "nonsense"])
async def test_requests_without_a_token_are_refused(argo: Argo, token: str) -> None:
    async with argo.served.session(token) as session:
        for method, path in PATHS:
            async with session.request(method, f"/api/v1/{path}", json={}) as response:
                assert response.status == 401, path


async def test_roles_decide_what_a_token_may_do(argo: Argo) -> None:
    await argo.workflow("wf", "Running")
    done = await argo.workflow("done", "Succeeded")
    rules = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get", "list", "watch"]}]
    where = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader", "namespace": "default"}}
    await argo.cluster.create({**where, "kind": "Role", "rules": rules})
    await argo.cluster.create({
        **where,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    })  # fmt: skip
    token = argo.served.identity.tokens.issue("ann", [AUTHENTICATED])
    async with argo.served.session(token) as session:
        ann = Argo(argo.served, session)
        for _ in range(100):
            async with session.get("/api/v1/workflows/default") as response:
                if response.status == 200:
                    break
        assert len((await ann("GET", "workflows/default"))["items"]) == 2
        assert (await ann("GET", "userinfo"))["subject"] == "ann"
        await ann("GET", f"archived-workflows/{done['metadata']['uid']}")
        for method, path, body in (
            ("GET", "workflows/", None),
            ("GET", "workflows/other", None),
            ("POST", "workflows/default", {"workflow": hello("x")}),
            ("DELETE", "workflows/default/wf", None),
            ("PUT", "workflows/default/wf/stop", {}),
            ("PUT", "workflows/default/done/retry", {}),
            ("PUT", "workflows/default/done/resubmit", {}),
            ("GET", "workflows/default/done/log", None),
            ("GET", "workflow-templates/default", None),
            ("GET", "stream/events/default", None),
            ("DELETE", f"archived-workflows/{done['metadata']['uid']}", None),
        ):
            refused = await ann(method, path, body, status=403)
            assert refused["code"] == 7, path
            assert 'User "ann" cannot' in refused["message"]
