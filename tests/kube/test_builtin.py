from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster.kube import builtin
from muster.kube.kinds import Kind, Schema
from muster.kube.schema_validation import validate

KINDS = builtin.builtin_kinds()


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("po", builtin.POD), ("pods", builtin.POD), ("Pod", builtin.POD), ("svc", builtin.SERVICE),
        ("cm", builtin.CONFIG_MAP),
        ("pv", builtin.PERSISTENT_VOLUME), ("pvc", builtin.PERSISTENT_VOLUME_CLAIM), ("sa", builtin.SERVICE_ACCOUNT),
        ("ns", builtin.NAMESPACE), ("no", builtin.NODE), ("ev", builtin.EVENT), ("pc", builtin.PRIORITY_CLASS),
        ("sc", builtin.STORAGE_CLASS), ("crd", builtin.CUSTOM_RESOURCE_DEFINITION),
        ("crds", builtin.CUSTOM_RESOURCE_DEFINITION),
        ("jobs", builtin.JOB), ("jobs.batch", builtin.JOB), ("pg", builtin.POD_GROUP), ("q", builtin.QUEUE),
        ("podgroups", builtin.POD_GROUP), ("podgroups.scheduling.x-k8s.io", builtin.PLUGIN_POD_GROUP),
        ("pgs", builtin.PLUGIN_POD_GROUP),
    ],
)  # fmt: skip
def test_kinds_are_found_by_the_words_people_type(word: str, kind: Kind) -> None:
    assert builtin.new_catalogue().find(word) is kind


def test_a_catalogue_is_new_each_time() -> None:
    catalogue = builtin.new_catalogue()
    catalogue.unregister(builtin.POD)
    assert builtin.new_catalogue().find("pod") is builtin.POD
    assert set(KINDS) == set(builtin.new_catalogue())


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_schemas_are_sound(kind: Kind) -> None:
    """Every field has a type; keys of lists and required fields exist."""
    for path, schema in _schemas(kind.schema, kind.kind):
        free = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string")
        assert schema.get("type") or free, path
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= properties.keys(), path
        item = (schema.get("items") or {}).get("properties", {})
        assert set(schema.get("x-kubernetes-list-map-keys", ())) <= item.keys(), path
        merge_key = schema.get("x-kubernetes-patch-merge-key")
        assert merge_key is None or merge_key in item, path
    assert {"apiVersion", "kind", "metadata"} <= kind.schema["properties"].keys()
    assert kind.has_status is ("status" in kind.schema["properties"])


def _schemas(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _schemas(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _schemas(schema[key], f"{path}.{key}")


def _list(schema: Schema, path: str) -> Schema:
    for step in path.split("."):
        schema = (schema.get("items") or schema)["properties"][step]
    return schema


@pytest.mark.parametrize(
    ("kind", "path", "keys", "merge_key"),
    [
        (builtin.POD, "spec.containers", ["name"], "name"),
        (builtin.POD, "spec.initContainers", ["name"], "name"),
        (builtin.POD, "spec.containers.env", ["name"], "name"),
        (builtin.POD, "spec.containers.ports", ["containerPort", "protocol"], "containerPort"),
        (builtin.POD, "spec.containers.volumeMounts", ["mountPath"], "mountPath"),
        (builtin.POD, "spec.volumes", ["name"], "name"),
        (builtin.POD, "spec.tolerations", None, None),
        (builtin.POD, "spec.containers.args", None, None),
        (builtin.POD, "spec.imagePullSecrets", ["name"], "name"),
        (builtin.POD, "metadata.ownerReferences", ["uid"], "uid"),
        (builtin.POD, "status.conditions", ["type"], "type"),
        (builtin.JOB, "spec.template.spec.containers.env", ["name"], "name"),
        (builtin.SERVICE, "spec.ports", ["port", "protocol"], "port"),
        (builtin.NODE, "status.addresses", ["type"], "type"),
        (builtin.NODE, "spec.taints", None, None),
        (builtin.SERVICE_ACCOUNT, "secrets", ["name"], "name"),
    ],
)
def test_lists_merge_as_in_kubernetes(kind: Kind, path: str, keys: list[str] | None, merge_key: str | None) -> None:
    schema = _list(kind.schema, path)
    assert schema.get("x-kubernetes-list-map-keys") == keys
    assert schema.get("x-kubernetes-patch-merge-key") == merge_key
    assert schema["x-kubernetes-list-type"] == ("map" if keys else "atomic")


def _pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "creationTimestamp": None},
        "spec": {"containers": [{"name": "a", "image": "b", "resources": {}}], **spec},
        "status": {},
    }


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "v", "fsType": "ext4", "partition": 1}},
        {"azureDisk": {"diskName": "d", "diskURI": "u", "cachingMode": "None", "kind": "Managed"}},
        {"azureFile": {"secretName": "s", "shareName": "n"}},
        {"cephfs": {"monitors": ["m"], "secretRef": {"name": "s"}}},
        {"cinder": {"volumeID": "v"}},
        {"csi": {"driver": "d", "volumeAttributes": {"a": "b"}, "nodePublishSecretRef": {"name": "s"}}},
        {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
        {"fc": {"targetWWNs": ["w"], "lun": 2}},
        {"flexVolume": {"driver": "d", "options": {"a": "b"}}},
        {"flocker": {"datasetName": "d"}},
        {"gcePersistentDisk": {"pdName": "p"}},
        {"gitRepo": {"repository": "r", "revision": "v"}},
        {"glusterfs": {"endpoints": "e", "path": "p"}},
        {"image": {"reference": "r", "pullPolicy": "Always"}},
        {"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0, "portals": ["p"]}},
        {"nfs": {"server": "s", "path": "/", "readOnly": True}},
        {"photonPersistentDisk": {"pdID": "p"}},
        {"portworxVolume": {"volumeID": "v"}},
        {"projected": {"sources": [{"clusterTrustBundle": {"path": "p", "name": "n"}},
                                   {"podCertificate": {"keyType": "RSA3072", "signerName": "s"}}]}},
        {"quobyte": {"registry": "r", "volume": "v"}},
        {"rbd": {"monitors": ["m"], "image": "i", "pool": "p"}},
        {"scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}}},
        {"storageos": {"volumeName": "v"}},
        {"vsphereVolume": {"volumePath": "p"}},
    ],
    ids=lambda source: next(iter(source)),
)  # fmt: skip
def test_no_volume_of_a_real_manifest_is_unknown(source: dict[str, Any]) -> None:
    assert validate(_pod(volumes=[{"name": "v", **source}]), builtin.POD.schema) == []


def test_nulls_of_exported_manifests_are_taken() -> None:
    assert validate(_pod(nodeSelector=None, volumes=None), builtin.POD.schema) == []


def test_a_pod_with_everything_a_user_may_get_wrong() -> None:
    pod = _pod(restartpolicy="Never", containers=[{"name": "a", "command": "sh", "env": [{"name": "A", "value": 1}]}])
    assert [(cause.field, cause.message) for cause in validate(pod, builtin.POD.schema)] == [
        ("spec.containers[0].command", 'expected a list, got a string "sh"; write it as "- sh"'),
        ("spec.containers[0].env[0].value", 'expected a string, got the number 1; put it in quotes: "1"'),
        ("spec.restartpolicy", 'unknown field "restartpolicy"; did you mean "restartPolicy"?'),
    ]
