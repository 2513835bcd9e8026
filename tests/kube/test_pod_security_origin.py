"""Which run a Pod belongs to is decided by the objects that own it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.kube.pod_security import PodOrigin, find_origin

RUN = "0000000000000000000000own1"


def obj(api_version: str, kind: str, name: str, owner: Object | None = None, **metadata: Any) -> Object:
    owners = [_reference(owner)] if owner is not None else []
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}", "ownerReferences": owners, **metadata},
    }


def _reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


WORKFLOW = obj(
    "argoproj.io/v1alpha1",
    "Workflow",
    f"run-{RUN}",
    labels={"muster.dev/run": RUN},
    annotations={"muster.dev/read-only-paths": '["/modules/1"]'},
)
JOB = obj("kubeflow.org/v1", "PyTorchJob", "train", WORKFLOW)
MPI = obj("kubeflow.org/v1", "MPIJob", "mpi")
UNLABELLED = obj("argoproj.io/v1alpha1", "Workflow", f"run-{RUN}")
MISNAMED = obj("argoproj.io/v1alpha1", "Workflow", "mine", labels={"muster.dev/run": RUN})
ANOTHER_UID = {**WORKFLOW, "metadata": {**WORKFLOW["metadata"], "uid": "another"}}


@pytest.mark.parametrize(
    ("owner", "there", "expected"),
    [
        pytest.param(None, [], PodOrigin(), id="no owner"),
        pytest.param(WORKFLOW, [WORKFLOW], PodOrigin(RUN, ("/modules/1",)), id="the Pod of a node"),
        pytest.param(JOB, [JOB, WORKFLOW], PodOrigin(RUN, ("/modules/1",)), id="the Pod of a training job of a run"),
        pytest.param(JOB, [JOB], PodOrigin(), id="the Pod of a training job whose run is gone"),
        pytest.param(MPI, [MPI], PodOrigin(account="mpi-launcher"), id="the Pod of an MPI job"),
        pytest.param(WORKFLOW, [], PodOrigin(), id="an owner that does not exist"),
        pytest.param(WORKFLOW, [ANOTHER_UID], PodOrigin(), id="an owner with another uid"),
        pytest.param(UNLABELLED, [UNLABELLED], PodOrigin(), id="a Workflow that has only the name"),
        pytest.param(MISNAMED, [MISNAMED], PodOrigin(), id="a Workflow that has only the label"),
    ],
)
def test_the_origin_of_a_pod(owner: Object | None, there: list[Object], expected: PodOrigin) -> None:
    def lookup(resource: str, name: str) -> Object | None:
        plurals = {"workflows.argoproj.io": "Workflow", "pytorchjobs.kubeflow.org": "PyTorchJob",
                   "mpijobs.kubeflow.org": "MPIJob"}  # fmt: skip
        found = (each for each in there if (each["kind"], each["metadata"]["name"]) == (plurals.get(resource), name))
        return next(found, None)

    assert find_origin(obj("v1", "Pod", "p", owner), lookup) == expected
