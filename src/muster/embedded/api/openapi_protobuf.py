"""OpenAPI version 2 in the only form that older kubectls read it in: protobuf, as gnostic's openapi.v2.Document.

They refuse to create anything they could not check against it first. Only the fields they look at are written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ANSWERED = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The name with an @ is not a media type that Go can read."""

_LENGTH_DELIMITED = 2
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode(document: dict[str, Any]) -> bytes:
    info = document["info"]
    paths = (_message(2, _text(1, path), _message(2, *_path(item))) for path, item in document["paths"].items())
    return b"".join((
        _text(1, document["swagger"]),
        _message(2, _text(1, info["title"]), _text(2, info["version"])),
        _message(8, *paths),
        _message(9, *_named_schemas(document["definitions"])),
    ))  # fmt: skip


def _path(item: dict[str, Any]) -> Iterable[bytes]:
    return (_message(_METHODS[method], *_operation(operation)) for method, operation in item.items())


def _operation(operation: dict[str, Any]) -> Iterable[bytes]:
    yield _text(5, operation["operationId"])
    for parameter in operation["parameters"]:
        query = _message(3, _text(2, parameter["in"]), _text(4, parameter["name"]), _text(6, parameter["type"]))
        yield _message(8, _message(1, _message(2, query)))
    yield from _extensions(13, operation)


def _named_schemas(schemas: dict[str, Any]) -> Iterable[bytes]:
    return (_message(1, _text(1, name), _message(2, *_schema(schema))) for name, schema in schemas.items())


def _schema(schema: dict[str, Any]) -> Iterable[bytes]:
    if "$ref" in schema:
        yield _text(1, schema["$ref"])
        return
    if "format" in schema:
        yield _text(2, schema["format"])
    if "description" in schema:
        yield _text(4, schema["description"])
    for name in schema.get("required") or ():
        yield _text(19, name)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        yield _message(21, _message(1, *_schema(additional)))
    if "type" in schema:
        yield _message(22, _text(1, schema["type"]))
    if schema.get("type") == "array":
        yield _message(23, _message(1, *_schema(schema.get("items") or {})))
    if "properties" in schema:
        yield _message(25, *_named_schemas(schema["properties"]))
    yield from _extensions(31, schema)


def _extensions(number: int, holder: dict[str, Any]) -> Iterable[bytes]:
    """Values of extensions travel as YAML, of which JSON is a part."""
    for name, value in holder.items():
        if name.startswith("x-kubernetes-"):
            yield _message(number, _text(1, name), _message(2, _field(2, orjson.dumps(value))))


def _message(number: int, *fields: bytes) -> bytes:
    return _field(number, b"".join(fields))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
