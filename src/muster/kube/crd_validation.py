"""The rules of CustomResourceDefinitions that their schema cannot say, and what of them the box does not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.kube.causes import duplicate, forbidden, invalid, not_supported, required
from muster.kube.errors import Cause
from muster.kube.names import dns_label, dns_name
from muster.kube.objects import Object, name_of, spec_of
from muster.kube.schema import (
    ANY,
    BOOLEAN,
    NUMBER,
    STRING,
    STRINGS,
    integer,
    list_of,
    map_of,
    obj,
    of,
    string,
    validate,
)
from muster.kube.validation import rule, unchanged

_COLUMN_TYPES = ("string", "integer", "number", "boolean", "date")
_FREE = map_of(ANY)
_LEVEL = obj(
    {
        "type": string(["object", "array", "string", "integer", "number", "boolean"]),
        "properties": _FREE,
        "required": STRINGS,
        "enum": list_of(ANY),
        **of(STRING, "format pattern"),
        **of(NUMBER, "minimum maximum multipleOf"),
        **of(integer(0), "minLength maxLength minItems maxItems minProperties maxProperties"),
        **of(BOOLEAN, "nullable uniqueItems exclusiveMinimum exclusiveMaximum"),
        **of(BOOLEAN, "x-kubernetes-preserve-unknown-fields x-kubernetes-int-or-string x-kubernetes-embedded-resource"),
        **of(list_of(_FREE), "allOf anyOf oneOf"),
        "not": _FREE,
        "x-kubernetes-list-type": string(["atomic", "set", "map"]),
        "x-kubernetes-list-map-keys": STRINGS,
        "x-kubernetes-map-type": string(["atomic", "granular"]),
    },
    keep_unknown=True,
)
"""One level of a schema; the levels below are looked at on their own."""


@rule
def custom_resource_definition_rule(crd: Object, old: Object | None) -> Iterator[Cause]:
    spec, names = crd["spec"], crd["spec"]["names"]
    if old is not None and spec is old.get("spec"):
        return
    wanted = f"{names['plural']}.{spec['group']}"
    if name_of(crd) != wanted:
        yield invalid("metadata.name", name_of(crd), f'must be spec.names.plural + "." + spec.group: "{wanted}"')
    yield from dns_name("spec.group", spec["group"])
    if "." not in spec["group"]:
        yield invalid("spec.group", spec["group"], "should be a domain with at least one dot")
    yield from dns_label("spec.names.plural", names["plural"])
    for number, word in enumerate(names.get("shortNames") or ()):
        yield from dns_label(f"spec.names.shortNames[{number}]", word)
    yield from _versions(spec["versions"])
    if old is not None:
        yield from unchanged(spec, spec_of(old), ("group", "scope"), "spec.")


def unheeded(crd: Object) -> list[Cause]:
    """What a definition asks for and the embedded cluster does not do: to warn about, not to refuse."""
    causes: list[Cause] = []
    conversion = spec_of(crd).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        why = "objects are not converted by webhooks; all versions are stored and answered alike"
        causes.append(Cause("spec.conversion", why))
    for number, version in enumerate(spec_of(crd).get("versions") or ()):
        root = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        at = f"spec.versions[{number}].schema.openAPIV3Schema"
        unevaluated = "CEL expressions (x-kubernetes-validations) are not evaluated"
        causes += [Cause(path, unevaluated) for path in _with_expressions(root, at)]
    return causes


def _versions(versions: list[Object]) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, version in enumerate(versions):
        at = f"spec.versions[{number}]"
        yield from dns_label(f"{at}.name", version["name"])
        if version["name"] in seen:
            yield duplicate(f"{at}.name", version["name"])
        seen.add(version["name"])
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield required(f"{at}.schema.openAPIV3Schema", "schemas are required")
        else:
            yield from _structural(schema, f"{at}.schema.openAPIV3Schema", is_root=True)
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            if column["type"] not in _COLUMN_TYPES:
                yield not_supported(f"{at}.additionalPrinterColumns[{index}].type", column["type"], _COLUMN_TYPES)
    if sum(bool(version["storage"]) for version in versions) != 1:
        yield invalid(
            "spec.versions", [v["name"] for v in versions], "must have exactly one version marked as storage version"
        )


def _structural(schema: Any, path: str, *, is_root: bool = False) -> Iterator[Cause]:
    """Every level says its type, and nothing refers to elsewhere."""
    malformed = validate(schema, _LEVEL, path)
    if malformed:
        yield from malformed
        return
    kind = schema.get("type")
    if kind is None:
        if not schema.get("x-kubernetes-int-or-string") and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield required(f"{path}.type", "must not be empty for specified " + ("root" if is_root else "fields"))
    elif is_root and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if "$ref" in schema:
        yield forbidden(f"{path}.$ref", "$ref is not supported")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _structural(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _structural(schema["additionalProperties"], f"{path}.additionalProperties")
    if schema.get("items") is not None:
        yield from _structural(schema["items"], f"{path}.items")
    elif kind == "array":
        yield required(f"{path}.items", "must be specified")


def _with_expressions(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-validations"):
        yield path
    for name, inner in (schema.get("properties") or {}).items():
        yield from _with_expressions(inner, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        yield from _with_expressions(schema.get(key), f"{path}.{key}")
