from __future__ import annotations

import pytest

from muster.kube.rbac import Action
from muster.server.kubernetes.request import Target, parse_target, required_action


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/pods/", Target("", "v1", "pods")),
        ("/api/v1/namespaces/team/pods", Target("", "v1", "pods", "team")),
        ("/api/v1/namespaces/team/pods/web", Target("", "v1", "pods", "team", "web")),
        ("/api/v1/namespaces/team/pods/web/log", Target("", "v1", "pods", "team", "web", "log")),
        ("/api/v1/namespaces", Target("", "v1", "namespaces")),
        ("/api/v1/namespaces/team", Target("", "v1", "namespaces", "", "team")),
        ("/api/v1/namespaces/team/status", Target("", "v1", "namespaces", "", "team", "status")),
        ("/api/v1/namespaces/team/finalize", Target("", "v1", "namespaces", "", "team", "finalize")),
        ("/api/v1/namespaces/team/status/x", Target("", "v1", "status", "team", "x")),
        ("/api/v1/nodes/n1/status", Target("", "v1", "nodes", "", "n1", "status")),
        ("/apis/batch/v1/jobs", Target("batch", "v1", "jobs")),
        ("/apis/batch/v1/namespaces/a/jobs/j", Target("batch", "v1", "jobs", "a", "j")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x",
         Target("rbac.authorization.k8s.io", "v1", "clusterroles", "", "system:x")),
        ("/", None),
        ("/api", None),
        ("/api/v1", None),
        ("/apis", None),
        ("/apis/batch", None),
        ("/apis/batch/v1", None),
        ("/healthz", None),
        ("/openapi/v3/api/v1", None),
        ("/api/v1/namespaces/a/pods/b/proxy/x/y", Target("", "v1", "pods", "a", "b", "proxy")),
        ("/api/v1//pods", None),
        ("/apis//v1/pods", None),
    ],
)  # fmt: skip
def test_targets_of_paths(path: str, target: Target | None) -> None:
    assert parse_target(path) == target


POD = Target("", "v1", "pods", "team", "web")
PODS = Target("", "v1", "pods", "team")


@pytest.mark.parametrize(
    ("target", "method", "query", "action"),
    [
        (PODS, "GET", {}, Action("list", "", "pods", "", "team")),
        (PODS, "GET", {"watch": "true"}, Action("watch", "", "pods", "", "team")),
        (PODS, "GET", {"watch": "1"}, Action("watch", "", "pods", "", "team")),
        (PODS, "GET", {"watch": ""}, Action("watch", "", "pods", "", "team")),
        (PODS, "GET", {"watch": "false"}, Action("list", "", "pods", "", "team")),
        (PODS, "GET", {"watch": "0"}, Action("list", "", "pods", "", "team")),
        (PODS, "GET", {"fieldSelector": "metadata.name=web"}, Action("list", "", "pods", "", "team", "web")),
        (PODS, "POST", {}, Action("create", "", "pods", "", "team")),
        (PODS, "DELETE", {}, Action("deletecollection", "", "pods", "", "team")),
        (POD, "GET", {}, Action("get", "", "pods", "", "team", "web")),
        (POD, "PUT", {}, Action("update", "", "pods", "", "team", "web")),
        (POD, "PATCH", {}, Action("patch", "", "pods", "", "team", "web")),
        (POD, "DELETE", {}, Action("delete", "", "pods", "", "team", "web")),
        (POD._replace(subresource="log"), "GET", {}, Action("get", "", "pods", "log", "team", "web")),
        # Opening a WebSocket is a GET, but read access must not allow running commands.
        (POD._replace(subresource="exec"), "GET", {}, Action("create", "", "pods", "exec", "team", "web")),
        (Target("", "v1", "namespaces", "", "team"), "GET", {}, Action("get", "", "namespaces", "", "team", "team")),
    ],
)  # fmt: skip
def test_the_permission_of_a_request(target: Target, method: str, query: dict[str, str], action: Action) -> None:
    assert required_action(target, method, query) == action
