from __future__ import annotations

from typing import Any

import pytest

from muster.kube import builtin
from muster.kube.kinds import Kind
from muster.kube.objects import Object, copy_of


def a(kind: Kind, **fields: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, **fields}


CASES: list[tuple[Kind, Object, Object]] = [
    (
        builtin.NAMESPACE,
        {},
        {
            "metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x"}},
            "status": {"phase": "Active"},
        },
    ),
    (
        builtin.NODE,
        {"status": {"capacity": {"cpu": "2"}}},
        {"status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}}},
    ),
    (
        builtin.SERVICE,
        {"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "web", "protocol": "UDP"}]}},
        {
            "spec": {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ports": [
                    {"port": 80, "targetPort": 80, "protocol": "TCP"},
                    {"port": 81, "targetPort": "web", "protocol": "UDP"},
                ],
            }
        },
    ),
    (
        builtin.SERVICE,
        {"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}},
        {
            "spec": {
                "type": "LoadBalancer",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "internalTrafficPolicy": "Cluster",
                "externalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": True,
            }
        },
    ),
    (
        builtin.SERVICE,
        {"spec": {"clusterIP": "None"}},
        {
            "spec": {
                "type": "ClusterIP",
                "clusterIP": "None",
                "clusterIPs": ["None"],
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
            }
        },
    ),
    (
        builtin.SERVICE,
        {"spec": {"type": "ExternalName", "externalName": "a.b"}},
        {"spec": {"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"}},
    ),
    (builtin.SECRET, {}, {"type": "Opaque"}),
    (
        builtin.SECRET,
        {"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "new", "c": "中"}},
        {"type": "Opaque", "data": {"a": "YQ==", "b": "bmV3", "c": "5Lit"}},
    ),
    (builtin.SECRET, {"stringData": {}, "type": "t"}, {"type": "t"}),
    (
        builtin.PERSISTENT_VOLUME,
        {"spec": {"capacity": {"storage": "1024Mi"}}},
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        },
    ),
    (
        builtin.PERSISTENT_VOLUME_CLAIM,
        {"spec": {"resources": {"requests": {"storage": 5}}}},
        {
            "spec": {"resources": {"requests": {"storage": "5"}}, "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        },
    ),
    (
        builtin.ROLE_BINDING,
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
        },
        {
            "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [
                {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": "s"},
            ],
        },
    ),
    (builtin.PRIORITY_CLASS, {"value": 1}, {"value": 1, "preemptionPolicy": "PreemptLowerPriority"}),
    (
        builtin.STORAGE_CLASS,
        {"provisioner": "p"},
        {"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    (builtin.POD_GROUP, {}, {"spec": {"queue": "default"}}),
    (builtin.POD_GROUP, {"spec": {"queue": "q", "minMember": 2}}, {"spec": {"queue": "q", "minMember": 2}}),
    (builtin.QUEUE, {}, {"spec": {"weight": 1, "dequeueStrategy": "traverse", "reclaimable": True}}),
    (
        builtin.QUEUE,
        {"spec": {"weight": 4, "reclaimable": False}},
        {"spec": {"weight": 4, "dequeueStrategy": "traverse", "reclaimable": False}},
    ),
    (
        builtin.CUSTOM_RESOURCE_DEFINITION,
        {"spec": {"names": {"kind": "Thing", "plural": "things"}}},
        {
            "spec": {
                "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
                "conversion": {"strategy": "None"},
            }
        },
    ),
]


@pytest.mark.parametrize(("kind", "given", "filled"), CASES)
def test_defaults(kind: Kind, given: Object, filled: Object) -> None:
    obj = a(kind, **given)
    before = copy_of(obj)
    assert kind.default is not None
    result = kind.default(obj)
    assert result == a(kind, **filled)
    assert obj == before
    assert kind.default(result) is result


JOB_SPEC = {
    "completions": 1,
    "parallelism": 1,
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "manualSelector": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, JOB_SPEC),
        ({"parallelism": 0}, {**{k: v for k, v in JOB_SPEC.items() if k != "completions"}, "parallelism": 0}),
        ({"completions": 3}, {**JOB_SPEC, "completions": 3}),
        ({"suspend": True, "backoffLimit": 0}, {**JOB_SPEC, "suspend": True, "backoffLimit": 0}),
        ({"backoffLimitPerIndex": 1}, {**JOB_SPEC, "backoffLimitPerIndex": 1, "backoffLimit": 2**31 - 1}),
        (
            {"podFailurePolicy": {"rules": []}},
            {**JOB_SPEC, "podFailurePolicy": {"rules": []}, "podReplacementPolicy": "Failed"},
        ),
    ],
)
def test_the_counts_and_policies_of_a_job(given: Object, filled: Object) -> None:
    assert builtin.JOB.default is not None
    assert builtin.JOB.default(a(builtin.JOB, spec=given))["spec"] == filled


def test_a_job_finds_its_own_pods() -> None:
    job = a(builtin.JOB, spec={"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}})
    job["metadata"]["uid"] = "u1"
    assert builtin.JOB.default is not None
    filled = builtin.JOB.default(job)
    assert filled["metadata"]["labels"] == {"app": "x"}
    assert filled["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}
    assert filled["spec"]["template"]["metadata"]["labels"] == {
        "app": "x",
        "batch.kubernetes.io/controller-uid": "u1",
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": "u1",
        "job-name": "x",
    }
    assert filled["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert builtin.JOB.default(filled) is filled


def test_a_job_may_bring_its_own_selector() -> None:
    spec = {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": []}}}
    job = {**a(builtin.JOB, spec=spec), "metadata": {"name": "x", "uid": "u1"}}
    assert builtin.JOB.default is not None
    filled = builtin.JOB.default(job)
    assert filled["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert "metadata" not in filled["spec"]["template"]


def test_a_pod_template_is_filled_in() -> None:
    assert builtin.POD_TEMPLATE.default is not None
    filled = builtin.POD_TEMPLATE.default(a(builtin.POD_TEMPLATE, template={"spec": {"containers": []}}))
    assert filled["template"]["spec"]["restartPolicy"] == "Always"
