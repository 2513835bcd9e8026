"""What a Pod of a user without admin rights may contain, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.pod_security import PodGrants
from muster.platform.messages import CATALOG
from muster.platform.pod_policy import find_forbidden, find_forbidden_metadata

ALLOWED = PodGrants(
    only_listed=True,
    paths={"/nfs/data": False, "/nfs/models": True},
    claims={"scratch": False, "datasets": True},
    secrets=frozenset({"registry"}),
    config_maps=frozenset({"settings"}),
)


def spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "x"}], **more}


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "x", **more}]}


def volume(source: dict[str, Any], **mount: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return {**container(volumeMounts=mounts), "volumes": [{"name": "v", **source}]}


HARMLESS = [
    spec(),
    spec(hostNetwork=False, serviceAccountName="default", nodeSelector={"gpu": "yes"}, priorityClassName="high"),
    spec(securityContext={"runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}}),
    spec(imagePullSecrets=[{"name": "registry"}]),
    container(securityContext={"privileged": False, "capabilities": {"drop": ["ALL"]}, "procMount": "Default"}),
    container(env=[{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}]),
    container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "registry", "key": "k"}}}]),
    container(envFrom=[{"configMapRef": {"name": "settings"}}]),
    container(ports=[{"containerPort": 8080}], livenessProbe={"httpGet": {"path": "/", "port": 80}}),
    volume({"emptyDir": {}}),
    volume({"downwardAPI": {"items": []}}),
    volume({"hostPath": {"path": "/nfs/data"}}, subPath="mine"),
    volume({"hostPath": {"path": "/nfs/models", "type": "Directory"}}, readOnly=True),
    volume({"persistentVolumeClaim": {"claimName": "scratch"}}),
    volume({"persistentVolumeClaim": {"claimName": "datasets", "readOnly": True}}),
    volume({"secret": {"secretName": "registry"}}),
    volume({"projected": {"sources": [{"downwardAPI": {}}, {"configMap": {"name": "settings"}}]}}),
]

FORBIDDEN: list[tuple[dict[str, Any], str, str]] = [
    (spec(hostNetwork=True), "hostNetwork", "confined.host"),
    (spec(hostPID=True), "hostPID", "confined.host"),
    (spec(hostIPC=True), "hostIPC", "confined.host"),
    (spec(serviceAccountName="deployer"), "serviceAccountName", "confined.account"),
    (spec(serviceAccount="deployer"), "serviceAccount", "confined.account"),
    (spec(serviceAccountName="{{inputs.parameters.who}}"), "serviceAccountName", "confined.account"),
    (spec(nodeName="node-1"), "nodeName", "confined.node"),
    (spec(priorityClassName="system-node-critical"), "priorityClassName", "confined.priority"),
    (spec(runtimeClassName="host"), "runtimeClassName", "confined.setting"),
    (spec(imagePullSecrets=[{"name": "theirs"}]), "imagePullSecrets[0].name", "confined.secret"),
    (spec(securityContext={"sysctls": [{"name": "a", "value": "b"}]}), "securityContext.sysctls", "confined.setting"),
    (
        spec(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        "securityContext.seccompProfile.type",
        "confined.setting",
    ),
    (
        container(securityContext={"privileged": True}),
        "containers[0].securityContext.privileged",
        "confined.privileged",
    ),
    (
        {"initContainers": [{"name": "i", "securityContext": {"privileged": True}}]},
        "initContainers[0].securityContext.privileged",
        "confined.privileged",
    ),
    (
        {"ephemeralContainers": [{"name": "i", "securityContext": {"privileged": True}}]},
        "ephemeralContainers[0].securityContext.privileged",
        "confined.privileged",
    ),
    (
        container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "containers[0].securityContext.capabilities.add",
        "confined.capabilities",
    ),
    (
        container(securityContext={"procMount": "Unmasked"}),
        "containers[0].securityContext.procMount",
        "confined.setting",
    ),
    (
        container(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
        "containers[0].securityContext.appArmorProfile.type",
        "confined.setting",
    ),
    (
        container(securityContext={"windowsOptions": {"hostProcess": True}}),
        "containers[0].securityContext.windowsOptions",
        "confined.setting",
    ),
    (container(ports=[{"containerPort": 1, "hostPort": 1}]), "containers[0].ports[0].hostPort", "confined.port"),
    (
        container(env=[{"name": "A"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "run-1", "key": "k"}}}]),
        "containers[0].env[1].valueFrom.secretKeyRef.name",
        "confined.secret",
    ),
    (
        container(env=[{"name": "B", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k", "optional": True}}}]),
        "containers[0].env[0].valueFrom.secretKeyRef.name",
        "confined.secret",
    ),
    (
        container(env=[{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]),
        "containers[0].env[0].valueFrom.configMapKeyRef.name",
        "confined.config map",
    ),
    (
        container(envFrom=[{"secretRef": {"name": "run-1"}}]),
        "containers[0].envFrom[0].secretRef.name",
        "confined.secret",
    ),
    (
        container(envFrom=[{"configMapRef": {"name": "x"}}]),
        "containers[0].envFrom[0].configMapRef.name",
        "confined.config map",
    ),
    (
        container(readinessProbe={"httpGet": {"host": "127.0.0.1", "port": 80}}),
        "containers[0].readinessProbe.httpGet.host",
        "confined.probe",
    ),
    (
        container(lifecycle={"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}),
        "containers[0].lifecycle.preStop.httpGet.host",
        "confined.probe",
    ),
    (volume({"hostPath": {"path": "/"}}), "volumes[0].hostPath.path", "confined.path"),
    (volume({"hostPath": {"path": "/nfs/data/../../etc"}}), "volumes[0].hostPath.path", "confined.path"),
    # A directory in it may be a link to anywhere; subPath does not follow links.
    (volume({"hostPath": {"path": "/nfs/data/mine"}}), "volumes[0].hostPath.path", "confined.path"),
    (volume({"hostPath": {"path": "/nfs/models"}}), "containers[0].volumeMounts[0]", "confined.read only"),
    (
        volume({"persistentVolumeClaim": {"claimName": "datasets"}}),
        "containers[0].volumeMounts[0]",
        "confined.read only",
    ),
    (
        volume({"persistentVolumeClaim": {"claimName": "theirs"}}),
        "volumes[0].persistentVolumeClaim.claimName",
        "confined.claim",
    ),
    (volume({"secret": {"secretName": "run-1"}}), "volumes[0].secret.secretName", "confined.secret"),
    (volume({"configMap": {"name": "theirs"}}), "volumes[0].configMap.name", "confined.config map"),
    (
        volume({"projected": {"sources": [{"secret": {"name": "run-1"}}]}}),
        "volumes[0].projected.sources[0].secret.name",
        "confined.secret",
    ),
    (
        volume({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
        "volumes[0].projected.sources[0].serviceAccountToken",
        "confined.token",
    ),
    (volume({"nfs": {"server": "10.0.0.1", "path": "/"}}), "volumes[0].nfs", "confined.volume"),
    (volume({"csi": {"driver": "x"}}), "volumes[0].csi", "confined.volume"),
    (
        volume({"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeName": "theirs"}}}}),
        "volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName",
        "confined.volume name",
    ),
    (container(newField=True), "containers[0].newField", "confined.unknown"),
    (volume({"emptyDir": {}}, mountPath="/proc"), "containers[0].volumeMounts[0].mountPath", "confined.mount path"),
    (volume({"emptyDir": {}}, subPath="../x"), "containers[0].volumeMounts[0].subPath", "confined.sub path"),
    (
        container(terminationMessagePath="/proc/1/environ"),
        "containers[0].terminationMessagePath",
        "confined.value",
    ),
    (
        spec(affinity={"podAffinity": {"x": [{"namespaces": ["theirs"]}]}}),
        "affinity.podAffinity.x[0].namespaces",
        "confined.namespaces",
    ),
    (
        volume({"emptyDir": {}}, mountPropagation="Bidirectional"),
        "containers[0].volumeMounts[0].mountPropagation",
        "confined.setting",
    ),
]


@pytest.mark.parametrize("pod", HARMLESS)
def test_fields_that_stay_in_the_pod_are_allowed(pod: dict[str, Any]) -> None:
    assert find_forbidden(pod, "spec", ALLOWED) == []


@pytest.mark.parametrize(("pod", "path", "code"), FORBIDDEN)
def test_fields_that_reach_further_are_refused_by_path(pod: dict[str, Any], path: str, code: str) -> None:
    assert [(error.field, error.code) for error in find_forbidden(pod, "spec", ALLOWED)] == [(f"spec.{path}", code)]


def test_errors_say_what_to_write_instead() -> None:
    (error,) = find_forbidden(volume({"hostPath": {"path": "/etc"}}), "spec", ALLOWED)
    assert "/nfs/data, /nfs/models" in error.message
    (error,) = find_forbidden(volume({"hostPath": {"path": "/etc"}}), "spec", PodGrants(only_listed=True))
    assert error.message == '"/etc" is not a storage root that you may use; ask an admin to add it'


@pytest.mark.parametrize("nonsense", [None, "text", [], {"containers": "x", "volumes": [1, None]}, {"volumes": {}}])
def test_invalid_pods_are_left_to_validation(nonsense: Any) -> None:
    assert find_forbidden(nonsense, "spec", ALLOWED) == []


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"labels": {"muster.dev/owner": "ann"}}, "metadata.labels[muster.dev/owner]"),
        ({"labels": {"muster.dev/run": "1"}}, "metadata.labels[muster.dev/run]"),
        ({"labels": {"muster.dev/else": "1"}}, "metadata.labels[muster.dev/else]"),
        ({"annotations": {"muster.dev/runtime": "sandbox"}}, "metadata.annotations[muster.dev/runtime]"),
        ({"ownerReferences": [{"name": "run-1"}]}, "metadata.ownerReferences"),
        ({"finalizers": ["x"]}, "metadata.finalizers"),
        (
            {"annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}},
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/main]",
        ),
    ],
)
def test_authors_cannot_set_the_owner(metadata: dict[str, Any], path: str) -> None:
    assert [error.field for error in find_forbidden_metadata(metadata, "metadata")] == [path]


def test_other_labels_are_allowed() -> None:
    own = {"a": "b", "muster.dev/restart-scope": "gang", "muster.dev/metrics-pattern": "loss (?P<loss>.*)"}
    free = {"name": "x", "labels": {"app": "x"}, "annotations": own}
    assert find_forbidden_metadata(free, "metadata") == []


def test_every_message_has_a_case() -> None:
    told = {code for _, _, code in FORBIDDEN}
    told |= {f"confined.{name}" for name in ("no path", "label", "owner", "annotation")}
    of_workflows = {"queue", "repository", "resource", "store", "repo", "output path", "run secret", "service"}
    policy = {code for code in CATALOG if code.startswith("confined.")}
    assert told == policy - {f"confined.{name}" for name in of_workflows}
