from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import POD
from muster.kube.errors import Cause
from muster.kube.objects import Object, copy_of
from muster.kube.pod_validation import validate_pod, validate_pod_spec, validate_pod_template


def spec(**fields: Any) -> Object:
    return {"containers": [{"name": "a", "image": "b"}], **fields}


@pytest.mark.parametrize(
    "given",
    [
        spec(),
        spec(initContainers=[{"name": "i", "image": "b"}], volumes=[{"name": "v", "emptyDir": {}}]),
        spec(hostname="a", subdomain="b", serviceAccountName="c.d", priorityClassName="high"),
        spec(activeDeadlineSeconds=1, terminationGracePeriodSeconds=0),
        spec(hostAliases=[{"ip": "10.9.8.7", "hostnames": ["a.b"]}, {"ip": "::1"}]),
        spec(dnsPolicy="None", dnsConfig={"nameservers": ["1.1.1.1"]}),
    ],
)
def test_good_specs(given: Object) -> None:
    assert validate_pod_spec(given, "spec") == []


TWO_PORTS = [
    {"name": "a", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}]},
    {"name": "b", "image": "i", "ports": [{"containerPort": 2, "hostPort": 80}]},
]


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"containers": []}, "spec.containers", "Required value: a Pod needs at least one container"),
        (
            spec(initContainers=[{"name": "a", "image": "b"}]),
            "spec.containers[0].name",
            'Duplicate value: "a"',
        ),
        (
            spec(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
            "spec.volumes[1].name",
            'Duplicate value: "v"',
        ),
        ({"containers": TWO_PORTS}, "spec.containers[1].ports[0].hostPort", "Duplicate value: 80"),
        (
            {"hostNetwork": True, "containers": TWO_PORTS[:1]},
            "spec.containers[0].ports[0].containerPort",
            "must match `hostPort` when `hostNetwork` is true",
        ),
        (spec(hostname="a.b"), "spec.hostname", "use lower case letters"),
        (spec(nodeName="A"), "spec.nodeName", "use lower case letters"),
        (spec(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "must be between 1 and 2147483647"),
        (spec(hostAliases=[{"ip": "10.9.8"}]), "spec.hostAliases[0].ip", "must be an IP address"),
        (spec(hostAliases=[{"ip": "::1", "hostnames": ["A"]}]), "spec.hostAliases[0].hostnames[0]", "use lower case"),
        (spec(securityContext={"fsGroup": -1}), "spec.securityContext.fsGroup", "must be between 0"),
        (spec(resources={"limits": {"cpu": "-1"}}), "spec.resources.limits[cpu]", "must be greater than or equal to 0"),
        (spec(dnsPolicy="None"), "spec.dnsConfig.nameservers", "must provide at least one DNS nameserver"),
        (spec(shareProcessNamespace=True, hostPID=True), "spec.shareProcessNamespace", "cannot both be enabled"),
        (spec(nodeSelector={"a": "b c"}), "spec.nodeSelector[a]", "a label's value has"),
    ],
)
def test_bad_specs(given: Object, field: str, message: str) -> None:
    (cause,) = validate_pod_spec(given, "spec")
    assert cause.field == field
    assert message in cause.message


def test_a_template_needs_a_spec_and_good_labels() -> None:
    assert validate_pod_template({"spec": spec()}, "t") == []
    assert [c.field for c in validate_pod_template({"metadata": {"labels": {"a": "b c"}}}, "t")] == [
        "t.metadata.labels[a]",
        "t.spec",
    ]


def test_a_pod_without_a_spec() -> None:
    assert validate_pod({}, None) == [
        Cause("spec", "Required value: a Pod needs at least one container", "FieldValueRequired")
    ]


OLD = {
    "spec": {
        "containers": [{"name": "a", "image": "b"}],
        "initContainers": [{"name": "i", "image": "b"}],
        "activeDeadlineSeconds": 100,
        "terminationGracePeriodSeconds": 30,
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "schedulingGates": [{"name": "g"}],
    }
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("containers", 0, "image"), "c"),
        (("initContainers", 0, "image"), "c"),
        (("activeDeadlineSeconds",), 50),
        (("tolerations",), [{"operator": "Exists"}, {"key": "k", "operator": "Exists"}]),
        (("schedulingGates",), []),
        (("nodeSelector",), {"a": "b"}),
        (("hostNetwork",), False),
    ],
)
def test_what_may_change(path: tuple[str | int, ...], value: Any) -> None:
    new = copy_of(OLD)
    target = new["spec"]
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert validate_pod(new, OLD) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"restartPolicy": "Never"}, "spec.restartPolicy"),
        ({"terminationGracePeriodSeconds": 5}, "spec.terminationGracePeriodSeconds"),
        ({"activeDeadlineSeconds": 200}, "spec.activeDeadlineSeconds"),
        ({"activeDeadlineSeconds": None}, "spec.activeDeadlineSeconds"),
        ({"tolerations": []}, "spec.tolerations"),
        ({"schedulingGates": [{"name": "g"}, {"name": "h"}]}, "spec.schedulingGates"),
        ({"containers": [{"name": "a", "image": "b", "command": ["x"]}]}, "spec.containers[0].command"),
        ({"containers": [{"name": "z", "image": "b"}]}, "spec.containers"),
        ({"initContainers": []}, "spec.initContainers"),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, "spec.volumes"),
    ],
)
def test_what_may_not_change_is_named(change: Object, field: str) -> None:
    (cause,) = validate_pod({"spec": {**OLD["spec"], **change}}, OLD)
    assert cause.field == field


def test_a_pod_is_bound_once() -> None:
    free = {"spec": {**OLD["spec"], "schedulingGates": []}}
    bound = {"spec": {**free["spec"], "nodeName": "n1"}}
    assert validate_pod(bound, free) == []
    (cause,) = validate_pod({"spec": {**free["spec"], "nodeName": "n2"}}, bound)
    assert (cause.field, cause.reason) == ("spec.nodeName", "FieldValueForbidden")


def test_where_a_pod_runs_is_fixed_once_it_may_be_placed() -> None:
    ready = {"spec": {**OLD["spec"], "schedulingGates": []}}
    (cause,) = validate_pod({"spec": {**ready["spec"], "nodeSelector": {"a": "b"}}}, ready)
    assert cause.field == "spec.nodeSelector"


def test_a_status_update_looks_at_nothing_else() -> None:
    broken = {"spec": {"containers": "not even a list"}}
    assert validate_pod({**broken, "status": {}}, broken) == []


def test_no_pod_owns_itself() -> None:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}
    pod = {"metadata": {"name": "x", "uid": "u", "ownerReferences": [reference]}, "spec": spec()}
    assert POD.validate is not None
    (cause,) = POD.validate(pod, None)
    assert cause.field == "metadata.ownerReferences[0].uid"
