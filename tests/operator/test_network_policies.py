"""The NetworkPolicies select the Pods that they are for, and name ports that these have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from muster.kube.objects import Object, labels_of
from muster.kube.selectors import label_selector_from
from muster.operator import install_manifests, platform_manifests
from muster.operator.install_manifests import InstallOptions
from muster.operator.platform_manifests import PlatformOptions
from muster.workspaces.kinds import NOTEBOOK, TENSORBOARD
from muster.workspaces.plan import build_pod

SERVER = platform_manifests.deployment(PlatformOptions())["spec"]["template"]
OPERATOR = next(
    obj["spec"]["template"]
    for obj in install_manifests.build_manifests(InstallOptions(workspaces=True))
    if obj["kind"] == "Deployment"
)
POLICIES = {
    "server": platform_manifests.network_policy(PlatformOptions()),
    "operator": install_manifests.network_policy(InstallOptions(workspaces=True)),
}


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    return bool(label_selector_from(selector).matches(labels))


def workspace(kind: Any) -> Object:
    """The Pod of a notebook or a TensorBoard."""
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": "a", "uid": "u"}}
    return build_pod({**obj, "spec": {}}, {"containers": []})


@pytest.mark.parametrize(
    ("policy", "pod", "selected"),
    [("server", SERVER, True), ("server", OPERATOR, False), ("operator", OPERATOR, True), ("operator", SERVER, False)],
    ids=["server", "server and the operator's Pods", "operator", "operator and the server's Pods"],
)
def test_a_policy_is_for_the_pods_of_its_deployment_alone(policy: str, pod: Object, selected: bool) -> None:
    assert selects(POLICIES[policy]["spec"]["podSelector"], labels_of(pod)) == selected


@pytest.mark.parametrize(("policy", "pod"), [("server", SERVER), ("operator", OPERATOR)])
def test_the_ports_that_are_open_exist(policy: str, pod: Object) -> None:
    (container,) = pod["spec"]["containers"]
    named = {port["port"] for rule in POLICIES[policy]["spec"]["ingress"] for port in rule["ports"]}
    assert named == {port["name"] for port in container["ports"]}, "Services, probes and webhooks use all of them"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", [NOTEBOOK, TENSORBOARD], ids=lambda kind: kind.kind)
def test_workspaces_are_reached_in_all_namespaces(policy: str, kind: Any) -> None:
    (peers,) = (rule["to"] for rule in POLICIES[policy]["spec"]["egress"] if "to" in rule)
    assert all(peer["namespaceSelector"] == {} for peer in peers)
    labels = labels_of(workspace(kind))
    assert sum(selects(peer["podSelector"], labels) for peer in peers) == 1
    assert not any(selects(peer["podSelector"], {"app": "x"}) for peer in peers), "no other Pods"
