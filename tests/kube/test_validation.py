from __future__ import annotations

from typing import Any

import pytest

from muster.kube import builtin
from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object

MIB = 1 << 20


def check(kind: Kind, obj: Object, old: Object | None = None) -> list[Cause]:
    assert kind.validate is not None
    return kind.validate(a(kind, obj), None if old is None else a(kind, old))


def a(kind: Kind, obj: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "namespace": "ns"}, **obj}


def service(*ports: Object, **spec: Any) -> Object:
    return {"spec": {"ports": list(ports), **spec}}


def rule(**fields: Any) -> Object:
    return {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], **fields}]}


ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "b"}]}}

GOOD: list[tuple[Kind, Object, Object | None]] = [
    (builtin.NAMESPACE, {}, None),
    (builtin.NODE, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"},
                                         {"key": "a", "effect": "NoExecute"}]}}, None),
    (builtin.POD_TEMPLATE, {"template": TEMPLATE}, None),
    (builtin.SERVICE, service({"port": 80}), None),
    (builtin.SERVICE, service({"port": 80, "name": "a", "targetPort": "web"}, {"port": 81, "name": "b"}), None),
    (builtin.SERVICE, service({"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}), None),
    (builtin.SERVICE, service(clusterIP="None"), None),
    (builtin.SERVICE, service(type="ExternalName", externalName="a.b"), None),
    (builtin.CONFIG_MAP, {"data": {"a.txt": "1"}, "binaryData": {"b": "aGk="}}, None),
    (builtin.CONFIG_MAP, {"data": {"a": "2"}}, {"data": {"a": "1"}}),
    (builtin.CONFIG_MAP, {"data": {"a": "1"}, "immutable": True}, {"data": {"a": "1"}}),
    (builtin.SECRET, {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}, None),
    (builtin.SECRET, {"type": "kubernetes.io/basic-auth", "data": {"password": ""}}, None),
    (builtin.SERVICE_ACCOUNT, {}, None),
    (builtin.EVENT, {"involvedObject": {"namespace": "ns"}}, None),
    (builtin.EVENT, {"involvedObject": {"kind": "Node"}}, None),
    (builtin.ROLE, rule(), None),
    (builtin.CLUSTER_ROLE, {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}, None),
    (builtin.ROLE_BINDING, {"roleRef": ROLE_REF, "subjects": [{"kind": "User", "name": "u"}]}, None),
    (builtin.PRIORITY_CLASS, {"value": 10**9}, None),
    (builtin.PRIORITY_CLASS, {"value": 2 * 10**9, "metadata": {"name": "system-node-critical"}}, None),
    (builtin.STORAGE_CLASS, {"provisioner": "p"}, {"provisioner": "p"}),
    (builtin.LEASE, {"spec": {"leaseDurationSeconds": 15, "leaseTransitions": 0}}, None),
    (builtin.POD_GROUP, {"spec": {"minMember": 2, "minResources": {"cpu": "2"}}}, None),
    (builtin.PLUGIN_POD_GROUP, {"spec": {"minMember": 2}}, None),
    (
        builtin.QUEUE,
        {"spec": {"guarantee": {"resource": {"cpu": "1"}}, "deserved": {"cpu": "2"}, "capability": {"cpu": "2000m"}}},
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "obj", "old"), GOOD)
def test_what_is_accepted(kind: Kind, obj: Object, old: Object | None) -> None:
    assert check(kind, obj, old) == []


TWICE = {"port": 80, "name": "a"}, {"port": 80, "name": "b"}
BAD: list[tuple[Kind, Object, Object | None, str, str]] = [
    (builtin.NODE, {"spec": {"taints": [{"key": "a b", "effect": "NoSchedule"}]}}, None, "spec.taints[0].key", '"a b"'),
    (builtin.NODE, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "value": "b c"}]}}, None,
     "spec.taints[0].value", '"b c"'),
    (builtin.NODE, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}}, None,
     "spec.taints[1]", 'Duplicate value: "a:NoSchedule"'),
    (builtin.POD_TEMPLATE, {}, None, "template", "Required value"),
    (builtin.POD_TEMPLATE, {"template": {"spec": {"containers": []}}}, None,
     "template.spec.containers", "Required value"),
    (builtin.SERVICE, service(), None, "spec.ports", "a Service has at least one port"),
    (builtin.SERVICE, service({"port": 0}), None, "spec.ports[0].port", "must be between 1 and 65535"),
    (builtin.SERVICE, service({"port": 1, "targetPort": 70000}), None, "spec.ports[0].targetPort", "must be between"),
    (builtin.SERVICE, service({"port": 1, "nodePort": 70000}, type="NodePort"), None,
     "spec.ports[0].nodePort", "must be between"),
    (builtin.SERVICE, service({"port": 1, "nodePort": 30000}), None,
     "spec.ports[0].nodePort", "may not be used when `type` is 'ClusterIP'"),
    (builtin.SERVICE, service({"port": 1, "name": "a"}, {"port": 2}), None, "spec.ports[1].name", "Required value"),
    (builtin.SERVICE, service({"port": 1, "name": "a"}, {"port": 2, "name": "a"}), None,
     "spec.ports[1].name", "Duplicate"),
    (builtin.SERVICE, service(*TWICE), None, "spec.ports[1]", 'Duplicate value: {"port":80,"protocol":"TCP"}'),
    (builtin.SERVICE, service({"port": 1}, selector={"a": "b c"}), None, "spec.selector[a]", '"b c"'),
    (builtin.SERVICE, service(type="ExternalName"), None, "spec.externalName", "Required value"),
    (builtin.SERVICE, service({"port": 1}, clusterIP="10.0.0.2"), service({"port": 1}, clusterIP="10.0.0.1"),
     "spec.clusterIP", "field is immutable"),
    (builtin.CONFIG_MAP, {"data": {"a/b": ""}}, None, "data[a/b]", "use at most 253 letters"),
    (builtin.CONFIG_MAP, {"data": {"a": ""}, "binaryData": {"a": ""}}, None,
     "data[a]", "duplicate of key present in binaryData"),
    (builtin.CONFIG_MAP, {"data": {"a": "x" * (MIB + 1)}}, None, "", "Too long: may not be more than 1048576 bytes"),
    (builtin.CONFIG_MAP, {"data": {"a": "2"}, "immutable": True}, {"data": {"a": "1"}, "immutable": True},
     "data", "field is immutable when `immutable` is set"),
    (builtin.CONFIG_MAP, {}, {"immutable": True}, "immutable", "field is immutable when `immutable` is set"),
    (builtin.SECRET, {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, None, "data[tls.key]", "Required value"),
    (builtin.SECRET, {"type": "kubernetes.io/basic-auth"}, None, "data[username]", "a username or a password"),
    (builtin.SECRET, {"type": "a"}, {"type": "b"}, "type", 'Invalid value: "a": field is immutable'),
    (builtin.SECRET, {"data": {"a": "YQ=="}, "immutable": True}, {"data": {}, "immutable": True}, "data", "immutable"),
    (builtin.EVENT, {"involvedObject": {"namespace": "other"}}, None, "involvedObject.namespace", "does not match"),
    (builtin.ROLE, rule(verbs=[]), None, "rules[0].verbs", "verbs must contain at least one value"),
    (builtin.ROLE, rule(apiGroups=[]), None, "rules[0].apiGroups", 'the core group is ""'),
    (builtin.ROLE, rule(resources=[]), None, "rules[0].resources", "at least one resource"),
    (builtin.ROLE, rule(nonResourceURLs=["/x"]), None, "rules[0].nonResourceURLs", "only a ClusterRole"),
    (builtin.ROLE_BINDING, {"roleRef": {**ROLE_REF, "name": ""}}, None, "roleRef.name", "Required value"),
    (builtin.ROLE_BINDING, {"roleRef": ROLE_REF}, {"roleRef": {**ROLE_REF, "name": "q"}},
     "roleRef", "cannot change roleRef"),
    (builtin.CLUSTER_ROLE_BINDING,
     {"roleRef": {**ROLE_REF, "kind": "ClusterRole"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}, None,
     "subjects[0].namespace", "say in which namespace"),
    (builtin.ROLE_BINDING, {"roleRef": ROLE_REF, "subjects": [{"kind": "User", "name": ""}]}, None,
     "subjects[0].name", "Required value"),
    (builtin.CLUSTER_ROLE_BINDING, {"roleRef": ROLE_REF}, None, "roleRef.kind", 'supported values: "ClusterRole"'),
    (builtin.PRIORITY_CLASS, {"value": 10**9 + 1}, None, "value", "maximum allowed value"),
    (builtin.PRIORITY_CLASS, {"value": 1, "metadata": {"name": "system-x"}}, None,
     "metadata.name", "reserved for system"),
    (builtin.PRIORITY_CLASS, {"value": 1}, {"value": 2}, "value", "may not be changed in an update"),
    (builtin.STORAGE_CLASS, {"provisioner": ""}, None, "provisioner", "Required value"),
    (builtin.STORAGE_CLASS, {"provisioner": "p", "parameters": {"a": "b"}}, {"provisioner": "p"},
     "parameters", "updates to parameters are forbidden"),
    (builtin.LEASE, {"spec": {"leaseDurationSeconds": 0}}, None,
     "spec.leaseDurationSeconds", "greater than or equal to 1"),
    (builtin.POD_GROUP, {"spec": {"minResources": {"cpu": "-1"}}}, None,
     "spec.minResources[cpu]", "greater than or equal to 0"),
    (builtin.POD_GROUP, {"spec": {"minTaskMember": {"worker": -1}}}, None,
     "spec.minTaskMember[worker]", "greater than"),
    (builtin.QUEUE, {"spec": {"deserved": {"cpu": "3"}, "capability": {"cpu": "2"}}}, None,
     "spec.deserved[cpu]", "must be at most spec.capability[cpu], which is 2"),
    (builtin.QUEUE, {"spec": {"capability": {"cpu": "-1"}}}, None,
     "spec.capability[cpu]", "greater than or equal to 0"),
    (builtin.QUEUE, {"spec": {"parent": "x"}}, None, "spec.parent", "a queue cannot be its own parent"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "obj", "old", "field", "message"), BAD)
def test_what_is_refused(kind: Kind, obj: Object, old: Object | None, field: str, message: str) -> None:
    (cause,) = check(kind, obj, old)
    assert cause.field == field
    assert message in cause.message


def test_a_service_account_in_a_role_binding_is_of_the_same_namespace_by_default() -> None:
    binding = {"roleRef": ROLE_REF, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}
    assert builtin.ROLE_BINDING.validate is not None
    assert not list(builtin.ROLE_BINDING.validate(a(builtin.ROLE_BINDING, binding), None))


@pytest.mark.parametrize("kind", builtin.builtin_kinds(), ids=lambda kind: kind.kind)
def test_no_object_of_any_kind_owns_itself(kind: Kind) -> None:
    reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "x", "uid": "u"}
    names = {"plural": "ts", "kind": "T"}
    body: dict[str, Object] = {
        "Pod": {"spec": TEMPLATE["spec"]},
        "RoleBinding": {"roleRef": ROLE_REF},
        "ClusterRoleBinding": {"roleRef": ROLE_REF},
        "PriorityClass": {"value": 1},
        "StorageClass": {"provisioner": "p"},
        "CustomResourceDefinition": {"spec": {"group": "g.h", "names": names, "scope": "Cluster", "versions": []}},
        "Job": {"spec": {"template": TEMPLATE}},
    }
    obj = {**a(kind, body.get(kind.kind, {})), "metadata": {"name": "x", "uid": "u", "ownerReferences": [reference]}}
    assert kind.validate is not None
    assert "metadata.ownerReferences[0].uid" in [cause.field for cause in kind.validate(obj, None)]
    obj["metadata"]["ownerReferences"][0]["uid"] = "other"
    assert "metadata.ownerReferences[0].uid" not in [cause.field for cause in kind.validate(obj, None)]
