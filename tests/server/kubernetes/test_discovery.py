from __future__ import annotations

import pytest

from muster.kube.kinds import Kind, Scale
from muster.server.kubernetes import discovery
from muster.server.kubernetes.discovery import group_versions

POD = Kind("", "v1", "Pod", "pods", short_names=("po",), categories=("all",))
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
JOB = Kind("batch", "v1", "Job", "jobs", scale=Scale())
WIDGETS = [Kind("acme.io", version, "Widget", "widgets", has_status=False) for version in ("v1alpha1", "v1", "v2beta1")]
SERVED = group_versions([POD, NODE, JOB, *WIDGETS])
BOTH = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_groups_are_listed_with_the_preferred_version_first() -> None:
    found = {group["name"]: [v["version"] for v in group["versions"]] for group in discovery.api_groups(SERVED)}
    assert found == {
        "acme.io": ["v1", "v2beta1", "v1alpha1"],
        "authentication.k8s.io": ["v1"],
        "authorization.k8s.io": ["v1"],
        "batch": ["v1"],
    }
    widgets = discovery.api_group(SERVED, "acme.io")
    assert widgets is not None
    assert widgets["preferredVersion"] == {"groupVersion": "acme.io/v1", "version": "v1"}
    assert discovery.api_group(SERVED, "nowhere.io") is None


def test_the_resources_of_a_version_with_their_subresources() -> None:
    found = discovery.resource_list(SERVED, "", "v1")
    assert found is not None
    lines = {line["name"]: line for line in found["resources"]}
    assert set(lines) == {
        "nodes", "nodes/status", "pods", "pods/attach", "pods/binding", "pods/eviction", "pods/exec", "pods/log",
        "pods/portforward", "pods/proxy", "pods/status",
    }  # fmt: skip
    assert lines["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert lines["pods/eviction"]["group"] == "policy"
    assert not lines["nodes"]["namespaced"]
    assert discovery.resource_list(SERVED, "", "v2") is None


def test_a_scalable_kind_has_a_scale_subresource() -> None:
    found = discovery.resource_list(SERVED, "batch", "v1")
    assert found is not None
    scale = next(line for line in found["resources"] if line["name"] == "jobs/scale")
    assert (scale["kind"], scale["group"], scale["version"]) == ("Scale", "autoscaling", "v1")


def test_aggregated_discovery() -> None:
    core = discovery.aggregated_discovery(SERVED, "v2", core=True)
    assert core["apiVersion"] == "apidiscovery.k8s.io/v2"
    (pods,) = [r for r in core["items"][0]["versions"][0]["resources"] if r["resource"] == "pods"]
    assert pods["scope"] == "Namespaced"
    assert pods["responseKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert {s["subresource"] for s in pods["subresources"]} == {
        "attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status",
    }  # fmt: skip
    named = discovery.aggregated_discovery(SERVED, "v2", core=False)
    assert [item["metadata"]["name"] for item in named["items"]] == [
        "acme.io", "authentication.k8s.io", "authorization.k8s.io", "batch",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (f"{BOTH},application/json", "v2"),
        (f"{BOTH.replace('v=v2', 'v=v2beta1')},application/json", "v2beta1"),
        (f"{BOTH};profile=nopeer,{BOTH},application/json", "v2"),
        (f"application/json,{BOTH}", ""),
        ("application/json", ""),
        ("*/*", ""),
        ("", ""),
    ],
)
def test_which_clients_get_aggregated_discovery(accept: str, version: str) -> None:
    assert discovery.aggregated_version(accept) == version
