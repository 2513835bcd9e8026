"""Invalid jobs and the field at fault, and the policies in both vocabularies."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import new_catalogue
from muster.kube.objects import Object
from muster.kube.schema_validation import validate
from muster.training.kinds.jax import Jax
from muster.training.kinds.mpi import Mpi
from muster.training.kinds.paddle import Paddle
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.kinds.pytorch import PyTorch
from muster.training.kinds.tensorflow import AihcTensorFlow, TensorFlow
from muster.training.kinds.xgboost import XGBoost
from muster.training.model import RESTART_SCOPE
from muster.training.registry import training_kinds
from tests.training.sample_jobs import training_job

PYTORCH, TF, XGB, PADDLE, JAX, MPI = PyTorch(), TensorFlow(), XGBoost(), Paddle(), Jax(), Mpi()
BOUNDS = {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 3}}


def job(job_kind: Any, roles: dict[str, Any], **spec: Any) -> Object:
    kind = job_kind.kind
    return training_job(kind.api_version, kind.kind, job_kind.replica_specs, job_kind.container, roles, **spec)


def named(obj: Object, name: str, **annotations: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "name": name, "annotations": annotations}}


@pytest.mark.parametrize(
    ("job_kind", "obj", "field"),
    [
        (PYTORCH, job(PYTORCH, {"Master": 1, "Worker": 0}), None),
        (PYTORCH, job(PYTORCH, {"Master": 2}), "spec.pytorchReplicaSpecs.Master.replicas"),
        (PYTORCH, job(PYTORCH, {"master": 2}), "spec.pytorchReplicaSpecs.Master.replicas"),
        (PYTORCH, job(PYTORCH, {"Chief": 1}), "spec.pytorchReplicaSpecs.Chief"),
        (PYTORCH, job(PYTORCH, {}), "spec.pytorchReplicaSpecs"),
        (PYTORCH, named(job(PYTORCH, {"Worker": 1}), "1-job"), "metadata.name"),
        (PYTORCH, named(job(PYTORCH, {"Worker": 1}), "j", **{RESTART_SCOPE: "all"}),
         f"metadata.annotations[{RESTART_SCOPE}]"),
        (PYTORCH, job(PYTORCH, {"Worker": 2}, **BOUNDS), None),
        (PYTORCH, job(PYTORCH, {"Worker": 1}, **BOUNDS), "spec.pytorchReplicaSpecs.Worker.replicas"),
        (PYTORCH, job(PYTORCH, {"Worker": 4}, **BOUNDS), "spec.pytorchReplicaSpecs.Worker.replicas"),
        (PYTORCH, job(PYTORCH, {"Worker": 2}, elasticPolicy={"minReplicas": 3, "maxReplicas": 2}),
         "spec.elasticPolicy.minReplicas"),
        (PYTORCH, job(PYTORCH, {"Worker": 2}, nprocPerNode="1", elasticPolicy={"nProcPerNode": 1}),
         "spec.elasticPolicy.nProcPerNode"),
        (PYTORCH, job(PYTORCH, {"Worker": 1}, runPolicy={"managedBy": "me"}), "spec.runPolicy.managedBy"),
        (PYTORCH, job(PYTORCH, {"Worker": 1}, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), None),
        (PYTORCH, job(PYTORCH, {"Worker": 1}, runPolicy={"managedBy": "kubeflow.org/mpi-operator"}),
         "spec.runPolicy.managedBy"),
        (MPI, job(MPI, {"Launcher": 1}, runPolicy={"managedBy": "kubeflow.org/mpi-operator"}), None),
        (MPI, job(MPI, {"Launcher": 1}, runPolicy={"managedBy": "kubeflow.org/training-operator"}), None),
        (PADDLE, job(PADDLE, {"Worker": 4}, **BOUNDS), "spec.paddleReplicaSpecs.Worker.replicas"),
        (TF, job(TF, {"Chief": 1, "Master": 1}), "spec.tfReplicaSpecs.Master"),
        (TF, job(XGB, {"Worker": 1}), "spec.tfReplicaSpecs"),
        (XGB, job(XGB, {"Worker": 1}), "spec.xgbReplicaSpecs.Master"),
        (XGB, job(XGB, {"Master": 2}), "spec.xgbReplicaSpecs.Master.replicas"),
        (MPI, job(MPI, {"Worker": 1}), "spec.mpiReplicaSpecs.Launcher"),
        (MPI, job(MPI, {"Launcher": 2}), "spec.mpiReplicaSpecs.Launcher.replicas"),
        (JAX, job(JAX, {"Worker": {"replicas": 1, "template": {"spec": {"containers": [
            {"name": "main", "image": "i"}]}}}}), "spec.jaxReplicaSpecs.Worker.template.spec.containers"),
        (JAX, job(JAX, {"Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "jax"}]}}}}),
         "spec.jaxReplicaSpecs.Worker.template.spec.containers[0].image"),
    ],
)  # fmt: skip
def test_what_is_refused(job_kind: Any, obj: Object, field: str | None) -> None:
    assert [cause.field for cause in job_kind.validate(obj)] == ([field] if field else [])


@pytest.mark.parametrize("job_kind", [PYTORCH, TF, XGB, PADDLE, JAX], ids=lambda job_kind: job_kind.kind.kind)
def test_a_template_may_be_written_as_a_whole_pod(job_kind: Any) -> None:
    spec = {"containers": [{"name": job_kind.container, "image": "i", "command": ["train"]}]}
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": spec}
    obj = job(job_kind, {role: {"replicas": 1, "template": whole} for role in ("Master", "Worker")[job_kind is JAX :]})
    assert validate(obj, job_kind.kind.schema) == []
    assert job_kind.validate(obj) == []


@pytest.mark.parametrize(
    ("written", "success", "failure"),
    [
        ("", "All", "None"),
        ("Always", "All", "All"),
        ("Never", "None", "None"),
        ("OnCompletion", "All", "None"),
        ("OnFailure", "None", "All"),
    ],
)
@pytest.mark.parametrize("field", ["cleanPodPolicy", "cleanPolicy"])
def test_cleaning_as_paddlecloud_says_it(field: str, written: str, success: str, failure: str) -> None:
    spec = {field: written, "worker": {"replicas": 1, "template": {}}}
    policy = PaddleCloud().read({"kind": "PaddleJob", "metadata": {"name": "j"}, "spec": spec}).policy
    assert (policy.clean_on_success, policy.clean_on_failure) == (success, failure)


@pytest.mark.parametrize("written", [None, "None", "Running", "All"])
def test_cleaning_as_training_operator_says_it(written: str | None) -> None:
    policy = PYTORCH.read(job(PYTORCH, {"Worker": 1}, runPolicy={"cleanPodPolicy": written})).policy
    assert (policy.clean_on_success, policy.clean_on_failure) == (written or "None", written or "None")
    mpi = MPI.read(job(MPI, {"Launcher": 1}, cleanPodPolicy=written, runPolicy={"cleanPodPolicy": "All"})).policy
    assert mpi.clean_on_success == (written or "All"), "an MPIJob may set it at the top level too"


@pytest.mark.parametrize(
    ("job_kind", "role", "restart", "replicas"),
    [
        (PYTORCH, "Worker", "OnFailure", 1),
        (PADDLE, "Worker", "OnFailure", 1),
        (TF, "Worker", "Never", 1),
        (XGB, "Master", "Never", 1),
        (MPI, "Worker", "Never", 0),
        (JAX, "Worker", "Never", 1),
    ],
)
def test_defaults(job_kind: Any, role: str, restart: str, replicas: int) -> None:
    read = job_kind.read(job(job_kind, {role: {}})).role(role)
    assert (read.restart, read.replicas) == (restart, replicas)


def test_aihcs_tensorflowjob_is_a_tfjob_by_another_name() -> None:
    obj = job(AihcTensorFlow(), {"PS": 1, "Worker": 2})
    assert obj["kind"] == "TensorFlowJob"
    catalogue = new_catalogue()
    for kind in training_kinds():
        catalogue.register(kind)
    kind = catalogue.of_object(obj)
    assert validate(obj, kind.schema) == []
    assert kind.validate is not None
    assert kind.validate(obj, None) == []
    as_tf_job, as_aihc = TF.read(obj), AihcTensorFlow().read(obj)
    assert as_tf_job.roles == as_aihc.roles


@pytest.mark.parametrize(("word", "kind"), [("pdj", "PaddleJob"), ("pytorchjobs", "PyTorchJob"), ("tfjob", "TFJob")])
def test_the_names_users_type(word: str, kind: str) -> None:
    catalogue = new_catalogue()
    for each in training_kinds():
        catalogue.register(each)
    assert catalogue.find(word).kind == kind
