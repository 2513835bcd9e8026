from __future__ import annotations

from typing import Any

import pytest

from muster.cli.run_objects import Outcome, find_outcome, is_workload


def work(api_version: str, kind: str, status: dict[str, Any], spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "spec": spec or {}, "status": status}


def condition(type: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, Any]:
    return {"type": type, "status": status, "reason": reason, "message": message}


ONCE = {"restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "answer"),
    [
        ("v1", "Pod", {"restartPolicy": "Never"}, True),
        ("v1", "Pod", {"restartPolicy": "OnFailure"}, True),
        ("v1", "Pod", {"restartPolicy": "Always"}, False),
        ("v1", "Pod", {}, False),
        ("batch/v1", "Job", {}, True),
        ("batch/v1", "CronJob", {}, False),
        ("batch.volcano.sh/v1alpha1", "Job", {}, True),
        ("kubeflow.org/v1", "PyTorchJob", {}, True),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", {}, True),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {}, True),
        ("argoproj.io/v1alpha1", "Workflow", {}, True),
        ("argoproj.io/v1alpha1", "CronWorkflow", {}, False),
        ("argoproj.io/v1alpha1", "WorkflowTemplate", {}, False),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", {}, False),
        ("v1", "PersistentVolumeClaim", {}, False),
        ("v1", "Service", {}, False),
        ("v1", "ConfigMap", {}, False),
        ("kubeflow.org/v1", "Notebook", {}, False),
    ],
)
def test_which_kinds_end_by_themselves(api_version: str, kind: str, spec: dict[str, Any], answer: bool) -> None:
    assert is_workload(work(api_version, kind, {}, spec)) is answer


@pytest.mark.parametrize(
    ("obj", "outcome"),
    [
        (work("v1", "Pod", {}, ONCE), None),
        (work("v1", "Pod", {"phase": "Running"}, ONCE), None),
        (work("v1", "Pod", {"phase": "Succeeded"}, ONCE), Outcome(True, "Succeeded")),
        (work("v1", "Pod", {"phase": "Failed"}, ONCE), Outcome(False, "Failed")),
        (
            work("v1", "Pod", {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}, ONCE),
            Outcome(False, "Evicted", "The node was low on memory."),
        ),
        (work("v1", "Pod", {"phase": "Failed"}), None),
        (work("batch/v1", "Job", {"active": 1}), None),
        (work("batch/v1", "Job", {"conditions": [condition("SuccessCriteriaMet")]}), None),
        (work("batch/v1", "Job", {"conditions": [condition("FailureTarget")]}), None),
        (work("batch/v1", "Job", {"conditions": [condition("Complete")]}), Outcome(True, "Complete")),
        (work("batch/v1", "Job", {"conditions": [condition("Complete", "False")]}), None),
        (
            work("batch/v1", "Job", {"conditions": [condition("Failed", "True", "BackoffLimitExceeded", "too often")]}),
            Outcome(False, "BackoffLimitExceeded", "too often"),
        ),
        (
            work("kubeflow.org/v1", "PyTorchJob", {"conditions": [condition("Created"), condition("Succeeded")]}),
            Outcome(True, "Succeeded"),
        ),
        (
            work("kubeflow.org/v1", "PyTorchJob", {"conditions": [condition("Running"), condition("Restarting")]}),
            None,
        ),
        (
            work("argoproj.io/v1alpha1", "Workflow", {"phase": "Error", "conditions": [condition("Completed")]}),
            Outcome(False, "Error"),
        ),
        (
            work("argoproj.io/v1alpha1", "Workflow", {"phase": "Succeeded", "conditions": [condition("Completed")]}),
            Outcome(True, "Succeeded"),
        ),
        (work("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Running"}}), None),
        (work("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Completed"}}), Outcome(True, "Completed")),
        (work("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Aborted"}}), Outcome(False, "Aborted")),
        (work("v1", "PersistentVolume", {"phase": "Failed"}), None),
        (work("scheduling.volcano.sh/v1beta1", "PodGroup", {"phase": "Completed"}), None),
    ],
)
def test_completion_comes_from_phases_and_conditions(obj: dict[str, Any], outcome: Outcome | None) -> None:
    assert find_outcome(obj) == outcome
