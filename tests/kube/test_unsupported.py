from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.kube.unsupported import unsupported


def spec(**fields: Any) -> Object:
    return {"containers": [{"name": "a", "image": "b"}], **fields}


def container(**fields: Any) -> Object:
    return {"containers": [{"name": "a", "image": "b", **fields}]}


@pytest.mark.parametrize(
    "given",
    [
        spec(),
        spec(hostIPC=False, hostUsers=True, os={"name": "linux"}, securityContext={"runAsUser": 1, "fsGroup": 2}),
        spec(
            volumes=[{"name": "v", kind: {}} for kind in ("emptyDir", "hostPath", "configMap", "secret", "downwardAPI")]
        ),
        spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "p", "projected": {}}]),
        spec(initContainers=[{"name": "s", "restartPolicy": "Always"}]),
        container(volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": "None"}]),
        container(securityContext={"runAsUser": 1, "procMount": "Default", "seccompProfile": {"type": "Unconfined"}}),
    ],
)
def test_what_works_is_not_mentioned(given: Object) -> None:
    assert unsupported(given) == []


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (spec(runtimeClassName="gvisor"), "spec.runtimeClassName"),
        (spec(hostPID=True), "spec.hostPID"),
        (spec(hostUsers=False), "spec.hostUsers"),
        (spec(ephemeralContainers=[{"name": "d"}]), "spec.ephemeralContainers"),
        (spec(os={"name": "windows"}), "spec.os"),
        (spec(resourceClaims=[{"name": "g"}]), "spec.resourceClaims"),
        (spec(securityContext={"seLinuxOptions": {"level": "s0"}}), "spec.securityContext.seLinuxOptions"),
        (spec(securityContext={"sysctls": [{"name": "a", "value": "b"}]}), "spec.securityContext.sysctls"),
        (spec(volumes=[{"name": "v", "nfs": {}}]), "spec.volumes[0].nfs"),
        (spec(volumes=[{"name": "v", "csi": {}}]), "spec.volumes[0].csi"),
        (spec(volumes=[{"name": "v", "emptyDir": {"medium": "HugePages"}}]), "spec.volumes[0].emptyDir.medium"),
        (
            spec(volumes=[{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"path": "p"}}]}}]),
            "spec.volumes[0].projected.sources[0].clusterTrustBundle",
        ),
        (container(tty=True), "spec.containers[0].tty"),
        (container(restartPolicy="Always"), "spec.containers[0].restartPolicy"),
        (container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}]), "spec.containers[0].volumeDevices"),
        (container(securityContext={"privileged": True}), "spec.containers[0].securityContext.privileged"),
        (
            container(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}),
            "spec.containers[0].securityContext.appArmorProfile",
        ),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]),
            "spec.containers[0].volumeMounts[0].mountPropagation",
        ),
        (container(resources={"claims": [{"name": "g"}]}), "spec.containers[0].resources.claims"),
        (
            container(resources={"limits": {"ephemeral-storage": "1Gi"}}),
            "spec.containers[0].resources.limits[ephemeral-storage]",
        ),
        (
            container(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"path": "p"}}}]),
            "spec.containers[0].env[0].valueFrom.fileKeyRef",
        ),
    ],
)
def test_what_has_no_effect_is_named(given: Object, field: str) -> None:
    (cause,) = unsupported(given)
    assert (cause.field, cause.reason) == (field, "FieldValueNotSupported")
    assert cause.message.startswith("has no effect here: ")


def test_paths_begin_where_the_caller_says() -> None:
    assert unsupported(spec(hostIPC=True), "spec.template.spec")[0].field == "spec.template.spec.hostIPC"
