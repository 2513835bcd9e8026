from __future__ import annotations

import pytest

from muster.kube.container_validation import validate_volume
from muster.kube.errors import Cause
from muster.kube.objects import Object


def check(source: Object) -> list[Cause]:
    return list(validate_volume({"name": "v", **source}, "v"))


def item(**fields: object) -> Object:
    return {"configMap": {"name": "c", "items": [{"key": "k", "path": "p", **fields}]}}


@pytest.mark.parametrize(
    "source",
    [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"hostPath": {"path": "/data"}},
        {"configMap": {"name": "c", "defaultMode": 0o400}},
        item(mode=0o777),
        {"secret": {"secretName": "s"}},
        {"persistentVolumeClaim": {"claimName": "c"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {
            "downwardAPI": {
                "items": [{"path": "cpu", "resourceFieldRef": {"containerName": "a", "resource": "limits.cpu"}}]
            }
        },
        {
            "projected": {
                "sources": [
                    {"secret": {"name": "s"}},
                    {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
                    {"serviceAccountToken": {"path": "token"}},
                ]
            }
        },
        {"nfs": {"server": "s", "path": "/"}},
    ],
)
def test_good_volumes(source: Object) -> None:
    assert check(source) == []


@pytest.mark.parametrize(
    ("source", "field", "message"),
    [
        ({"name": "V", "emptyDir": {}}, "v.name", "use lower case letters"),
        ({}, "v", "Required value: must specify a volume type"),
        ({"emptyDir": {}, "secret": {"secretName": "s"}}, "v.secret", "may not specify more than 1 volume type"),
        ({"emptyDir": {"sizeLimit": "-1"}}, "v.emptyDir.sizeLimit", "must be greater than or equal to 0"),
        ({"hostPath": {"path": ""}}, "v.hostPath.path", "Required value"),
        ({"hostPath": {"path": "/a/../b"}}, "v.hostPath.path", "must not contain '..'"),
        ({"configMap": {}}, "v.configMap.name", "Required value"),
        ({"configMap": {"name": "c", "defaultMode": 0o1000}}, "v.configMap.defaultMode", "between 0 and 0777"),
        ({"secret": {}}, "v.secret.secretName", "Required value"),
        ({"persistentVolumeClaim": {"claimName": ""}}, "v.persistentVolumeClaim.claimName", "Required value"),
        (item(key=""), "v.configMap.items[0].key", "Required value"),
        (item(path="..data"), "v.configMap.items[0].path", "must not start with '..'"),
        (item(path=""), "v.configMap.items[0].path", "Required value"),
        (item(path="/etc/passwd"), "v.configMap.items[0].path", "must be a relative path"),
        (item(path="a/../../b"), "v.configMap.items[0].path", "must not contain '..'"),
        (item(mode=-1), "v.configMap.items[0].mode", "between 0 and 0777"),
        ({"downwardAPI": {"items": [{"path": "p"}]}}, "v.downwardAPI.items[0]", "exactly one of fieldRef"),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "status.podIP"}}]}},
            "v.downwardAPI.items[0].fieldRef.fieldPath",
            'Unsupported value: "status.podIP"',
        ),
        (
            {"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
            "v.downwardAPI.items[0].resourceFieldRef.containerName",
            "Required value",
        ),
        (
            {"projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}},
            "v.projected.sources[0].configMap",
            "may not specify more than 1 volume type",
        ),
        ({"projected": {"sources": [{"secret": {}}]}}, "v.projected.sources[0].secret.name", "Required value"),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "../t"}}]}},
            "v.projected.sources[0].serviceAccountToken.path",
            "must not contain '..'",
        ),
    ],
)
def test_bad_volumes(source: Object, field: str, message: str) -> None:
    (cause,) = check(source)
    assert cause.field == field
    assert message in cause.message
