from __future__ import annotations

import json
from typing import Any

import pytest

from muster.kube.defaults import (
    API_ACCESS,
    API_ACCESS_FOLDER,
    API_ACCESS_VOLUME,
    add_api_access,
    default_pod,
    default_pod_spec,
    default_pod_template,
    plain_resources,
    pull_policy,
    remove_api_access,
)
from muster.kube.objects import Object, copy_of

CONTAINER = {
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
}


def container(**fields: Any) -> Object:
    return {"name": "a", "image": "b:1", **fields}


POD_ONLY = {"enableServiceLinks": True, "serviceAccountName": "default", "serviceAccount": "default"}


def test_a_bare_pod_becomes_a_whole_one() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container()]}}
    before = copy_of(pod)
    filled = default_pod(pod)
    assert filled == {
        **pod,
        "spec": {**SPEC, **POD_ONLY, "containers": [{**container(), **CONTAINER}]},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }
    assert pod == before
    assert default_pod(filled) is filled


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"restartPolicy": "Never"}, {"restartPolicy": "Never"}),
        ({"restartPolicy": ""}, {"restartPolicy": "Always"}),
        ({"terminationGracePeriodSeconds": 0}, {"terminationGracePeriodSeconds": 0}),
        ({"terminationGracePeriodSeconds": -5}, {"terminationGracePeriodSeconds": 1}),
        ({"securityContext": {"runAsUser": 1}}, {"securityContext": {"runAsUser": 1}}),
        ({"serviceAccountName": "me"}, {"serviceAccountName": "me", "serviceAccount": "me"}),
        ({"serviceAccount": "me"}, {"serviceAccountName": "me", "serviceAccount": "me"}),
        ({"overhead": {"cpu": 0.25}}, {"overhead": {"cpu": "250m"}}),
        ({"resources": {"limits": {"cpu": 2}}}, {"resources": {"limits": {"cpu": "2"}}}),
    ],
)
def test_the_spec(given: Object, filled: Object) -> None:
    assert default_pod_spec(given) == {**SPEC, **filled}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("host:5000/team/app", "Always"),
        ("host:5000/team/app:2", "IfNotPresent"),
        ("app@sha256:" + "0" * 64, "IfNotPresent"),
        ("app:latest@sha256:" + "0" * 64, "Always"),
        ("", "Always"),
    ],
)
def test_only_latest_is_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"imagePullPolicy": "Never"}, {"imagePullPolicy": "Never"}),
        ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B"}]},
            {
                "env": [
                    {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                    {"name": "B"},
                ]
            },
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}}]},
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5}},
            {
                "livenessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 5,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
        ),
        (
            {"lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/bye"}}}},
            {"lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/bye", "scheme": "HTTP"}}}},
        ),
        (
            {"resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": "0.5"}}},
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}},
        ),
    ],
)
def test_a_container(given: Object, filled: Object) -> None:
    spec = default_pod_spec({"containers": [container(**given)], "initContainers": [container(**given)]})
    assert spec["containers"] == spec["initContainers"] == [container(**{**CONTAINER, **filled})]


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {"medium": "Memory"}}, {"emptyDir": {"medium": "Memory"}}),
        ({"emptyDir": {"sizeLimit": 1024}}, {"emptyDir": {"sizeLimit": "1024"}}),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}}
                }
            },
        ),
        ({"configMap": {"name": "c"}}, {"configMap": {"name": "c", "defaultMode": 420}}),
        ({"configMap": {"name": "c", "defaultMode": 0}}, {"configMap": {"name": "c", "defaultMode": 0}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"hostPath": {"path": "/data"}}, {"hostPath": {"path": "/data", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
        ({"image": {"reference": "r:1"}}, {"image": {"reference": "r:1", "pullPolicy": "IfNotPresent"}}),
    ],
)
def test_a_volume(given: Object, filled: Object) -> None:
    assert default_pod_spec({"volumes": [{"name": "v", **given}]})["volumes"] == [{"name": "v", **filled}]


def test_a_limit_is_a_request_in_a_pod_but_not_in_a_template() -> None:
    limited = container(resources={"limits": {"cpu": "1", "nvidia.com/gpu": 2}, "requests": {"cpu": "100m"}})
    spec = {"containers": [limited], "initContainers": [limited]}
    pod = default_pod({"spec": spec})["spec"]
    wanted = {"cpu": "100m", "nvidia.com/gpu": "2"}
    assert [c["resources"]["requests"] for c in pod["containers"] + pod["initContainers"]] == [wanted, wanted]
    template = default_pod_template({"spec": spec})["spec"]
    assert template["containers"][0]["resources"]["requests"] == {"cpu": "100m"}
    assert "enableServiceLinks" not in template


def test_on_the_hosts_network_ports_are_the_hosts() -> None:
    spec = {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}
    ports = default_pod({"spec": spec})["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


def test_a_status_is_kept() -> None:
    pod = {"spec": {"containers": [container()]}, "status": {"phase": "Running", "podIP": "127.0.0.2"}}
    assert default_pod(pod)["status"] is pod["status"]


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"cpu": 0.5, "memory": "1000Ki", "x.y/z": 3}, {"cpu": "500m", "memory": "1000Ki", "x.y/z": "3"}),
        ({"cpu": "bad", "memory": True}, {"cpu": "bad", "memory": True}),
        (None, None),
    ],
)
def test_quantities_are_written_in_one_way(given: Any, plain: Any) -> None:
    assert plain_resources(given) == plain


MOUNT = {"name": API_ACCESS_VOLUME, "readOnly": True, "mountPath": API_ACCESS_FOLDER}
OWN = {"name": "mine", "mountPath": API_ACCESS_FOLDER}


@pytest.mark.parametrize(
    ("spec", "mounts", "volumes"),
    [
        ({"containers": [{}]}, [[MOUNT]], [API_ACCESS]),
        ({"containers": [{}, {"volumeMounts": [OWN]}]}, [[MOUNT], [OWN]], [API_ACCESS]),
        ({"containers": [{"volumeMounts": [OWN]}], "volumes": [{"name": "mine"}]}, [[OWN]], [{"name": "mine"}]),
        ({"containers": [{}], "automountServiceAccountToken": False}, [None], None),
        ({"containers": [{}], "volumes": [{"name": API_ACCESS_VOLUME}]}, [None], [{"name": API_ACCESS_VOLUME}]),
    ],
)
def test_containers_mount_the_token_of_their_service_account(
    spec: Object, mounts: list[Any], volumes: list[Object] | None
) -> None:
    filled = add_api_access(spec)
    assert [container.get("volumeMounts") for container in filled["containers"]] == mounts
    assert filled.get("volumes") == volumes
    if volumes and API_ACCESS in volumes:
        copied = json.loads(json.dumps(filled))
        assert add_api_access(remove_api_access(copied)) == filled, "a Pod can be created from a copy of another one"
