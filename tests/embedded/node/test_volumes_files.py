from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.embedded.node.pod_context import MountError, PodContext
from muster.embedded.node.volumes import File, payload_of
from muster.embedded.settings import ApiAccess
from muster.kube.objects import Object

POD: Object = {
    "metadata": {"name": "p", "namespace": "team", "uid": "u", "labels": {"a": "1", "b": "two\nlines"}},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"memory": "64Mi"}}}]},
}
CONFIG_MAP: Object = {"data": {"x.conf": "X", "y.conf": "Y"}, "binaryData": {"raw": base64.b64encode(b"\0\1").decode()}}
SECRET: Object = {"data": {"key": base64.b64encode(b"k").decode()}}
AROUND = PodContext(
    config_map=lambda _ns, name: CONFIG_MAP if name == "cm" else None,
    secret=lambda _ns, name: SECRET if name == "s" else None,
    api=ApiAccess("127.0.0.1", 1, "CA", lambda _pod, audience, seconds: f"token for {audience or 'api'} {seconds}"),
)


def payload(**source: Any) -> dict[str, tuple[bytes, int]]:
    return {path: (file.content, file.mode) for path, file in payload_of(POD, "v", source, AROUND).items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"configMap": {"name": "cm"}},
            {"x.conf": (b"X", 0o644), "y.conf": (b"Y", 0o644), "raw": (b"\0\1", 0o644)},
        ),
        ({"secret": {"secretName": "s", "defaultMode": 0o400}}, {"key": (b"k", 0o400)}),
        (
            {"configMap": {"name": "cm", "items": [{"key": "x.conf", "path": "sub/x", "mode": 0o600}]}},
            {"sub/x": (b"X", 0o600)},
        ),
        ({"configMap": {"name": "nope", "optional": True}}, {}),
        ({"configMap": {"name": "cm", "optional": True, "items": [{"key": "nope", "path": "n"}]}}, {}),
        (
            {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"labels": (b'a="1"\nb="two\\nlines"', 0o644)},
        ),
        (
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "memory",
                            "resourceFieldRef": {
                                "containerName": "main", "resource": "limits.memory", "divisor": "1Mi",
                            },
                        }
                    ]
                }
            },
            {"memory": (b"64", 0o644)},
        ),
        (
            {
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"configMap": {"name": "cm", "items": [{"key": "x.conf", "path": "x"}]}},
                        {"secret": {"name": "s"}},
                        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
                    ],
                }
            },
            {"x": (b"X", 0o440), "key": (b"k", 0o440), "token": (b"token for vault 600", 0o600)},
        ),
    ],
)  # fmt: skip
def test_payload(source: dict[str, Any], expected: dict[str, tuple[bytes, int]]) -> None:
    assert payload(**source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "nope"}}, 'configmap "nope" not found'),
        ({"configMap": {"name": "cm", "items": [{"key": "k", "path": "k"}]}}, 'configmap "team/cm" has no key "k"'),
        ({"projected": {"sources": [{"clusterTrustBundle": {}}]}}, '"clusterTrustBundle" are not available'),
        ({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.x"}}]}}, "spec.x"),
        (
            {"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"containerName": "x"}}]}},
            'containerName "x" is not a container',
        ),
    ],
)
def test_what_is_missing_is_named(source: dict[str, Any], message: str) -> None:
    with pytest.raises(MountError) as caught:
        payload(**source)
    assert message in caught.value.message


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "..data", "..", ""])
def test_a_path_that_leaves_the_volume_is_refused(path: str) -> None:
    with pytest.raises(MountError, match="not a path inside the volume"):
        payload(configMap={"name": "cm", "items": [{"key": "x.conf", "path": path}]})


def test_a_file_is_its_content_and_mode() -> None:
    assert payload_of(POD, "v", {"secret": {"secretName": "s"}}, AROUND)["key"] == File(b"k", 0o644)
