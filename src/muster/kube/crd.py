"""CustomResourceDefinitions: validates them, reads kinds from them, and writes them for our own kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from muster.kube.crd_rules import find_rule_problems, rules_of, unevaluated_rules
from muster.kube.errors import (
    Cause,
    Invalid,
    check_dns_label,
    check_dns_name,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from muster.kube.kinds import Column, Kind, Rule, Scale, Schema
from muster.kube.objects import Object, name_of, spec_of
from muster.kube.schema import (
    ANY,
    BOOLEAN,
    NUMBER,
    OBJECT_META,
    STRING,
    STRINGS,
    apply_defaults,
    integer,
    list_of,
    map_of,
    obj,
    of,
    string,
    upstream_schema,
)
from muster.kube.schema_validation import validate
from muster.kube.selectors import SelectableField
from muster.kube.validation import check_unchanged, validate_metadata, validator

_COLUMN_TYPES = ("string", "integer", "number", "boolean", "date")
_ANY_MAP = map_of(ANY)
_SCHEMA_LEVEL = obj(
    {
        "type": string(["object", "array", "string", "integer", "number", "boolean"]),
        "properties": _ANY_MAP,
        "required": STRINGS,
        "enum": list_of(ANY),
        **of(STRING, "format pattern"),
        **of(NUMBER, "minimum maximum multipleOf"),
        **of(integer(0), "minLength maxLength minItems maxItems minProperties maxProperties"),
        **of(BOOLEAN, "nullable uniqueItems exclusiveMinimum exclusiveMaximum"),
        **of(BOOLEAN, "x-kubernetes-preserve-unknown-fields x-kubernetes-int-or-string x-kubernetes-embedded-resource"),
        **of(list_of(_ANY_MAP), "allOf anyOf oneOf"),
        "not": _ANY_MAP,
        "x-kubernetes-list-type": string(["atomic", "set", "map"]),
        "x-kubernetes-list-map-keys": STRINGS,
        "x-kubernetes-map-type": string(["atomic", "granular"]),
    },
    keep_unknown=True,
)
"""One level of a schema; the levels below are validated separately."""


@validator
def validate_crd(crd: Object, old: Object | None) -> Iterator[Cause]:
    spec, names = crd["spec"], crd["spec"]["names"]
    if old is not None and spec is old.get("spec"):
        return
    wanted = f"{names['plural']}.{spec['group']}"
    if name_of(crd) != wanted:
        yield invalid("metadata.name", name_of(crd), f'must be spec.names.plural + "." + spec.group: "{wanted}"')
    yield from check_dns_name("spec.group", spec["group"])
    if "." not in spec["group"]:
        yield invalid("spec.group", spec["group"], "should be a domain with at least one dot")
    yield from check_dns_label("spec.names.plural", names["plural"])
    for number, word in enumerate(names.get("shortNames") or ()):
        yield from check_dns_label(f"spec.names.shortNames[{number}]", word)
    yield from _validate_versions(spec["versions"])
    if old is not None:
        yield from check_unchanged(spec, spec_of(old), ("group", "scope"), "spec.")


def unsupported_crd_fields(crd: Object) -> list[Cause]:
    """Returns the fields that the embedded cluster does not support, for warnings."""
    causes: list[Cause] = []
    conversion = spec_of(crd).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        why = "conversion webhooks are not supported; objects are stored and returned unchanged in all versions"
        causes.append(Cause("spec.conversion", why))
    for number, version in enumerate(spec_of(crd).get("versions") or ()):
        root = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        at = f"spec.versions[{number}].schema.openAPIV3Schema"
        for path, rules in _find_cel_rules(root, at):
            causes += [Cause(path, f"a CEL rule is not evaluated: {why}") for why in unevaluated_rules(rules)]
    return causes


def _validate_versions(versions: list[Object]) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, version in enumerate(versions):
        at = f"spec.versions[{number}]"
        yield from check_dns_label(f"{at}.name", version["name"])
        if version["name"] in seen:
            yield duplicate(f"{at}.name", version["name"])
        seen.add(version["name"])
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield required(f"{at}.schema.openAPIV3Schema", "schemas are required")
        else:
            yield from _validate_structural_schema(schema, f"{at}.schema.openAPIV3Schema", is_root=True)
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            if column["type"] not in _COLUMN_TYPES:
                yield not_supported(f"{at}.additionalPrinterColumns[{index}].type", column["type"], _COLUMN_TYPES)
    if sum(bool(version["storage"]) for version in versions) != 1:
        yield invalid(
            "spec.versions", [v["name"] for v in versions], "must have exactly one version marked as storage version"
        )


def _validate_structural_schema(schema: Any, path: str, *, is_root: bool = False) -> Iterator[Cause]:
    """Every level must have a type, and references are not allowed."""
    malformed = validate(schema, _SCHEMA_LEVEL, path)
    if malformed:
        yield from malformed
        return
    kind = schema.get("type")
    if kind is None:
        if not schema.get("x-kubernetes-int-or-string") and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield required(f"{path}.type", "must not be empty for specified " + ("root" if is_root else "fields"))
    elif is_root and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if schema.get("x-kubernetes-validations"):
        yield from find_rule_problems(schema["x-kubernetes-validations"], f"{path}.x-kubernetes-validations")
    if "$ref" in schema:
        yield forbidden(f"{path}.$ref", "$ref is not supported")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _validate_structural_schema(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _validate_structural_schema(schema["additionalProperties"], f"{path}.additionalProperties")
    if schema.get("items") is not None:
        yield from _validate_structural_schema(schema["items"], f"{path}.items")
    elif kind == "array":
        yield required(f"{path}.items", "must be specified")


def _find_cel_rules(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-validations"):
        yield path, schema["x-kubernetes-validations"]
    for name, inner in (schema.get("properties") or {}).items():
        yield from _find_cel_rules(inner, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        yield from _find_cel_rules(schema.get(key), f"{path}.{key}")


_QUANTITY_PATTERN = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
_INTERNAL_EXTENSIONS = ("x-muster-", "x-kubernetes-patch-")


def kinds_from_crd(crd: Object) -> list[Kind]:
    """Returns one kind for every served version, the stored one first. Raises Invalid for an invalid definition."""
    causes = validate(crd, upstream_schema("apiextensions.v1.CustomResourceDefinition")) or validate_crd(crd, None)
    if causes:
        listed = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
        raise Invalid(f'CustomResourceDefinition "{name_of(crd)}" is invalid: {listed}', causes=causes)
    versions = [version for version in crd["spec"]["versions"] if version["served"]]
    return [
        _kind_of_version(crd["spec"], version)
        for version in sorted(versions, key=lambda version: not version["storage"])
    ]


def crd_from_kinds(kinds: Sequence[Kind]) -> Object:
    """Returns the definition of one kind in all its versions; the first one is stored. Computed columns, which have no
    path, are left out."""
    first = kinds[0]
    names: Object = {
        "kind": first.kind,
        "listKind": f"{first.kind}List",
        "plural": first.plural,
        "singular": first.singular,
    }
    if first.short_names:
        names["shortNames"] = list(first.short_names)
    if first.categories:
        names["categories"] = list(first.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{first.plural}.{first.group}"},
        "spec": {
            "group": first.group,
            "names": names,
            "scope": "Namespaced" if first.namespaced else "Cluster",
            "versions": [_write_version(kind, stored=kind is first) for kind in kinds],
        },
    }


def _kind_of_version(spec: Object, version: Object) -> Kind:
    names, subresources = spec["names"], version.get("subresources") or {}
    schema = _with_metadata((version.get("schema") or {}).get("openAPIV3Schema") or ANY)
    words = tuple(names.get("shortNames") or ())
    singular = names.get("singular") or names["kind"].lower()
    if singular != names["kind"].lower():
        words += (singular,)
    return Kind(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=words,
        categories=tuple(names.get("categories") or ()),
        schema=schema,
        columns=tuple(map(_read_column, version.get("additionalPrinterColumns") or ())),
        has_status=subresources.get("status") is not None,
        scale=_read_scale(subresources.get("scale")),
        default=partial(apply_defaults, schema=schema),
        validate=_rule_of(schema),
        is_defined=True,
        selectable_fields={
            path: SelectableField(path)
            for selectable in version.get("selectableFields") or ()
            if (path := selectable["jsonPath"].removeprefix("."))
        },
    )


def _rule_of(schema: Schema) -> Rule:
    check = rules_of(schema)
    if check is None:
        return validate_metadata
    return lambda obj, old: [*validate_metadata(obj, old), *check(obj, old)]


def _with_metadata(schema: Schema) -> Schema:
    """Adds the three fields that every object has, whatever its definition says."""
    common = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META}
    return {**schema, "type": "object", "properties": {**(schema.get("properties") or {}), **common}}


def _read_column(column: Object) -> Column:
    return Column(
        column["name"],
        column["jsonPath"],
        column["type"],
        column.get("priority") or 0,
        column.get("description") or "",
    )


def _read_scale(scale: Object | None) -> Scale | None:
    if scale is None:
        return None
    return Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or "")


def _write_version(kind: Kind, *, stored: bool) -> Object:
    schema = _portable_schema(kind.schema or {"type": "object", **ANY})
    schema["properties"] = {**schema.get("properties", {}), "metadata": {"type": "object"}}
    version: Object = {
        "name": kind.version,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema},
    }
    columns = [_write_column(column) for column in kind.columns if column.json_path and column.name != "Name"]
    if columns:
        version["additionalPrinterColumns"] = columns
    subresources: Object = {}
    if kind.has_status:
        subresources["status"] = {}
    if kind.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.replicas,
            "statusReplicasPath": kind.scale.status_replicas,
        } | ({"labelSelectorPath": kind.scale.selector} if kind.scale.selector else {})
    if subresources:
        version["subresources"] = subresources
    return version


def _write_column(column: Column) -> Object:
    printed: Object = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.priority:
        printed["priority"] = column.priority
    if column.description:
        printed["description"] = column.description
    return printed


def _portable_schema(schema: Schema) -> Schema:
    """Returns the schema without the extensions that only we or built-in kinds use."""
    if schema.get("format") == "quantity":
        either = [{"type": "integer"}, {"type": "string"}]
        return {"anyOf": either, "pattern": _QUANTITY_PATTERN, "x-kubernetes-int-or-string": True}
    portable: Schema = {}
    for key, value in schema.items():
        if key.startswith(_INTERNAL_EXTENSIONS) or (key == "additionalProperties" and value is False):
            continue
        if key == "properties":
            portable[key] = {name: _portable_schema(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            portable[key] = _portable_schema(value)
        else:
            portable[key] = value
    if portable.get("x-kubernetes-list-type") == "map" and not _has_required_keys(schema):
        portable["x-kubernetes-list-type"] = "atomic"
        del portable["x-kubernetes-list-map-keys"]
    return portable


def _has_required_keys(schema: Schema) -> bool:
    """An API server requires that items have their keys, or defaults for them, and that no two items have the same
    keys."""
    if schema.get("x-muster-duplicates"):
        return False
    item: dict[str, Any] = schema.get("items") or {}
    properties, required = item.get("properties") or {}, item.get("required") or ()
    return all(
        key in required or (properties.get(key) or {}).get("default") is not None
        for key in schema["x-kubernetes-list-map-keys"]
    )
