"""The Workflow of a pipeline run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.kube.kinds import Catalogue
from muster.kube.objects import Object
from muster.kube.schema_validation import validate
from muster.pipelines.compile import pipeline_run, to_workflow
from muster.pipelines.spec import parse_pipeline
from muster.workflows.kinds import workflow_kinds

SPEC: dict[str, Any] = {
    "pipelineInfo": {"name": "empty"},
    "schemaVersion": "2.1.0",
    "root": {
        "dag": {},
        "inputDefinitions": {"parameters": {"n": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3}}},
    },
}


def compiled(config: dict[str, Any] | None = None, **fields: Any) -> Object:
    platform = {"platforms": {"kubernetes": {"pipelineConfig": config or {}}}}
    pipeline = parse_pipeline({"pipeline_spec": SPEC, "platform_spec": platform})
    given: dict[str, Any] = {"parameters": {}, "namespace": "n", "display_name": "run", "run_id": "r-1", **fields}
    return to_workflow(pipeline, **given)


def test_a_run_without_parameters_has_the_defaults() -> None:
    workflow = compiled()
    arguments = {each["name"]: each["value"] for each in workflow["spec"]["arguments"]["parameters"]}
    assert json.loads(arguments["kfp-inputs"]) == {"parameterValues": {"n": 3}}
    assert workflow["metadata"]["name"] == "empty-r1"


def test_a_workflow_says_which_pipeline_and_run_it_is() -> None:
    workflow = compiled(
        display_name="{{workflow.name}}", pipeline_root="gs://bucket/", scheduled="2026-01-01T00:00:00Z"
    )
    assert "{{" not in json.dumps(workflow["spec"])  # nothing that Argo would take for a tag
    found = pipeline_run(workflow)
    assert found is not None
    info = found.info
    assert (info.run_id, info.display_name, info.pipeline_root) == ("r-1", "{{workflow.name}}", "gs://bucket")
    assert (info.pipeline_name, info.scheduled) == ("empty", "2026-01-01T00:00:00Z")
    assert pipeline_run({"spec": {"arguments": {"parameters": [{"name": "other", "value": "1"}]}}}) is None


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        ({}, {}),
        (
            {"resourceTtlOnCompletion": 60, "resourceTtlOnSuccess": 30, "resourceTtlOnFailure": 90},
            {"ttlStrategy": {"secondsAfterCompletion": 60, "secondsAfterSuccess": 30, "secondsAfterFailure": 90}},
        ),
        ({"activeDeadlineSeconds": "100"}, {"activeDeadlineSeconds": 100}),
        ({"mutexName": "m"}, {"synchronization": {"mutexes": [{"name": "m"}]}}),
        (
            {"semaphoreKey": "k"},
            {"synchronization": {"semaphores": [{"configMapKeyRef": {"name": "semaphore-config", "key": "k"}}]}},
        ),
        (
            {"workspace": {"size": "1Gi", "kubernetes": {"pvcSpecPatch": {"storageClassName": "fast"}}}},
            {
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "kfp-workspace"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "storageClassName": "fast",
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                ]
            },
        ),
    ],
)
def test_the_configuration_of_a_pipeline_becomes_fields_of_the_workflow(
    config: dict[str, Any], fields: dict[str, Any]
) -> None:
    workflow = compiled(config)
    assert {k: v for k, v in workflow["spec"].items() if k not in ("entrypoint", "templates", "arguments")} == fields
    assert validate(workflow, Catalogue(workflow_kinds()).of_object(workflow).schema) == []
