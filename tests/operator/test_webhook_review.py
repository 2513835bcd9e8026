from __future__ import annotations

from typing import Any

import pytest

from muster.kube.errors import BadRequest
from muster.kube.objects import Object
from muster.operator.webhook_review import review

TRAINER = {"name": "pytorch", "image": "i"}


def job(container: Object = TRAINER, api_version: str = "kubeflow.org/v1", **more: Any) -> Object:
    worker = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    spec = {"pytorchReplicaSpecs": {"Worker": worker}, **more}
    return {"apiVersion": api_version, "kind": "PyTorchJob", "metadata": {"name": "job"}, "spec": spec}


def ask(new: Object | None, old: Object | None = None, operation: str = "", **kind: str) -> Object:
    asked = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob", **kind}
    request = {
        "uid": "u-1",
        "kind": asked,
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "object": new,
        "oldObject": old,
    }
    answer = review({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Object = answer["response"]
    assert response.pop("uid") == "u-1"
    return response


def test_a_good_job_is_let_in_without_a_word() -> None:
    assert ask(job()) == {"allowed": True}


@pytest.mark.parametrize(
    ("wrong", "field", "message"),
    [
        (
            job({"name": "main", "image": "i"}),
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers",
            'one container must be named "pytorch", the one that trains; found "main"',
        ),
        (
            job(TRAINER | {"imagePullPolicy": "Sometimes"}),
            "spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].imagePullPolicy",
            'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
        ),
        (
            job(runPolicy={"managedBy": "me"}),
            "spec.runPolicy.managedBy",
            '"me" is not one of kubeflow.org/training-operator, kueue.x-k8s.io/multikueue',
        ),
    ],
)
def test_a_wrong_job_is_refused_in_the_words_of_the_box(wrong: Object, field: str, message: str) -> None:
    answer = ask(wrong)
    assert answer["allowed"] is False
    status = answer["status"]
    assert status["message"] == f'PyTorchJob.kubeflow.org "job" is invalid: {field}: {message}'
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


def test_what_has_no_effect_is_named() -> None:
    new = job()
    new["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["restartPolicy"] = "Always"
    answer = ask(new)
    assert answer["allowed"] is True
    assert [warning.partition(":")[0] for warning in answer["warnings"]] == [
        "spec.pytorchReplicaSpecs.Worker.template.spec.restartPolicy"
    ]


WRONG = job({"name": "main", "image": "i"})


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (WRONG | {"metadata": {"name": "job", "labels": {"a": "b"}}}, WRONG),
        (WRONG | {"metadata": {"name": "job", "deletionTimestamp": "2026-11-15T12:00:00Z"}}, job()),
        (None, WRONG),
    ],
    ids=["only its labels change", "it is being deleted", "it is deleted"],
)
def test_a_job_from_before_the_webhook_is_not_stuck(new: Object | None, old: Object) -> None:
    assert ask(new, old) == {"allowed": True}


def test_a_change_that_makes_it_wrong_is_refused() -> None:
    assert ask(WRONG, job())["allowed"] is False
    moved = job(runPolicy={"schedulingPolicy": {"queue": "b"}})
    answer = ask(moved, job(runPolicy={"schedulingPolicy": {"queue": "a"}}))
    assert "queue: field is immutable" in answer["status"]["message"]


def test_what_it_does_not_know_is_let_through_with_a_warning() -> None:
    answer = ask(job(), version="v3")
    assert answer["allowed"] is True
    assert "kubeflow.org/v3 PyTorchJob" in answer["warnings"][0]


@pytest.mark.parametrize("nonsense", [{}, [], None, {"request": None}, {"request": {}}])
def test_what_is_no_review_is_said_to_be_none(nonsense: Any) -> None:
    with pytest.raises(BadRequest, match="AdmissionReview"):
        review(nonsense)
