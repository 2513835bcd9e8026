"""From what a user submits to the Workflow that is created."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.workflows.submit import (
    SubmissionError,
    SubmitOptions,
    apply_options,
    override_parameters,
    parameters_from_file,
    source_kind,
    workflow_from_cron,
    workflow_from_template,
)

WORKFLOW: Object = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "a-", "labels": {"old": "1"}},
    "spec": {
        "entrypoint": "main",
        "arguments": {"parameters": [{"name": "lr", "value": "1"}, {"name": "n", "value": "2"}]},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "where", "expected"),
    [
        (SubmitOptions(name="x"), ("metadata", "name"), "x"),
        (SubmitOptions(generate_name="b-"), ("metadata", "generateName"), "b-"),
        (SubmitOptions(labels="team=x, n=1"), ("metadata", "labels"), {"old": "1", "team": "x", "n": "1"}),
        (SubmitOptions(annotations="why=because"), ("metadata", "annotations"), {"why": "because"}),
        (SubmitOptions(owner_reference={"uid": "u"}), ("metadata", "ownerReferences"), [{"uid": "u"}]),
        (SubmitOptions(entrypoint="other"), ("spec", "entrypoint"), "other"),
        (SubmitOptions(service_account="robot"), ("spec", "serviceAccountName"), "robot"),
        (SubmitOptions(priority=0), ("spec", "priority"), 0),
        (SubmitOptions(pod_priority_class="high"), ("spec", "podPriorityClassName"), "high"),
        (
            SubmitOptions(parameters=("lr=a=b", "new=")),
            ("spec", "arguments"),
            {
                "parameters": [
                    {"name": "lr", "value": "a=b"},
                    {"name": "new", "value": ""},
                    {"name": "n", "value": "2"},
                ]
            },
        ),
    ],
)
def test_options(options: SubmitOptions, where: tuple[str, str], expected: Any) -> None:
    before = repr(WORKFLOW)
    assert apply_options(WORKFLOW, options)[where[0]][where[1]] == expected
    assert repr(WORKFLOW) == before


def test_without_options_nothing_changes() -> None:
    assert apply_options(WORKFLOW, SubmitOptions()) == WORKFLOW


@pytest.mark.parametrize(
    "options", [SubmitOptions(parameters=("lr",)), SubmitOptions(parameters=("=1",)), SubmitOptions(labels="x")]
)
def test_what_is_not_a_pair_is_refused(options: SubmitOptions) -> None:
    with pytest.raises(SubmissionError, match="NAME=VALUE"):
        apply_options(WORKFLOW, options)


def test_the_last_of_two_values_counts() -> None:
    assert override_parameters([], ["a=1", "a=2"]) == [{"name": "a", "value": "2"}]


@pytest.mark.parametrize(
    ("values", "given"),
    [
        ({"text": "a b"}, ["text=a b"]),
        ({"number": 0.1, "yes": True, "nothing": None}, ["number=0.1", "yes=true", "nothing=null"]),
        ({"nested": {"a": [1, "x"]}}, ['nested={"a":[1,"x"]}']),
    ],
)
def test_parameter_files(values: dict[str, Any], given: list[str]) -> None:
    assert parameters_from_file(values) == given


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("workflowtemplate", "WorkflowTemplate"),
        ("WorkflowTemplate", "WorkflowTemplate"),
        ("wftmpl", "WorkflowTemplate"),
        ("clusterworkflowtemplate", "ClusterWorkflowTemplate"),
        ("cwft", "ClusterWorkflowTemplate"),
        ("cronwf", "CronWorkflow"),
        ("cronworkflows", "CronWorkflow"),
    ],
)
def test_sources(word: str, kind: str) -> None:
    assert source_kind(word) == kind


def test_an_unknown_source_says_what_there_is() -> None:
    with pytest.raises(SubmissionError, match="workflowtemplate/NAME"):
        source_kind("pod")


def test_from_a_template() -> None:
    own, shared = workflow_from_template("train"), workflow_from_template("train", cluster_scope=True)
    assert own["spec"] == {"workflowTemplateRef": {"name": "train"}}
    assert shared["spec"] == {"workflowTemplateRef": {"name": "train", "clusterScope": True}}
    assert own["metadata"]["labels"] == {"workflows.argoproj.io/workflow-template": "train"}
    assert shared["metadata"]["labels"] == {"workflows.argoproj.io/cluster-workflow-template": "train"}


def test_from_a_cron_workflow() -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["f"]}
    cron = {
        "metadata": {"name": "tick"},
        "spec": {"workflowSpec": {"entrypoint": "main"}, "workflowMetadata": metadata},
    }
    assert workflow_from_cron(cron, "2026-01-01T00:00:00Z") == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "generateName": "tick-",
            "labels": {"workflows.argoproj.io/cron-workflow": "tick", "a": "b"},
            "annotations": {"workflows.argoproj.io/scheduled-time": "2026-01-01T00:00:00Z", "c": "d"},
            "finalizers": ["f"],
        },
        "spec": {"entrypoint": "main"},
    }
