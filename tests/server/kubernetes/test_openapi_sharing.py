from __future__ import annotations

from typing import Any

import orjson

from muster.kube.builtin import builtin_kinds
from muster.server.kubernetes import openapi
from muster.server.kubernetes.openapi import SchemaSharing
from muster.training.registry import training_kinds
from muster.workflows.kinds import workflow_kinds

KINDS = (*builtin_kinds(), *training_kinds(), *workflow_kinds())


def container(description: str = "") -> dict[str, Any]:
    return {"type": "object", "properties": {"image": {"type": "string"}}, "description": description}


def pod(**containers: dict[str, Any]) -> dict[str, Any]:
    lists = {name: {"type": "array", "items": schema} for name, schema in containers.items()}
    return {"type": "object", "properties": lists}


def test_repeated_schemas_are_shared_under_the_name_of_their_field() -> None:
    schema = pod(containers=container(), initContainers=container())
    sharing = SchemaSharing([schema], "#/definitions/")
    ref = {"type": "array", "items": {"$ref": "#/definitions/io.muster.schema.Containers"}}
    assert sharing.share(schema)["properties"] == {"containers": ref, "initContainers": ref}
    assert sharing.definitions == {"io.muster.schema.Containers": container()}


def test_different_schemas_of_one_field_name_get_different_names() -> None:
    first, second = pod(containers=container("a")), pod(containers=container("b"))
    sharing = SchemaSharing([first, first, second, second], "#/definitions/")
    sharing.share(first)
    sharing.share(second)
    assert set(sharing.definitions) == {"io.muster.schema.Containers", "io.muster.schema.Containers2"}


def test_schemas_that_occur_once_are_not_shared() -> None:
    schema = pod(containers=container())
    sharing = SchemaSharing([schema], "#/definitions/")
    assert sharing.share(schema) == schema
    assert sharing.definitions == {}


def expanded(schema: Any, definitions: dict[str, Any]) -> Any:
    """Without descriptions, and with references replaced by what they refer to."""
    if isinstance(schema, dict) and isinstance(schema.get("description"), str):
        rest = {key: value for key, value in schema.items() if key != "description"}
        return expanded(rest["allOf"][0] if rest.keys() == {"allOf"} else rest, definitions)
    if isinstance(schema, dict) and "$ref" in schema:
        return expanded(definitions[schema["$ref"].removeprefix("#/components/schemas/")], definitions)
    if isinstance(schema, dict):
        return {key: expanded(value, definitions) for key, value in schema.items()}
    return [expanded(value, definitions) for value in schema] if isinstance(schema, list) else schema


def test_sharing_does_not_change_the_schemas() -> None:
    for kind in KINDS:
        document = openapi.v3_document([kind], openapi.group_path(kind))
        assert document is not None
        schemas = document["components"]["schemas"]
        [told] = [schema for schema in schemas.values() if "x-kubernetes-group-version-kind" in schema]
        for field, schema in (kind.schema.get("properties") or {}).items():
            assert expanded(told["properties"][field], schemas) == expanded(schema, {})


def test_documents_are_small() -> None:
    paths = {openapi.group_path(kind) for kind in KINDS}
    assert sum(len(orjson.dumps(openapi.v3_document(KINDS, path))) for path in paths) < 3_000_000
    assert len(orjson.dumps(openapi.v2_document(KINDS))) < 3_000_000
