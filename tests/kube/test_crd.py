from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.kube import builtin
from muster.kube.crd import crd_from_kinds, kinds_from_crd, unsupported_crd_fields, validate_crd
from muster.kube.errors import Invalid
from muster.kube.kinds import Catalogue, Column, Kind, Scale
from muster.kube.manifests import load_manifests
from muster.kube.objects import Object, copy_of
from muster.kube.schema import INT32, QUANTITY, STRING, integer, list_of, obj, root, upstream_schema
from muster.kube.schema_validation import validate
from muster.kube.tables import build_table

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names:
    plural: crontabs
    singular: cron
    kind: CronTab
    shortNames: [ct]
    categories: [all]
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [cronSpec]
            properties:
              cronSpec: {type: string, pattern: '^(\\S+ ){4}\\S+$'}
              replicas: {type: integer, default: 1, minimum: 1}
              image: {type: string}
          status:
            type: object
            properties:
              replicas: {type: integer}
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.replicas
        statusReplicasPath: .status.replicas
        labelSelectorPath: .status.selector
    selectableFields:
    - {jsonPath: .spec.cronSpec}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
  - name: v1alpha1
    served: false
    storage: false
    schema:
      openAPIV3Schema: {type: object}
"""


def definition() -> Object:
    return copy_of(load_manifests(CRD, "crd.yaml")[0].object)


def test_a_definition_makes_kinds() -> None:
    kinds = kinds_from_crd(definition())
    assert [str(kind) for kind in kinds] == ["stable.example.com/v1 CronTab", "stable.example.com/v1beta1 CronTab"]
    stored, older = kinds
    assert (stored.plural, stored.namespaced, stored.short_names, stored.categories) == (
        "crontabs",
        True,
        ("ct", "cron"),
        ("all",),
    )
    assert (stored.has_status, older.has_status) == (True, False)
    assert stored.scale == Scale(".spec.replicas", ".status.replicas", ".status.selector")
    assert list(stored.selectable_fields) == ["spec.cronSpec"]
    catalogue = Catalogue(kinds)
    assert {catalogue.find(word) for word in ("ct", "cron", "crontab", "CronTab")} == {stored}


def test_objects_of_such_a_kind_are_defaulted_and_checked() -> None:
    kind = kinds_from_crd(definition())[0]
    assert kind.default is not None
    tab = {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": "x", "creationTimestamp": "2025-01-31T11:55:00Z"},
        "spec": {"cronSpec": "* * * * 1"},
    }
    filled = kind.default(tab)
    assert filled["spec"] == {"cronSpec": "* * * * 1", "replicas": 1}
    assert kind.default(filled) is filled
    assert validate(filled, kind.schema) == []
    wrong = {**tab, "metadata": {"nam": "x"}, "spec": {"replicas": 0, "img": "i"}}
    assert [cause.field for cause in validate(wrong, kind.schema)] == [
        "metadata.nam",
        "spec.replicas",
        "spec.img",
        "spec.cronSpec",
    ]
    answer = build_table(kind, [filled], datetime(2025, 1, 31, 12, tzinfo=UTC))
    assert [column.name for column in answer.columns] == ["Name", "Spec", "Age"]
    assert answer.rows[0].cells == ("x", "* * * * 1", "5m")


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"metadata": {"name": "x"}}, "metadata.name", '"crontabs.stable.example.com"'),
        ({"group": "stable"}, "metadata.name spec.group", "at least one dot"),
        (
            {"names": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["C T"]}},
            "spec.names.shortNames[0]",
            "use lower",
        ),
        ({"versions": []}, "spec.versions", "exactly one version marked as storage"),
        ({"scope": "Global"}, "spec.scope", 'supported values: "Namespaced", "Cluster"'),
    ],
)
def test_a_bad_definition_is_refused(change: Object, field: str, message: str) -> None:
    crd = definition()
    crd["metadata"].update(change.pop("metadata", {}))
    crd["spec"].update(change)
    with pytest.raises(Invalid) as caught:
        kinds_from_crd(crd)
    assert [cause.field for cause in caught.value.causes] == field.split()
    assert message in caught.value.causes[-1].message
    assert message in str(caught.value)


SCHEMA_AT = "spec.versions[0].schema.openAPIV3Schema"


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        (None, SCHEMA_AT, "schemas are required"),
        ({"type": "string"}, f"{SCHEMA_AT}.type", "must be object at the root"),
        ({}, f"{SCHEMA_AT}.type", "must not be empty"),
        ({"type": "object", "properties": {"a": {}}}, f"{SCHEMA_AT}.properties[a].type", "must not be empty"),
        ({"type": "object", "properties": {"a": {"type": "int"}}}, f"{SCHEMA_AT}.properties[a].type", '"int"'),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, f"{SCHEMA_AT}.properties[a].items", "specified"),
        ({"type": "object", "properties": []}, f"{SCHEMA_AT}.properties", "expected an object, got a list"),
        ({"type": "object", "properties": {"a": 1}}, f"{SCHEMA_AT}.properties[a]", "expected an object"),
        ({"type": "object", "additionalProperties": {"type": "?"}}, f"{SCHEMA_AT}.additionalProperties.type", '"?"'),
        ({"type": "object", "required": "spec"}, f"{SCHEMA_AT}.required", 'write it as "- spec"'),
        ({"type": "object", "enum": {}}, f"{SCHEMA_AT}.enum", "expected a list"),
        ({"type": "object", "$ref": "#/x"}, f"{SCHEMA_AT}.$ref", "$ref is not supported"),
    ],
)  # fmt: skip
def test_a_schema_has_to_be_structural(schema: Any, field: str, message: str) -> None:
    crd = definition()
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd["spec"]["versions"] = [version]
    causes = validate_crd(crd, None)
    assert [cause.field for cause in causes] == [field]
    assert message in causes[0].message


def test_group_and_scope_are_fixed() -> None:
    old, new = definition(), definition()
    new["spec"]["scope"] = "Cluster"
    assert [cause.field for cause in validate_crd(new, old)] == ["spec.scope"]


def test_what_is_not_done_is_named() -> None:
    crd = definition()
    assert unsupported_crd_fields(crd) == []
    crd["spec"]["conversion"] = {"strategy": "Webhook"}
    crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = [
        {"rule": "url(self.a).isAbsolute()"}
    ]
    assert [cause.field for cause in unsupported_crd_fields(crd)] == [
        "spec.conversion",
        "spec.versions[1].schema.openAPIV3Schema.properties[spec]",
    ]


def test_a_kind_makes_a_definition_that_makes_the_kind() -> None:
    item = obj({"name": STRING, "port": INT32}, ["name"])
    schema = root({
        "spec": obj({
            "replicas": integer(0, default=1),
            "cpu": QUANTITY,
            "items": list_of(item, map_keys=["name"], patch_merge_key="name"),
            "loose": list_of(item, map_keys=["name"], duplicates=True),
            "keyless": list_of(item, map_keys=["port"]),
        }),
        "status": obj({"replicas": INT32}),
    })  # fmt: skip
    kind = Kind(
        "example.com", "v1", "Thing", "things",
        short_names=("th",), categories=("all",), schema=schema, scale=Scale(selector=".status.selector"),
        columns=(Column("Replicas", ".spec.replicas", "integer", 1, "how many"), Column("C", cell=lambda *_: "")),
    )  # fmt: skip
    crd = crd_from_kinds([kind])
    assert crd["metadata"]["name"] == "things.example.com"
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties["metadata"] == {"type": "object"}
    spec = properties["spec"]["properties"]
    assert spec["cpu"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert "x-kubernetes-patch-merge-key" not in spec["items"]
    assert [spec[key]["x-kubernetes-list-type"] for key in ("items", "loose", "keyless")] == ["map", "atomic", "atomic"]
    assert "x-muster-duplicates" not in spec["loose"]
    (again,) = kinds_from_crd(crd)
    assert (again.kind, again.short_names, again.categories, again.has_status) == ("Thing", ("th",), ("all",), True)
    assert again.scale == kind.scale
    assert again.columns == kind.columns[:1]
    for cpu, fits in (("500m", True), (2, True), ("2 cores", False)):
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"cpu": cpu}}
        assert (validate(thing, again.schema) == []) is fits


@pytest.mark.parametrize("kind", [builtin.POD_GROUP, builtin.QUEUE, builtin.PLUGIN_POD_GROUP], ids=str)
def test_the_gang_kinds_can_be_defined_on_a_cluster(kind: Kind) -> None:
    crd = crd_from_kinds([kind])
    assert validate(crd, upstream_schema("apiextensions.v1.CustomResourceDefinition")) == []
    assert validate_crd(crd, None) == []


def test_several_versions_are_one_definition() -> None:
    kinds = kinds_from_crd(definition())
    versions = crd_from_kinds(kinds)["spec"]["versions"]
    assert [(v["name"], v["storage"]) for v in versions] == [("v1", True), ("v1beta1", False)]
