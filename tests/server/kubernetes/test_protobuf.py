from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.errors import ApiError, BadRequest, UnsupportedMediaType
from muster.server.kubernetes.protobuf import decode

BODIES = {
    # What kubectl 1.35 sent for: create job j --image=busybox -- sleep 1
    "job": "eJzLtihm4OLn4khKLEnO0C8zFGL2yk8SamLkEuRizBJikGJQYtBiMGKwYHBiEEo2SuQS4GJAE/UV0gIpZU8qLa5Myq+QYi3OSU0tkGI01AL"
    "KZjEUMTQwMnQwMkxgZFjEyCDF6pdallpkBJTyYghiiGBIYMhgaGJk6GJkmMXIcAiogEOBQYPBgMEKbAkA47Eb7Q==",
    # create secret generic s --from-literal=p=q
    "secret": "eJzLtihm4OLhYiozFGILTk0uSi0RkuUS5GIsFmKQYlBi0GIwYrBgcGIQYuNiLBBiLJQCiwIA9tUHtw==",
    # create role r --verb=get --resource=pods,jobs.batch
    "role": "eJzLtihm4FLhkilKSkzWSywtycgvyqxKLMnMz9PLtijWy8zXLzMUYgnKz0kVMuMS5GIsEmKQYlBi0GIwYrBgcGIQ4uViTk8tAQqyFOSnFA"
    "sJQbisSYklyRlSLFn5ScUg5QBUAxhy",
    # create service clusterip svc --tcp=80:8080
    "service": "eJzLtihm4OLlYiozFGIPTi0qy0xOFcrkkudiLi5LFmKQYlBi0GIwYrBgcGKI4uJiTiwoEALLOHFJc7FbGOhaGFgYCDGHOAdIBCix"
    "czAITLCXYtBgEEJSCjSC0zmntLgktcgzwApoThBDFEMCQwaDFBMX2HwAeBMYgQ==",
}


@pytest.mark.parametrize(
    ("name", "obj"),
    [
        ("job", {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{"name": "j", "image": "busybox", "command": ["sleep", "1"]}],
                        "restartPolicy": "Never",
                    }
                }
            },
        }),
        ("secret", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": "cQ=="}}),
        ("role", {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "r"},
            "rules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "apiGroups": ["batch"], "resources": ["jobs"]},
            ],
        }),
        ("service", {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "svc", "labels": {"app": "svc"}},
            "spec": {
                "ports": [{"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080}],
                "selector": {"app": "svc"},
                "type": "ClusterIP",
            },
        }),
    ],
)  # fmt: skip
def test_bodies_of_kubectl(name: str, obj: dict[str, Any]) -> None:
    # Requests come and go; these are compressed.
    assert decode(zlib.decompress(base64.b64decode(BODIES[name]))) == obj


def field(number: int, value: bytes | int) -> bytes:
    """Encodes one field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def envelope(api_version: str, kind: str, content: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, content)


def pod_spec(content: bytes) -> Any:
    return decode(envelope("v1", "Pod", field(2, content))).get("spec")


@pytest.mark.parametrize(
    ("content", "spec"),
    [
        # The source of a volume is next to its name, and an empty source is significant.
        (field(1, field(1, b"tmp") + field(2, field(2, b""))), {"volumes": [{"name": "tmp", "emptyDir": {}}]}),
        # A number that was set to 0 stays 0; a string that was not set is omitted.
        (field(4, 0) + field(8, b""), {"terminationGracePeriodSeconds": 0}),
        (field(4, -5), {"terminationGracePeriodSeconds": -5}),
        (field(11, 0), None),
        (field(11, 1), {"hostNetwork": True}),
        (field(7, field(1, b"disk") + field(2, b"ssd")), {"nodeSelector": {"disk": "ssd"}}),
        (field(2, field(1, b"c") + field(8, field(2, field(1, b"cpu") + field(2, field(1, b"100m"))))),
         {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}),
        # A field from a later version than ours is skipped.
        (field(4095, b"?") + field(10, b"n1"), {"nodeName": "n1"}),
    ],
)  # fmt: skip
def test_decoding_of_fields(content: bytes, spec: Any) -> None:
    assert pod_spec(content) == spec


def test_times() -> None:
    made = field(1, field(8, field(1, 1_800_000_000)) + field(9, field(1, -62135596800)))
    assert decode(envelope("v1", "Pod", made))["metadata"] == {"creationTimestamp": "2027-01-15T08:00:00Z"}


def test_delete_options_of_any_version() -> None:
    options = decode(envelope("batch/v1", "DeleteOptions", field(1, 0) + field(4, b"Foreground")))
    assert (options["gracePeriodSeconds"], options["propagationPolicy"]) == (0, "Foreground")


def test_the_error_names_the_unknown_kind() -> None:
    with pytest.raises(UnsupportedMediaType, match="Widget"):
        decode(envelope("acme.io/v1", "Widget", b""))


@pytest.mark.parametrize("content", [b"", b"{}", b"k8s\x00\xff", b"k8s\x00\x0a\x7f"])
def test_invalid_protobuf_is_refused(content: bytes) -> None:
    with pytest.raises(ApiError):
        decode(content)


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_the_expected_error(content: bytes) -> None:
    try:
        decode(envelope("v1", "Pod", content))
    except BadRequest:
        return
