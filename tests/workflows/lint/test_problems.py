from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.kube.kinds import Catalogue
from muster.kube.manifests import load_manifest_files
from muster.kube.objects import Object, name_of
from muster.kube.schema_validation import validate
from muster.workflows.kinds import workflow_kinds
from muster.workflows.lint import find_problems
from tests.workflows.lint.samples import Sample, lookup, samples

BAD, GOOD = list(samples("bad")), list(samples("good"))
ROOT = Path(os.environ.get("MUSTER_CONFORMANCE") or Path(__file__).parents[4] / "shared" / "conformance")
FILES = sorted((ROOT / "argo").rglob("*.yaml"))


@pytest.mark.parametrize("sample", BAD, ids=lambda sample: sample.name)
def test_what_is_bad_is_found_and_told_where(sample: Sample) -> None:
    found = find_problems(sample.object, lookup)
    assert [cause.field for cause in found] == [sample.field], found
    assert sample.message in found[0].message


@pytest.mark.parametrize("sample", GOOD, ids=lambda sample: sample.name)
def test_what_is_good_is_let_pass(sample: Sample) -> None:
    assert find_problems(sample.object, lookup) == []


@pytest.mark.parametrize("sample", BAD + GOOD, ids=lambda sample: sample.name)
def test_a_schema_has_nothing_against_it(sample: Sample) -> None:
    kind = Catalogue(workflow_kinds()).of_object(sample.object)
    assert validate(sample.object, kind.schema) == []


@pytest.mark.parametrize("sample", GOOD, ids=lambda sample: sample.name)
def test_without_other_objects_the_rest_is_judged(sample: Sample) -> None:
    assert find_problems(sample.object) == []


def all_files() -> list[Object]:
    return [document.object for document in load_manifest_files(FILES, named=False)]


@pytest.mark.skipif(not FILES, reason="the conformance manifests are not here (set MUSTER_CONFORMANCE)")
def test_argos_own_examples_are_good() -> None:
    objects = all_files()
    shared = {
        (o["kind"] == "ClusterWorkflowTemplate", name_of(o)): o for o in objects if o["kind"].endswith("Template")
    }

    def find(name: str, cluster_scope: bool) -> Object | None:
        return shared.get((cluster_scope, name))

    assert objects
    assert [cause for obj in objects for cause in find_problems(obj, find)] == []
    assert [cause for obj in objects for cause in find_problems(obj, submitted=True)] == []
