from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.kube.builtin import builtin_kinds
from muster.kube.kinds import Kind
from muster.server.kubernetes import openapi
from muster.server.kubernetes import openapi as openapi_protobuf

WIDGET = Kind(
    "acme.io",
    "v1",
    "Widget",
    "widgets",
    schema={
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "format": "int32", "description": "How many."},
                    "port": {"x-kubernetes-int-or-string": True},
                    "anything": {"x-kubernetes-preserve-unknown-fields": True},
                    "names": {"type": "array", "items": {"type": "string"}},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            }
        },
    },
)


def test_the_index_names_a_document_for_every_group_and_version() -> None:
    paths = openapi.v3_index([WIDGET, *builtin_kinds()])["paths"]
    assert {"api/v1", "apis/batch/v1", "apis/acme.io/v1"} <= set(paths)
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


def test_the_hash_changes_with_the_document() -> None:
    other = Kind("acme.io", "v1", "Widget", "widgets", schema={"type": "object"})
    assert openapi.v3_index([WIDGET]) == openapi.v3_index([WIDGET])
    assert openapi.v3_index([WIDGET]) != openapi.v3_index([other])


def test_kubectl_finds_support_for_server_side_validation() -> None:
    """kubectl looks for a PATCH operation of the kind with that parameter."""
    document = openapi.v3_document([WIDGET], "apis/acme.io/v1")
    assert document is not None
    operation = document["paths"]["/apis/acme.io/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {"group": "acme.io", "version": "v1", "kind": "Widget"}
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in operation["parameters"]}


def test_a_schema_is_found_by_its_kind() -> None:
    document = openapi.v3_document([WIDGET], "apis/acme.io/v1")
    assert document is not None
    schema = document["components"]["schemas"]["io.acme.v1.Widget"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "acme.io", "version": "v1", "kind": "Widget"}]
    assert {"apiVersion", "kind", "metadata", "spec"} <= set(schema["properties"])
    assert openapi.v3_document([WIDGET], "apis/acme.io/v2") is None


def test_version_2_documents() -> None:
    fields = openapi.v2_document([WIDGET])["definitions"]["io.acme.v1.Widget"]["properties"]["spec"]["properties"]
    assert fields["port"] == {"type": "string", "format": "int-or-string"}
    assert "type" not in fields["anything"]
    assert fields["size"] == {"type": "integer", "format": "int32", "description": "How many."}


def test_a_definition_is_published_as_it_was_written() -> None:
    """Clients compare the two. What occurs twice is not shared then."""
    part = {"type": "object", "properties": {"a": {"type": "string"}}, "description": "A part."}
    schema = {"type": "object", "properties": {"spec": part, "status": part}}
    crew = Kind("x.dev", "v1", "Crew", "crews", schema=schema, is_defined=True)
    anything = replace(crew, kind="Any", schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    found = openapi.v2_document([*builtin_kinds(), crew, anything])["definitions"]
    assert found["dev.x.v1.Crew"]["properties"]["spec"] == part
    assert found["dev.x.v1.Crew"]["properties"]["metadata"].keys() == {"$ref"}
    assert found["dev.x.v1.Any"]["type"] == "object"
    assert "x-kubernetes-preserve-unknown-fields" not in found["dev.x.v1.Any"]


def messages(content: bytes, number: int) -> list[bytes]:
    """Returns the length-delimited fields with that number."""
    found, position = [], 0
    while position < len(content):
        tag, position = varint(content, position)
        length, position = varint(content, position)
        if tag >> 3 == number:
            found.append(content[position : position + length])
        position += length
    return found


def varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def test_older_kubectls_read_it_as_protobuf() -> None:
    definitions: dict[str, Any] = {}
    content = openapi_protobuf.encode_v2_protobuf(openapi.v2_document([WIDGET]))
    for entry in messages(messages(content, 9)[0], 1):
        definitions[messages(entry, 1)[0].decode()] = messages(entry, 2)[0]
    widget = definitions["io.acme.v1.Widget"]
    extensions = {messages(e, 1)[0]: messages(messages(e, 2)[0], 2)[0] for e in messages(widget, 31)}
    assert b'"kind":"Widget"' in extensions[b"x-kubernetes-group-version-kind"]
    properties = {messages(p, 1)[0]: messages(p, 2)[0] for p in messages(messages(widget, 25)[0], 1)}
    spec = properties[b"spec"]
    assert messages(spec, 19) == [b"size"]
    names = {messages(p, 1)[0] for p in messages(messages(spec, 25)[0], 1)}
    assert names == {b"size", b"port", b"anything", b"names", b"labels"}


def test_every_builtin_kind_can_be_described() -> None:
    assert openapi_protobuf.encode_v2_protobuf(openapi.v2_document(builtin_kinds()))
