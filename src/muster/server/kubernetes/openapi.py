"""The API described in OpenAPI: version 3 group by group, version 2 as a whole, in JSON and in protobuf.

Enough for `kubectl explain`, for `kubectl apply` to know what to ask for, and for clients that check fields themselves.
Older kubectls read version 2 in protobuf only (gnostic's openapi.v2.Document), and create nothing without it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from muster.kube.field_descriptions import describe_field, describe_kind
from muster.kube.kinds import Kind, Schema
from muster.kube.schema import OBJECT_META, STRING

_PREFIX = "io.muster.schema"
_SINGLE = ("items", "additionalProperties")
_ONLY_METADATA: Schema = {"properties": {"metadata": OBJECT_META}}

_GVK = "x-kubernetes-group-version-kind"
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_APPLY_PARAMETERS = (*_WRITE_PARAMETERS, "force")
# Strategic merge patches are supported but not listed here: kubectl then computes them from its own knowledge of the
# built-in types, which is complete, instead of from these schemas.
_PATCH_MEDIA = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_V2_KEYS = frozenset((
    "type", "format", "title", "description", "default", "required", "enum", "items", "properties",
    "additionalProperties", "maximum", "minimum", "pattern", "maxLength", "minLength", "maxItems", "minItems",
))  # fmt: skip


def v3_index(kinds: Iterable[Kind]) -> dict[str, Any]:
    """/openapi/v3: the paths of the documents. The hash lets clients cache documents that have not changed."""
    known = list(kinds)
    hashes = {
        path: digest(orjson.dumps(v3_document(known, path))) for path in sorted({group_path(kind) for kind in known})
    }
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hash}"} for path, hash in hashes.items()}}


def group_path(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def v3_document(kinds: Iterable[Kind], path: str) -> dict[str, Any] | None:
    """Returns the document of one group and version, such as `apis/batch/v1`, or None if there is none."""
    members = [kind for kind in kinds if group_path(kind) == path]
    if not members:
        return None
    sharing = SchemaSharing([kind.schema for kind in members], "#/components/schemas/")
    schemas = {_name(kind): _described(kind, _definition(kind, sharing.share(kind.schema))) for kind in members}
    shared = {name: _with_descriptions(schema) for name, schema in sharing.definitions.items()}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": {where: item for kind in members for where, item in _paths(kind).items()},
        "components": {"schemas": {**schemas, **shared}},
    }


def v2_document(kinds: Iterable[Kind]) -> dict[str, Any]:
    """/openapi/v2"""
    known = list(kinds)
    own = [kind.schema for kind in known if not kind.is_defined]
    sharing = SchemaSharing([*own, _ONLY_METADATA, _ONLY_METADATA], "#/definitions/")
    metadata = sharing.share(_ONLY_METADATA)["properties"]["metadata"]
    definitions = {
        _name(kind): _definition(
            kind,
            _as_defined(kind.schema, metadata) if kind.is_defined else _v2_schema(sharing.share(kind.schema)),
        )
        for kind in known
    }
    shared = {name: _v2_schema(schema) for name, schema in sharing.definitions.items()}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": {where: _v2_item(item) for kind in known for where, item in _paths(kind).items()},
        "definitions": {**definitions, **shared},
    }


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32].upper()


def _name(kind: Kind) -> str:
    """`io.k8s.api.core.v1.Pod`, `org.kubeflow.v1.PyTorchJob`"""
    if "." not in kind.group:
        return f"io.k8s.api.{kind.group or 'core'}.{kind.version}.{kind.kind}"
    return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _definition(kind: Kind, schema: Schema) -> Schema:
    properties = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META, **(schema.get("properties") or {})}
    return {"type": "object", **schema, "properties": properties, _GVK: [_gvk(kind)]}


def _described(kind: Kind, schema: Schema) -> Schema:
    """Adds descriptions for `kubectl explain`. What the author of a definition wrote stays."""
    text = schema.get("description") or describe_kind(kind)
    described = _with_descriptions(schema)
    return {**described, "description": text} if text else described


def _with_descriptions(schema: Schema) -> Schema:
    found = schema
    if isinstance(schema.get("properties"), dict):
        properties = {name: _with_description(name, inner) for name, inner in schema["properties"].items()}
        found = {**found, "properties": properties}
    for holder in _SINGLE:
        if isinstance(schema.get(holder), dict):
            found = {**found, holder: _with_descriptions(schema[holder])}
    return found


def _with_description(name: str, schema: Schema) -> Schema:
    if "$ref" in schema:  # nothing else counts beside a reference
        return {"allOf": [schema], "description": describe_field(name, {})}
    described = _with_descriptions(schema)
    return described if schema.get("description") else {**described, "description": describe_field(name, schema)}


def _paths(kind: Kind) -> dict[str, dict[str, Any]]:
    base = f"/{group_path(kind)}"
    if kind.namespaced:
        everywhere = f"{base}/{kind.plural}"
        collection = f"{base}/namespaces/{{namespace}}/{kind.plural}"
    else:
        everywhere = collection = f"{base}/{kind.plural}"
    listing = _operation(kind, "list")
    paths: dict[str, dict[str, Any]] = {everywhere: {"get": listing}}
    paths[collection] = {
        "get": listing,
        "post": _operation(kind, "post", _WRITE_PARAMETERS),
        "delete": _operation(kind, "deletecollection", ("dryRun",)),
    }
    paths[f"{collection}/{{name}}"] = {
        "get": _operation(kind, "get"),
        "put": _operation(kind, "put", _WRITE_PARAMETERS),
        "patch": {
            **_operation(kind, "patch", _APPLY_PARAMETERS),
            "requestBody": {"content": {media: {"schema": {"type": "object"}} for media in _PATCH_MEDIA}},
        },
        "delete": _operation(kind, "delete", ("dryRun",)),
    }
    return paths


def _operation(kind: Kind, action: str, parameters: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "operationId": f"{action}{kind.group.title().replace('.', '')}{kind.version.title()}{kind.kind}",
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in parameters],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        _GVK: _gvk(kind),
    }


def _v2_item(item: dict[str, Any]) -> dict[str, Any]:
    """In version 2, the type of a parameter is next to its name, and there are no request bodies."""
    return {
        method: {
            **{key: value for key, value in operation.items() if key != "requestBody"},
            "parameters": [{"name": p["name"], "in": "query", "type": "string"} for p in operation["parameters"]],
        }
        for method, operation in item.items()
    }


def _as_defined(schema: Schema, metadata: Schema) -> Schema:
    """Returns the schema of a CustomResourceDefinition as its author wrote it, so that clients can compare the two. A
    definition that allows any field is an object of which nothing is known."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {"type": "object", "properties": {"metadata": metadata}}
    found = _v2_schema(schema)
    return {**found, "properties": {**found["properties"], "metadata": metadata}}


def _v2_schema(schema: Schema) -> Schema:
    """Returns what version 2 can express of a schema. The rest is left open."""
    if "$ref" in schema:
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": "string", "format": "int-or-string"}
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        # Without a type, a field may have any value.
        kept = ("description", "x-kubernetes-preserve-unknown-fields")
        return {key: schema[key] for key in kept if key in schema}
    found = {key: value for key, value in schema.items() if key in _V2_KEYS or key.startswith("x-kubernetes-")}
    if isinstance(schema.get("properties"), dict):
        found["properties"] = {name: _v2_schema(field) for name, field in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        found["items"] = _v2_schema(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _v2_schema(schema["additionalProperties"])
    return found


PROTOBUF_ACCEPT = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF_MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Go cannot parse the media type with an @."""

_LENGTH_DELIMITED = 2
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode_v2_protobuf(document: dict[str, Any]) -> bytes:
    info = document["info"]
    paths = (
        _message(2, _text(1, path), _message(2, *_protobuf_path(item))) for path, item in document["paths"].items()
    )
    return b"".join((
        _text(1, document["swagger"]),
        _message(2, _text(1, info["title"]), _text(2, info["version"])),
        _message(8, *paths),
        _message(9, *_named_schemas(document["definitions"])),
    ))  # fmt: skip


def _protobuf_path(item: dict[str, Any]) -> Iterable[bytes]:
    return (_message(_METHODS[method], *_protobuf_operation(operation)) for method, operation in item.items())


def _protobuf_operation(operation: dict[str, Any]) -> Iterable[bytes]:
    yield _text(5, operation["operationId"])
    for parameter in operation["parameters"]:
        query = _message(3, _text(2, parameter["in"]), _text(4, parameter["name"]), _text(6, parameter["type"]))
        yield _message(8, _message(1, _message(2, query)))
    yield from _extensions(13, operation)


def _named_schemas(schemas: dict[str, Any]) -> Iterable[bytes]:
    return (_message(1, _text(1, name), _message(2, *_protobuf_schema(schema))) for name, schema in schemas.items())


def _protobuf_schema(schema: dict[str, Any]) -> Iterable[bytes]:
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
        yield _message(21, _message(1, *_protobuf_schema(additional)))
    if "type" in schema:
        yield _message(22, _text(1, schema["type"]))
    if schema.get("type") == "array":
        yield _message(23, _message(1, *_protobuf_schema(schema.get("items") or {})))
    if "properties" in schema:
        yield _message(25, *_named_schemas(schema["properties"]))
    yield from _extensions(31, schema)


def _extensions(number: int, holder: dict[str, Any]) -> Iterable[bytes]:
    """Values of extensions are sent as YAML, which includes JSON."""
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


class SchemaSharing:
    """Replaces schemas that occur more than once, such as that of a container, with references to `definitions`."""

    def __init__(self, schemas: Iterable[Schema], where: str) -> None:
        """`schemas` are all schemas of the document. `where` is the prefix of references."""
        self.definitions: dict[str, Schema] = {}
        self._where = where
        self._digests: dict[int, bytes] = {}
        """By the id of a schema, which lives as long as its kind. Equal schemas have equal digests."""
        self._counts: Counter[bytes] = Counter()
        self._references: dict[bytes, Schema] = {}
        for schema in schemas:
            for inner in _inner(schema):
                self._digest(inner)

    def share(self, schema: Schema, name: str = "item") -> Schema:
        """Returns the schema for the document. `name` is the name of its field."""
        response = dict(schema)
        if isinstance(schema.get("properties"), dict):
            response["properties"] = {field: self._part(inner, field) for field, inner in schema["properties"].items()}
        for holder in _SINGLE:
            if isinstance(schema.get(holder), dict):
                response[holder] = self._part(schema[holder], name)
        return response

    def _part(self, schema: Schema, name: str) -> Schema:
        digest = self._digests[id(schema)]
        if not schema.get("properties") or self._counts[digest] < 2:
            return self.share(schema, name)
        if digest not in self._references:
            title = self._free_title(name)
            self._references[digest] = {"$ref": f"{self._where}{title}"}
            self.definitions[title] = {}  # reserves the name while its parts get theirs
            self.definitions[title] = self.share(schema, name)
        return self._references[digest]

    def _digest(self, schema: Schema) -> bytes:
        digest = self._digests.get(id(schema))
        if digest is None or not schema.get("properties"):
            # The items of a list can become a definition, so they are counted whenever the list is.
            own = {key: value for key, value in schema.items() if key != "properties" and key not in _SINGLE}
            below = [self._digest(inner).hex() for inner in _inner(schema)]
            words = [own, list(schema.get("properties") or ()), [h for h in _SINGLE if h in schema], below]
            digest = hashlib.blake2b(orjson.dumps(words), digest_size=12).digest()
            self._digests[id(schema)] = digest
        self._counts[digest] += 1
        return digest

    def _free_title(self, name: str) -> str:
        """Returns a free name. `kubectl explain` shows the end of it as the type of a field."""
        wanted = title = f"{_PREFIX}.{name[:1].upper()}{name[1:]}"
        number = 2
        while title in self.definitions:
            title, number = f"{wanted}{number}", number + 1
        return title


def _inner(schema: Schema) -> Iterator[Schema]:
    yield from (schema.get("properties") or {}).values()
    for holder in _SINGLE:
        if isinstance(schema.get(holder), dict):
            yield schema[holder]
