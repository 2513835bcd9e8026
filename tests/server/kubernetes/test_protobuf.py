from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.crd import kinds_from_crd
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
    # What client-go 0.35 sends for DEFINITION
    "definition": (
        "eJyUlD9oFEEUxt9sdu+WZwQZEMOKci4K4TCruSCeIaD508RCD6NFGnFub5KMud1ZZ3YvuYitaCcWgm2qlJZiJWJlaZlKbIQFGwtr"
        "2c3d5S6nh5nq7eN9v/fNvNnZrGrAGTzDIsG3Yx5qIUPtbVa1J+SV1jSdWEx0LIN7XMtE+XyJr4lQxEKG9LONZ/GEr/iW9ra9Bm9R"
        "cMCFMlSgCgtA39ho5XnnNFp5GQXH8JVrLiq+VQYX77CA64j5vDH7o4hGa/oUmSDuyyI+LyLQjFWQ9cfcjyswCzV4BDvwisAHYuqI"
        "+yn5bWEe0Z/WiPKUrGKhyeq8qendEXW/yKRN6MVuhY6VCNcHKvYMeG/AR+MwSMk1NAOpOJ0aJi+YaDx91q9+Z5Cu7jVBK8y2T1+Q"
        "jtRiSrH2QMdP5AGujNzbZTQzzDF994IvRi7/aowFLEpJgmYkVUyDDg0GOPvkUidfFGHM17n6e5t9ciw3JCXX0VKcNdrU6zaoS9nk"
        "LMzPsYjWGmtqPozIlXqDKd5TFsIkqB9x9pZAvr7d7FMuoak3RETnRnjdJTYW3Hm1Lt1dgmi7Nf4kkQ1373CQy2hqscPp/NGjsUQY"
        "z1RmYWEMydXlAwOrt2qwCp31z+l8N87hSc2ba15GLs2VblA7lrIUsLDtQBlS8hALOmZxoun9kbdjqmPu/+Y2HJTPI1AH0ct+s9wN"
        "HfcOOudflQtormTZLjh7ACah0ieowu3xHmBDRDVwxqndvV+l/Mn4EwAA//8c/wwf"
    ),
    # and for a Lease that was acquired in the year 1, as the conformance tests do
    "lease": (
        "eJzKtihm4JLnEkvOzy9KycxLLMnMz9PLtijWy8zXLzMUYvVJTSxOFTLlEuRizBFikGJQYtBiMGKwYHBiEFLgYsyQ4uVomrTj8Ix/"
        "////ZxRgUOLhWHD6w3U2gYZTW98xglQDAgAA///2mRw2"
    ),
}


DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "crews.x.dev"},
    "spec": {
        "group": "x.dev",
        "scope": "Namespaced",
        "names": {"plural": "crews", "kind": "Crew", "shortNames": ["cr"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "selectableFields": [{"jsonPath": ".spec.ship"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [{"rule": "self.size < 9", "message": "too many"}],
                                "properties": {
                                    "size": {
                                        "type": "integer",
                                        "format": "int32",
                                        "minimum": 0,
                                        "maximum": 100,
                                        "default": 0,
                                    },
                                    "ship": {"type": "string", "enum": ["Argo", "Pequod"], "nullable": True},
                                    "ready": {"type": "boolean", "default": False},
                                    "share": {"type": "number", "multipleOf": 0.5},
                                    "port": {
                                        "x-kubernetes-int-or-string": True,
                                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                                    },
                                    "names": {
                                        "type": "array",
                                        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                    },
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "more": {
                                        "type": "object",
                                        "x-kubernetes-preserve-unknown-fields": True,
                                        "default": {},
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("name", "obj"),
    [
        ("lease", {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {
                "holderIdentity": "h",
                "acquireTime": "0001-01-01T00:00:02.000000Z",
                "renewTime": "2026-11-17T10:00:00.500000Z",
            },
        }),
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


def test_a_definition_arrives_as_it_was_sent() -> None:
    """Operators in Go install their own definitions, in protobuf."""
    found = decode(zlib.decompress(base64.b64decode(BODIES["definition"])))
    assert found["metadata"] == DEFINITION["metadata"]
    # JSON always has preserveUnknownFields, which means the same as its absence.
    assert {**found["spec"], "names": {**found["spec"]["names"]}} == DEFINITION["spec"]
    assert [str(kind) for kind in kinds_from_crd({**found, "status": {}})] == ["x.dev/v1 Crew"]
