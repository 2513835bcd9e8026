from __future__ import annotations

from typing import Any

import pytest

from muster.embedded.node.pod_context import MountError, PodContext
from muster.embedded.node.volumes import (
    SERVICE_ACCOUNT_VOLUME,
    EmptyDir,
    Files,
    HostPath,
    Memory,
    lacks_service_account,
    plan_volumes,
    references_of,
    token_seconds,
)
from muster.embedded.settings import ApiAccess
from muster.kube.errors import NotFound
from muster.kube.objects import Object


def pod(*volumes: dict[str, Any], **spec: Any) -> Object:
    return {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": {"volumes": list(volumes), **spec}}


CLAIMS: dict[str, Object] = {
    "data": {"spec": {"volumeName": "pv-1"}},
    "local": {"spec": {"volumeName": "pv-local"}},
    "shared": {"spec": {"volumeName": "pv-nfs"}},
    "cloud": {"spec": {"volumeName": "pv-csi"}},
    "unbound": {"spec": {}},
    "p-scratch": {"spec": {"volumeName": "pv-1"}},
}
VOLUMES: dict[str, Object] = {
    "pv-1": {"spec": {"hostPath": {"path": "/data/1", "type": "DirectoryOrCreate"}}},
    "pv-local": {"spec": {"local": {"path": "/data/2"}, "accessModes": ["ReadOnlyMany"]}},
    "pv-nfs": {"spec": {"nfs": {"server": "nas", "path": "/x", "readOnly": True}}},
    "pv-csi": {"spec": {"csi": {"driver": "d"}}},
}
AROUND = PodContext(
    claim=lambda ns, name: CLAIMS.get(name) if ns == "team" else None,
    persistent_volume=lambda _ns, name: VOLUMES.get(name),
)
NFS = {"nas:/x": "/mnt/nas"}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"emptyDir": {}}, EmptyDir("/f/volumes/v")),
        ({"emptyDir": None}, EmptyDir("/f/volumes/v")),
        ({}, EmptyDir("/f/volumes/v")),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, EmptyDir("/f/volumes/v")),
        ({"emptyDir": {"medium": "Memory"}}, Memory("/f/volumes/v", None)),
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}, Memory("/f/volumes/v", 1048576)),
        ({"hostPath": {"path": "/srv", "type": "Directory"}}, HostPath("/srv", "Directory")),
        ({"persistentVolumeClaim": {"claimName": "data"}}, HostPath("/data/1", "DirectoryOrCreate")),
        (
            {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            HostPath("/data/1", "DirectoryOrCreate", True),
        ),
        ({"persistentVolumeClaim": {"claimName": "local"}}, HostPath("/data/2", "", True)),
        ({"persistentVolumeClaim": {"claimName": "shared"}}, HostPath("/mnt/nas", "Directory", True)),
        ({"nfs": {"server": "nas", "path": "/x"}}, HostPath("/mnt/nas", "Directory")),
    ],
)
def test_plan(volume: dict[str, Any], expected: Any) -> None:
    assert plan_volumes(pod({"name": "v", **volume}), AROUND, "/f", NFS) == {"v": expected}


def test_an_ephemeral_volume_is_a_claim_named_after_the_pod() -> None:
    planned = plan_volumes(pod({"name": "scratch", "ephemeral": {}}), AROUND, "/f", NFS)
    assert planned == {"scratch": HostPath("/data/1", "DirectoryOrCreate")}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"persistentVolumeClaim": {"claimName": "nope"}}, 'persistentvolumeclaim "nope" not found'),
        ({"persistentVolumeClaim": {"claimName": "unbound"}}, 'persistentvolumeclaim "unbound" is not bound'),
        ({"persistentVolumeClaim": {"claimName": "cloud"}}, 'persistentvolume "pv-csi" has no hostPath, local or nfs'),
        ({"nfs": {"server": "other", "path": "/y"}}, "Mount other:/y and add the folder"),
        ({"csi": {"driver": "d"}}, 'volumes of type "csi" are not available'),
        ({"configMap": {"name": "nope"}}, 'configmap "nope" not found'),
        ({"secret": {"secretName": "nope"}}, 'secret "nope" not found'),
    ],
)
def test_an_unavailable_volume_is_named(volume: dict[str, Any], message: str) -> None:
    with pytest.raises(MountError) as caught:
        plan_volumes(pod({"name": "v", **volume}), AROUND, "/f", NFS)
    assert caught.value.message.startswith('MountVolume.SetUp failed for volume "v" : ')
    assert message in caught.value.message


def test_the_service_account_folder_appears_only_with_an_api() -> None:
    api = ApiAccess("127.0.0.1", 6443, "CA", lambda p, audience, seconds: f"{p['metadata']['name']}{audience}{seconds}")
    around = PodContext(api=api)
    assert plan_volumes(pod(), PodContext(), "/f", {}) == {}
    assert plan_volumes(pod(automountServiceAccountToken=False), around, "/f", {}) == {}
    account = plan_volumes(pod(), around, "/f", {})[SERVICE_ACCOUNT_VOLUME]
    assert isinstance(account, Files)
    assert {path: file.content for path, file in account.payload.items()} == {
        "token": b"p3607",
        "ca.crt": b"CA",
        "namespace": b"team",
    }


def test_a_pod_may_name_a_service_account_that_only_a_cluster_elsewhere_has() -> None:
    def token(_pod: Object, _audience: str, _seconds: int) -> str:
        raise NotFound('serviceaccount "robot" not found')

    around = PodContext(api=ApiAccess("127.0.0.1", 6443, "CA", token))
    volumes = plan_volumes(pod(serviceAccountName="robot"), around, "/f", {})
    account = volumes[SERVICE_ACCOUNT_VOLUME]
    assert isinstance(account, Files)
    assert set(account.payload) == {"ca.crt", "namespace"}
    assert lacks_service_account(volumes)
    for waiting in (
        pod(serviceAccountName="default"),
        pod(),
        pod(
            {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            serviceAccountName="robot",
        ),
    ):
        with pytest.raises(MountError, match='serviceaccount "robot" not found'):
            plan_volumes(waiting, around, "/f", {})


def test_references() -> None:
    found = references_of(
        pod(
            {"name": "a", "configMap": {"name": "cm-1"}},
            {"name": "b", "secret": {"secretName": "s-1"}},
            {"name": "c", "projected": {"sources": [{"configMap": {"name": "cm-2"}}, {"secret": {"name": "s-2"}}]}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "pvc"}},
            {"name": "e", "emptyDir": {}},
            initContainers=[{"name": "i", "envFrom": [{"secretRef": {"name": "s-3"}}]}],
            containers=[
                {
                    "name": "m",
                    "env": [
                        {"name": "A", "value": "x"},
                        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "cm-3", "key": "k"}}},
                    ],
                }
            ],
        )
    )
    assert {(kind, name) for kind, namespace, name in found if namespace == "team"} == {
        ("ConfigMap", "cm-1"), ("ConfigMap", "cm-2"), ("ConfigMap", "cm-3"),
        ("Secret", "s-1"), ("Secret", "s-2"), ("Secret", "s-3"),
        ("PersistentVolumeClaim", "pvc"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "has_api", "seconds"),
    [
        (pod(), False, None),
        (pod(), True, 3607),
        (pod(automountServiceAccountToken=False), True, None),
        (pod({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}), False, 3600),
        (
            pod({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 600}}]}}),
            True,
            600,
        ),
    ],
)
def test_how_long_tokens_last(found: Object, has_api: bool, seconds: int | None) -> None:
    assert token_seconds(found, has_api) == seconds
