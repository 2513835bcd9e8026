"""What objects use of a ResourceQuota, and what a LimitRange fills in and forbids."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from muster.kube.objects import Object
from muster.kube.resource_quota import (
    charge,
    covers,
    default_limit_range,
    find_limit_violations,
    resources_limited_by,
    total_usage,
    usage_of,
    validate_limit_range,
    validate_resource_quota,
    with_limit_defaults,
)


def quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": {"used": used or {}}}


def container(requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    sides = (("requests", requests), ("limits", limits))
    return {"name": "c", "resources": {side: amounts for side, amounts in sides if amounts}, **more}


def pod(*containers: Object, phase: str = "Running", **spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}, "status": {"phase": phase}}


CPU = container({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1"})


@pytest.mark.parametrize(
    ("resource", "obj", "used"),
    [
        ("jobs.batch", {}, {"count/jobs.batch": 1}),
        ("configmaps", {}, {"count/configmaps": 1, "configmaps": 1}),
        (
            "pods",
            pod(CPU, CPU),
            {
                "count/pods": 1, "pods": 1, "cpu": 1, "requests.cpu": 1, "limits.cpu": 2, "memory": 2 << 30,
                "requests.memory": 2 << 30,
            },
        ),
        ("pods", pod(CPU, phase="Succeeded"), {"count/pods": 1}),
        (
            "pods",
            pod(container({"nvidia.com/gpu": "1"}), initContainers=[container({"nvidia.com/gpu": "2"})]),
            {"count/pods": 1, "pods": 1, "requests.nvidia.com/gpu": 2},
        ),
        (
            "pods",
            pod(container({"cpu": "1"}), initContainers=[container({"cpu": "1"}, restartPolicy="Always")]),
            {"count/pods": 1, "pods": 1, "cpu": 2, "requests.cpu": 2},
        ),
        ("services", {"spec": {"ports": [{}]}}, {"count/services": 1, "services": 1}),
        (
            "services",
            {"spec": {"type": "LoadBalancer", "ports": [{}, {}]}},
            {"count/services": 1, "services": 1, "services.nodeports": 2, "services.loadbalancers": 1},
        ),
        (
            "persistentvolumeclaims",
            {"spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}},
            {
                "count/persistentvolumeclaims": 1, "persistentvolumeclaims": 1, "requests.storage": 1 << 30,
                "fast.storageclass.storage.k8s.io/persistentvolumeclaims": 1,
                "fast.storageclass.storage.k8s.io/requests.storage": 1 << 30,
            },
        ),
    ],
)  # fmt: skip
def test_what_an_object_uses(resource: str, obj: Object, used: dict[str, int]) -> None:
    assert usage_of(resource, obj) == {name: Fraction(amount) for name, amount in used.items()}


@pytest.mark.parametrize(
    ("scope", "is_covered"),
    [
        ({}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopes": ["NotBestEffort", "NotTerminating"]}, True),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}, True),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}}, False),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
            ]}},
            True,
        ),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}
            ]}},
            False,
        ),
        ({"scopes": ["CrossNamespacePodAffinity"]}, False),
    ],
)  # fmt: skip
def test_scopes_of_a_quota(scope: Object, is_covered: bool) -> None:
    assert covers(quota({"pods": "1"}, **scope), "pods", pod(CPU, priorityClassName="high")) is is_covered
    assert covers(quota({"pods": "1"}, **scope), "configmaps", {}) is (not scope), "scopes are about Pods"


@pytest.mark.parametrize(
    ("hard", "used", "problem"),
    [
        ({"pods": "2"}, {"pods": "1"}, ""),
        ({"pods": "1"}, {"pods": "1"}, "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
        ({"requests.cpu": "1"}, {"requests.cpu": "500m"}, ""),
        (
            {"requests.cpu": "900m", "cpu": "10"},
            {"requests.cpu": "500m"},
            "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=500m, limited: requests.cpu=900m",
        ),
        ({"limits.memory": "1Gi"}, {}, "failed quota: q: must specify limits.memory for: c"),
        ({"requests.nvidia.com/gpu": "0"}, {}, ""),
        ({"secrets": "0"}, {"secrets": "0"}, ""),
    ],
)
def test_a_new_pod_is_charged_or_refused(hard: Object, used: Object, problem: str) -> None:
    new, why = charge(quota(hard, used), "pods", None, pod(CPU))
    assert why == problem
    assert new == total_usage(quota(hard), [("pods", pod(CPU))] * (1 + bool(used))) if new else True


def test_an_update_is_charged_for_what_it_adds() -> None:
    def service(kind: str) -> Object:
        return {"spec": {"type": kind, "ports": [{}]}}

    limited = quota({"services": "1", "services.nodeports": "1"}, {"services": "1", "services.nodeports": "0"})
    used, why = charge(limited, "services", service("ClusterIP"), service("NodePort"))
    assert (used, why) == ({"services": "1", "services.nodeports": "1"}, "")
    full = quota({"services.nodeports": "0"}, {"services.nodeports": "0"})
    assert "exceeded quota" in charge(full, "services", service("ClusterIP"), service("NodePort"))[1]
    assert charge(full, "services", service("NodePort"), service("NodePort")) == (None, "")


def test_the_resources_that_a_quota_limits() -> None:
    hard = {
        "pods": "1", "requests.nvidia.com/gpu": "1", "count/jobs.batch": "1", "services.nodeports": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "1Gi", "secrets": "1",
    }  # fmt: skip
    found = resources_limited_by(quota(hard))
    assert found == {"pods", "jobs.batch", "services", "persistentvolumeclaims", "secrets"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hard": {"pods": "1"}}, ""),
        ({"hard": {"pods": "-1"}}, "spec.hard[pods]"),
        ({"hard": {"a b": "1"}}, "spec.hard[a b]"),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            "spec.scopeSelector.matchExpressions[0].values",
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "In", "values": ["a"]}]}},
            "spec.scopeSelector.matchExpressions[0].operator",
        ),
    ],
)
def test_rules_of_quotas(spec: Object, field: str) -> None:
    found = validate_resource_quota({"metadata": {"name": "q"}, "spec": spec}, None)
    assert [cause.field for cause in found] == ([field] if field else [])


def limit_range(**item: Any) -> Object:
    limits = [{"type": "Container", **item}]
    return default_limit_range({"metadata": {"name": "l"}, "spec": {"limits": limits}})


@pytest.mark.parametrize(
    ("item", "given", "resources"),
    [
        ({"default": {"cpu": "1"}}, container(), {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
        ({"max": {"cpu": "2"}}, container(), {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}),
        ({"min": {"cpu": "1"}}, container(), {"requests": {"cpu": "1"}}),
        (
            {"default": {"cpu": "2"}, "defaultRequest": {"cpu": "0.5"}},
            container({"cpu": "1"}, {"memory": "1Gi"}),
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        ),
    ],
)
def test_defaults_of_a_limit_range(item: Object, given: Object, resources: Object) -> None:
    filled = with_limit_defaults([limit_range(**item)], pod(given))
    assert filled["spec"]["containers"][0]["resources"] == resources
    assert filled["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "requests", "limits", "problem"),
    [
        ({"min": {"cpu": "1"}}, {"cpu": "1"}, {}, ""),
        ({"min": {"cpu": "1"}}, {"cpu": "500m"}, {}, "minimum cpu usage per Container is 1, but request is 500m"),
        ({"max": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}, ""),
        ({"max": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "2"}, "maximum cpu usage per Container is 1, but limit is 2"),
        ({"max": {"cpu": "1"}}, {}, {}, "maximum cpu usage per Container is 1.  No limit is specified"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}, ""),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"cpu": "1"},
            {"cpu": "3"},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"cpu": "600m"},
            {"cpu": "600m"},
            "maximum cpu usage per Pod is 1, but limit is 1200m",
        ),
    ],
)  # fmt: skip
def test_what_a_limit_range_forbids(item: Object, requests: Object, limits: Object, problem: str) -> None:
    containers = [container(requests, limits)] * (2 if item.get("type") == "Pod" else 1)
    found = find_limit_violations([limit_range(**item)], "pods", pod(*containers))
    assert found == ([problem] if problem else [])


def test_a_limit_range_restricts_claims() -> None:
    limits = limit_range(type="PersistentVolumeClaim", max={"storage": "1Gi"}, min={"storage": "1Mi"})
    assert not find_limit_violations([limits], "pods", pod(container()))
    for storage, problems in (("1Gi", 0), ("2Gi", 1), ("1Ki", 1)):
        claim = {"spec": {"resources": {"requests": {"storage": storage}}}}
        assert len(find_limit_violations([limits], "persistentvolumeclaims", claim)) == problems


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"min": {"cpu": "1"}, "max": {"cpu": "2"}}, ""),
        ({"min": {"cpu": "3"}, "max": {"cpu": "2"}}, "spec.limits[0].min[cpu]"),
        ({"type": "Node"}, "spec.limits[0].type"),
        ({"type": "Pod", "default": {"cpu": "1"}}, "spec.limits[0].default"),
        ({"type": "PersistentVolumeClaim"}, "spec.limits[0].limits"),
        ({"maxLimitRequestRatio": {"cpu": "500m"}}, "spec.limits[0].maxLimitRequestRatio[cpu]"),
    ],
)
def test_rules_of_limit_ranges(item: Object, field: str) -> None:
    given = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}
    found = validate_limit_range(given, None)
    assert [cause.field for cause in found] == ([field] if field else [])
