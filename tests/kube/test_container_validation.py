from __future__ import annotations

from typing import Any

import pytest

from muster.kube.container_validation import validate_container
from muster.kube.errors import Cause
from muster.kube.objects import Object


def check(fields: Object, *, is_init: bool = False) -> list[Cause]:
    container = {"name": "a", "image": "b", **fields}
    return list(validate_container(container, "c", {"data", "config"}, is_init=is_init))


def field_ref(path: str) -> Object:
    return {"fieldRef": {"fieldPath": path}}


def env(source: Object, **more: Any) -> Object:
    return {"env": [{"name": "A", "valueFrom": source, **more}]}


def mount(**fields: Any) -> Object:
    return {"volumeMounts": [{"name": "data", "mountPath": "/data", **fields}]}


GOOD: list[Object] = [
    {},
    {"ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP", "hostPort": 8080}]},
    {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "my.var-x"}]},
    env(field_ref("metadata.name")),
    env(field_ref("metadata.labels['app']")),
    env(field_ref("status.podIPs")),
    env({"resourceFieldRef": {"resource": "limits.cpu"}}, value=""),
    env({"secretKeyRef": {"name": "s", "key": "k"}}),
    {"envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}, {"secretRef": {"name": "s"}}]},
    mount(subPath="a/b", readOnly=True),
    mount(subPath="..a/b.."),
    {"volumeMounts": [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]},
    {
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"},
            "requests": {"nvidia.com/gpu": "2"},
        }
    },
    {"resources": {"requests": {"cpu": "1000m"}, "limits": {"cpu": "1"}}},
    {"resources": {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}, "requests": {"hugepages-2Mi": "4Mi"}}},
    {"livenessProbe": {"exec": {"command": ["true"]}}, "readinessProbe": {"tcpSocket": {"port": "http"}}},
    {"startupProbe": {"httpGet": {"port": 80, "path": "/"}, "failureThreshold": 30}},
    {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}, "postStart": {"exec": {"command": ["x"]}}}},
    {"securityContext": {"runAsUser": 0, "privileged": True}},
]


@pytest.mark.parametrize("fields", GOOD)
def test_good_containers(fields: Object) -> None:
    assert check(fields) == []


BAD: list[tuple[Object, str, str]] = [
    ({"name": ""}, "c.name", "Required value"),
    ({"name": "My_Container"}, "c.name", "Invalid value: \"My_Container\": use lower case letters, digits and '-'"),
    ({"image": ""}, "c.image", "Required value: say which image the container runs"),
    ({"image": None}, "c.image", "Required value"),
    ({"image": " b"}, "c.image", 'Invalid value: " b": must not have spaces at either end'),
    ({"ports": [{"containerPort": 0}]}, "c.ports[0].containerPort", "Invalid value: 0: must be between 1 and 65535"),
    (
        {"ports": [{"containerPort": 1, "hostPort": 70000}]},
        "c.ports[0].hostPort",
        "Invalid value: 70000: must be between",
    ),
    (
        {"ports": [{"containerPort": 1, "name": "Web Port"}]},
        "c.ports[0].name",
        'Invalid value: "Web Port": use at most 15',
    ),
    (
        {"ports": [{"containerPort": 1, "name": "w"}, {"containerPort": 2, "name": "w"}]},
        "c.ports[1].name",
        'Duplicate value: "w"',
    ),
    ({"env": [{"name": ""}]}, "c.env[0].name", "Required value"),
    ({"env": [{"name": "A=B"}]}, "c.env[0].name", 'Invalid value: "A=B": use printable ASCII'),
    (
        env(field_ref("metadata.name"), value="x"),
        "c.env[0].valueFrom",
        "may not be specified when `value` is not empty",
    ),
    (env({}), "c.env[0].valueFrom", "must have exactly one of fieldRef, resourceFieldRef"),
    (
        env({"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}),
        "c.env[0].valueFrom",
        "must have exactly one of",
    ),
    (
        env(field_ref("metadata.nam")),
        "c.env[0].valueFrom.fieldRef.fieldPath",
        'Unsupported value: "metadata.nam": supported values: "metadata.name"',
    ),
    (
        env({"resourceFieldRef": {"resource": "cpu"}}),
        "c.env[0].valueFrom.resourceFieldRef.resource",
        'Unsupported value: "cpu": supported values: "limits.cpu"',
    ),
    (env({"configMapKeyRef": {"key": "k"}}), "c.env[0].valueFrom.configMapKeyRef.name", "Required value"),
    (env({"secretKeyRef": {"name": "s", "key": ""}}), "c.env[0].valueFrom.secretKeyRef.key", "Required value"),
    (
        env({"configMapKeyRef": {"name": "c", "key": "a/b"}}),
        "c.env[0].valueFrom.configMapKeyRef.key",
        "use at most 253 letters",
    ),
    (
        env(field_ref("metadata.labels['a b']")),
        "c.env[0].valueFrom.fieldRef.fieldPath",
        'Invalid value: "a b": a name has at most 63',
    ),
    ({"envFrom": [{}]}, "c.envFrom[0]", "must have exactly one of configMapRef, secretRef"),
    ({"envFrom": [{"secretRef": {}}]}, "c.envFrom[0].secretRef.name", "Required value"),
    ({"envFrom": [{"secretRef": {"name": "s"}, "prefix": "a="}]}, "c.envFrom[0].prefix", "use printable ASCII"),
    (mount(name="dta"), "c.volumeMounts[0].name", 'Not found: "dta"; did you mean "data"?'),
    (mount(name="x"), "c.volumeMounts[0].name", 'Not found: "x"; the volumes of the Pod are "config", "data"'),
    (mount(name=""), "c.volumeMounts[0].name", "Required value"),
    (mount(mountPath=""), "c.volumeMounts[0].mountPath", "Required value"),
    (
        {"volumeMounts": [{"name": "data", "mountPath": "/a"}, {"name": "config", "mountPath": "/a"}]},
        "c.volumeMounts[1].mountPath",
        'Invalid value: "/a": must be unique',
    ),
    (mount(subPath="/etc"), "c.volumeMounts[0].subPath", "must be a relative path"),
    (mount(subPath="a/../../etc"), "c.volumeMounts[0].subPath", "must not contain '..'"),
    (mount(subPathExpr="../$(A)"), "c.volumeMounts[0].subPathExpr", "must not contain '..'"),
    (mount(subPath="a", subPathExpr="b"), "c.volumeMounts[0].subPathExpr", "mutually exclusive"),
    ({"volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]}, "c.volumeDevices[0].name", 'Not found: "x"'),
    (
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}},
        "c.resources.requests[cpu]",
        'Invalid value: "2": must be less than or equal to cpu limit of 1500m',
    ),
    (
        {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
        "c.resources.limits[nvidia.com/gpu]",
        "Required value: nvidia.com/gpu cannot be overcommitted",
    ),
    (
        {"resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}},
        "c.resources.requests[nvidia.com/gpu]",
        'Invalid value: "1": must be equal to the nvidia.com/gpu limit of 2',
    ),
    (
        {"resources": {"limits": {"nvidia.com/gpu": "0.5"}}},
        "c.resources.limits[nvidia.com/gpu]",
        'Invalid value: "0.5": must be an integer',
    ),
    (
        {"resources": {"limits": {"gpu": "1"}}},
        "c.resources.limits[gpu]",
        "or a name with a domain, such as nvidia.com/gpu",
    ),
    ({"resources": {"limits": {"a b": "1"}}}, "c.resources.limits[a b]", "must be a resource's name"),
    ({"resources": {"limits": {"cpu": "-1"}}}, "c.resources.limits[cpu]", "must be greater than or equal to 0"),
    ({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}, "c.resources", "Forbidden: HugePages require cpu or memory"),
    (
        {"resources": {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}},
        "c.resources.limits[hugepages-2Mi]",
        "must be a multiple of the page size, 2Mi",
    ),
    ({"livenessProbe": {}}, "c.livenessProbe", "Required value: must specify a handler type"),
    (
        {"livenessProbe": {"exec": {"command": ["x"]}, "httpGet": {"port": 1}}},
        "c.livenessProbe.httpGet",
        "Forbidden: may not specify more than 1 handler type",
    ),
    ({"livenessProbe": {"exec": {"command": []}}}, "c.livenessProbe.exec.command", "Required value"),
    ({"livenessProbe": {"httpGet": {"port": 0}}}, "c.livenessProbe.httpGet.port", "must be between 1 and 65535"),
    (
        {"livenessProbe": {"httpGet": {"port": "80"}}},
        "c.livenessProbe.httpGet.port",
        "a port is a number or a port's name",
    ),
    (
        {"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": -1}},
        "c.livenessProbe.periodSeconds",
        "Invalid value: -1: must be greater than or equal to 1",
    ),
    (
        {"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}},
        "c.livenessProbe.successThreshold",
        "Invalid value: 2: must be 1",
    ),
    (
        {"readinessProbe": {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}},
        "c.readinessProbe.terminationGracePeriodSeconds",
        "must not be set for readinessProbes",
    ),
    ({"lifecycle": {"preStop": {}}}, "c.lifecycle.preStop", "must specify a handler type"),
    (
        {"lifecycle": {"preStop": {"sleep": {"seconds": -1}}}},
        "c.lifecycle.preStop.sleep.seconds",
        "must be greater than",
    ),
    ({"securityContext": {"runAsUser": -1}}, "c.securityContext.runAsUser", "must be between 0 and 2147483647"),
    (
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
        "c.securityContext",
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
    ),
]


@pytest.mark.parametrize(("fields", "field", "message"), BAD)
def test_bad_containers(fields: Object, field: str, message: str) -> None:
    (cause,) = check(fields)
    assert cause.field == field
    assert message in cause.message


def test_an_init_container_has_probes_only_as_a_sidecar() -> None:
    probed = {"livenessProbe": {"tcpSocket": {"port": 1}}, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    assert [cause.field for cause in check(probed, is_init=True)] == ["c.livenessProbe", "c.lifecycle"]
    assert check({**probed, "restartPolicy": "Always"}, is_init=True) == []
