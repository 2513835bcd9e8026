from __future__ import annotations

import pytest

from muster.kube.errors import NotAcceptable, UnsupportedMediaType
from muster.server.kubernetes.request import Form, body_media, negotiate, patch_type

KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/json", Form()),
        ("application/json, */*", Form()),
        ("application/json;stream=watch", Form()),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Form()),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
        ("application/cbor,application/json", Form()),
        ("application/yaml", Form(media="application/yaml")),
        ("application/json;q=0.5,application/yaml", Form(media="application/yaml")),
        ("application/yaml;q=0,application/json", Form()),
        (KUBECTL_GET, Form("table")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form("table", meta_version="v1beta1")),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", Form()),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Form("metadata")),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", Form("metadata")),
        ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
         "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form("metadata")),
    ],
)  # fmt: skip
def test_the_format_of_a_response(accept: str, form: Form) -> None:
    assert negotiate(accept) == form


@pytest.mark.parametrize("accept", ["application/vnd.kubernetes.protobuf", "application/cbor", "text/html"])
def test_unsupported_accept_headers(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="application/json"):
        negotiate(accept)


@pytest.mark.parametrize(
    ("content_type", "media"),
    [
        ("", "application/json"),
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        ("APPLICATION/JSON", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"),
    ],
)
def test_media_types_of_bodies(content_type: str, media: str) -> None:
    assert body_media(content_type) == media


@pytest.mark.parametrize("content_type", ["application/cbor", "text/plain", "application/x-www-form-urlencoded"])
def test_other_bodies_are_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=content_type):
        body_media(content_type)


@pytest.mark.parametrize(
    ("content_type", "type_"),
    [
        ("application/json-patch+json", "json"),
        ("application/merge-patch+json", "merge"),
        ("application/strategic-merge-patch+json; charset=utf-8", "strategic"),
        ("application/apply-patch+yaml", "apply"),
    ],
)
def test_types_of_patches(content_type: str, type_: str) -> None:
    assert patch_type(content_type) == type_


def test_a_patch_must_state_its_type() -> None:
    with pytest.raises(UnsupportedMediaType, match="merge-patch"):
        patch_type("application/json")
