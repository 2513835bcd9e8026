from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from muster.kube.kinds import Catalogue
from muster.kube.manifests import load_manifest_files
from muster.kube.schema_validation import validate
from muster.workflows.kinds import WORKFLOW, workflow_kinds

ROOT = Path(os.environ.get("MUSTER_CONFORMANCE") or Path(__file__).parents[3] / "shared" / "conformance")
FILES = sorted((ROOT / "argo").rglob("*.yaml"))


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("wf", "Workflow"),
        ("workflows", "Workflow"),
        ("wftmpl", "WorkflowTemplate"),
        ("cwft", "ClusterWorkflowTemplate"),
        ("clusterwftmpl", "ClusterWorkflowTemplate"),
        ("cwf", "CronWorkflow"),
        ("cronwf", "CronWorkflow"),
        ("wfeb", "WorkflowEventBinding"),
        ("wfts", "WorkflowTaskSet"),
        ("workflowtaskresults", "WorkflowTaskResult"),
        ("wfat", "WorkflowArtifactGCTask"),
    ],
)
def test_is_found_by_its_names(word: str, kind: str) -> None:
    assert Catalogue(workflow_kinds()).find(word).kind == kind


def test_only_a_cluster_workflow_template_belongs_to_no_namespace() -> None:
    assert [kind.kind for kind in workflow_kinds() if not kind.namespaced] == ["ClusterWorkflowTemplate"]


def test_status_is_written_with_the_rest_as_upstream_has_it() -> None:
    apart = [kind.kind for kind in workflow_kinds() if kind.has_status]
    assert apart == ["WorkflowTaskSet", "WorkflowArtifactGCTask"]


@pytest.mark.skipif(not FILES, reason="the conformance manifests are not here (set MUSTER_CONFORMANCE)")
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_argo_ships_as_examples_fits(file: Path) -> None:
    catalogue = Catalogue(workflow_kinds())
    for document in load_manifest_files([file], named=False):
        if document.object["apiVersion"] == "argoproj.io/v1alpha1":
            assert validate(document.object, catalogue.of_object(document.object).schema) == []


def template(**fields: Any) -> dict[str, Any]:
    return {"templates": [{"name": "main", **fields}]}


def parameter(value: Any) -> dict[str, Any]:
    return {"arguments": {"parameters": [{"name": "p", "value": value}]}}


@pytest.mark.parametrize(
    "spec",
    [
        parameter(5),
        parameter(2.5),
        parameter(True),
        parameter("text"),
        template(container={"image": "busybox", "imagePullPolicy": "{{inputs.parameters.policy}}"}),
        template(activeDeadlineSeconds="{{inputs.parameters.seconds}}"),
        template(retryStrategy={"limit": "{{inputs.parameters.limit}}", "backoff": {"factor": 2}}),
        template(retryStrategy={"limit": 3, "backoff": {"factor": "2"}}),
        template(steps=[[{"name": "a", "template": "b", "withItems": [1, "a", True, {"x": [1]}, [1, 2], None]}]]),
        template(steps=[[{"name": "a", "inline": {"steps": [[{"name": "b", "inline": {"container": {}}}]]}}]]),
        template(plugin={"mine": {"anything": [1]}}),
        {"synchronization": {"mutex": {"name": "m"}}},
        {"synchronization": {"mutexes": [{"name": "m", "database": True}]}},
    ],
)
def test_takes_what_argo_takes(spec: dict[str, Any]) -> None:
    assert validate(spec, WORKFLOW.schema["properties"]["spec"], "spec") == []


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            parameter([1, 2]),
            "spec.arguments.parameters[0].value",
            "expected a string, a number or a boolean, got a list of 2 items; write it as JSON in quotes: '[1,2]'",
        ),
        (template(contianer={}), "spec.templates[0].contianer", 'unknown field "contianer"; did you mean "container"?'),
        (template(suspend={"duratoin": "1s"}), "spec.templates[0].suspend.duratoin", "unknown field"),
        (template(plugin={"a": {}, "b": {}}), "spec.templates[0].plugin", "must have at most 1"),
        (template(parallelism=0), "spec.templates[0].parallelism", "greater than or equal to 1"),
        (
            template(outputs={"parameters": [{"name": "a", "valueFrom": {"supplied": {"x": 1}}}]}),
            "spec.templates[0].outputs.parameters[0].valueFrom.supplied.x",
            "unknown field",
        ),
        ({"shutdown": "Now"}, "spec.shutdown", "Unsupported value"),
        (
            template(container={"resources": {"limits": {"memory": "{{inputs.parameters.memory}}"}}}),
            "spec.templates[0].container.resources.limits[memory]",
            "Invalid value",
        ),
    ],
)
def test_refuses_what_argo_does_not_know(spec: dict[str, Any], field: str, message: str) -> None:
    (cause,) = validate(spec, WORKFLOW.schema["properties"]["spec"], "spec")
    assert cause.field == field
    assert message in cause.message
