from __future__ import annotations

import pytest

from muster.kube.builtin import new_catalogue
from muster.kube.kinds import Catalogue, Kind
from muster.kube.objects import Object
from muster.training.registry import training_kinds


@pytest.mark.parametrize("kind", training_kinds(), ids=lambda kind: kind.resource)
@pytest.mark.parametrize("old", [None, {"metadata": {"name": "x"}, "spec": {}}])
def test_a_job_without_a_spec_is_refused_with_the_missing_fields(kind: Kind, old: Object | None) -> None:
    assert kind.validate is not None
    assert [cause.reason for cause in kind.validate({"metadata": {"name": "x"}}, old)] == ["FieldValueRequired"]


def kinds() -> Catalogue:
    catalogue = new_catalogue()
    for kind in training_kinds():
        catalogue.register(kind)
    return catalogue


TEMPLATE = {"spec": {"restartPolicy": "Always", "containers": [{"name": "pytorch", "image": "i"}]}}


@pytest.mark.parametrize(
    ("resource", "spec", "warned"),
    [
        ("pytorchjob", {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {}}}}}, []),
        (
            "pytorchjob",
            {"pytorchReplicaSpecs": {"Worker": {"restartPolicy": "Never", "template": TEMPLATE}}},
            ["spec.pytorchReplicaSpecs.Worker.template.spec.restartPolicy"],
        ),
        ("pytorchjob", {"pytorchReplicaSpecs": {"Worker": {"restartPolicy": "ExitCode", "template": TEMPLATE}}}, []),
        ("pytorchjob", {"pytorchReplicaSpecs": {"Worker": {"restartPolicy": "Always", "template": TEMPLATE}}}, []),
        ("mpijob", {"sshAuthMountPath": "/root/.ssh", "slotsPerWorker": 2}, []),
        (
            "mpijob",
            {"sshAuthMountPath": "/home/mpi/.ssh", "launcherCreationPolicy": "AtStartup", "runLauncherAsWorker": True},
            ["spec.sshAuthMountPath", "spec.launcherCreationPolicy", "spec.runLauncherAsWorker"],
        ),
        (
            "paddlejobs.batch.paddlepaddle.org",
            {"sampleSetRef": {"mountPath": "/data"}, "worker": {"limits": 4}, "intranet": "Host"},
            ["spec.sampleSetRef", "spec.worker.limits", "spec.intranet"],
        ),
    ],
)
def test_what_has_no_effect_is_named(resource: str, spec: Object, warned: list[str]) -> None:
    kind = kinds().find(resource)
    assert kind.warnings is not None
    causes = kind.warnings({"metadata": {"name": "x"}, "spec": spec})
    assert [cause.field for cause in causes] == warned
    assert all("no effect" in cause.message for cause in causes)


def test_a_job_stays_in_its_queue() -> None:
    kind = kinds().find("pytorchjob")
    assert kind.validate is not None
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}

    def job(queue: str) -> Object:
        policy = {"schedulingPolicy": {"queue": queue}}
        spec = {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": {"template": template}}}
        return {"metadata": {"name": "x"}, "spec": spec}

    causes = kind.validate(job("fast"), job("slow"))
    assert [(cause.field, cause.message) for cause in causes] == [
        ("spec.runPolicy.schedulingPolicy.queue", "field is immutable")
    ]
