from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from muster.kube.crd import kinds_from_crd
from muster.kube.objects import Object, name_of
from muster.kube.schema_validation import unknown_fields, validate
from muster.operator.install_manifests import build_crds
from muster.training.registry import training_kinds

DEFINITIONS = {name_of(crd): crd for crd in build_crds()}
each = pytest.mark.parametrize("crd", DEFINITIONS.values(), ids=name_of)


def test_there_is_one_for_every_kind_and_it_serves_every_version() -> None:
    served = {
        (crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"])
        for crd in DEFINITIONS.values()
        for version in crd["spec"]["versions"]
        if version["served"]
    }
    assert served == {(kind.group, kind.version, kind.kind) for kind in training_kinds()}
    stored = {name: [v["name"] for v in c["spec"]["versions"] if v["storage"]] for name, c in DEFINITIONS.items()}
    assert stored == {name: ["v1"] for name in DEFINITIONS}


@each
def test_the_definition_follows_the_rules(crd: Object) -> None:
    assert [kind.kind for kind in kinds_from_crd(crd)] == [crd["spec"]["names"]["kind"]] * len(crd["spec"]["versions"])


@each
def test_it_is_small_enough_for_every_way_of_applying_it(crd: Object) -> None:
    assert len(orjson.dumps(crd)) < 256 * 1024, "kubectl apply keeps the whole of it in an annotation"


@each
def test_nothing_is_kept_unseen_and_no_value_is_judged(crd: Object) -> None:
    for path, schema in levels(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], ""):
        assert not schema.get("x-kubernetes-preserve-unknown-fields"), path
        assert not {"enum", "minimum", "maximum", "minLength"} & schema.keys(), path


@each
def test_all_versions_have_the_same_fields(crd: Object) -> None:
    schemas = [version["schema"] for version in crd["spec"]["versions"]]
    assert all(schema == schemas[0] for schema in schemas), "there is no conversion"


@pytest.mark.parametrize(
    ("name", "short", "columns", "scale"),
    [
        ("pytorchjobs.kubeflow.org", None, ["State", "Age"], ".spec.pytorchReplicaSpecs.Worker.replicas"),
        ("tfjobs.kubeflow.org", None, ["State", "Age"], None),
        ("xgboostjobs.kubeflow.org", None, ["State", "Age"], None),
        ("mpijobs.kubeflow.org", None, ["Age", "State"], None),
        ("paddlejobs.kubeflow.org", None, ["State", "Age"], ".spec.paddleReplicaSpecs.Worker.replicas"),
        ("jaxjobs.kubeflow.org", None, ["State", "Age"], ".spec.jaxReplicaSpecs.Worker.replicas"),
        ("paddlejobs.batch.paddlepaddle.org", ["pdj"], ["Status", "Mode", "Age"], None),
    ],
)
def test_it_looks_as_upstream_s_does(name: str, short: list[str] | None, columns: list[str], scale: str | None) -> None:
    crd = DEFINITIONS[name]
    version = crd["spec"]["versions"][0]
    assert crd["spec"]["names"].get("shortNames") == short
    assert "categories" not in crd["spec"]["names"]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns
    assert version["subresources"]["status"] == {}
    assert (version["subresources"].get("scale") or {}).get("specReplicasPath") == scale


@pytest.mark.parametrize(
    ("metadata", "dropped"),
    [
        ({"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "x", "namespace": "y", "finalizers": ["f"]}, []),
        ({"creationTimestamp": None}, ["creationTimestamp"]),  # as Go clients write it
    ],
)
def test_metadata_of_templates(metadata: Object, dropped: list[str]) -> None:
    (kind,) = kinds_from_crd(DEFINITIONS["tfjobs.kubeflow.org"])
    template = {"metadata": metadata, "spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    job = {"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}}
    path = "spec.tfReplicaSpecs[Worker].template.metadata"
    assert unknown_fields(job, kind.schema) == [f"{path}.{field}" for field in dropped]


def test_what_upstream_stored_can_still_be_written() -> None:
    """The embedded cluster's schema would reject both; a CRD must not, or the job's status could not be written."""
    (kind,) = kinds_from_crd(DEFINITIONS["tfjobs.kubeflow.org"])
    container = {"name": "tensorflow", "image": "i", "imagePullPolicy": "Sometimes"}
    job = {
        "spec": {
            "runPolicy": {"backoffLimit": -1},
            "tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}},
        }
    }
    assert validate(job, kind.schema) == []


def levels(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from levels(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from levels(schema[key], f"{path}[]")
