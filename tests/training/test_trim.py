from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.training.controller import trimmer_for
from muster.training.replicas import count_container_restarts, describe_failure, find_end_time, find_exit_code

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "job", "uid": "u1", "controller": True}


def pod(**status: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "job-worker-0",
            "namespace": "default",
            "uid": "u2",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "app": "mine",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "0",
            },
            "annotations": {"muster.dev/attempt": "2", "notes": "long"},
            "ownerReferences": [{**OWNER, "controller": False, "uid": "u0"}, OWNER],
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "pytorch", "image": "i:1"}, {"name": "sidecar", "image": "i:2"}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready"}], **status},
    }


def test_of_a_pod_which_member_it_is_and_how_it_is_doing() -> None:
    assert trimmer_for("Pod")(pod()) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "job-worker-0",
            "namespace": "default",
            "uid": "u2",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"},
            "annotations": {"muster.dev/attempt": "2"},
            "ownerReferences": [OWNER],
        },
        "spec": {"containers": [{"name": "pytorch"}, {"name": "sidecar"}]},
        "status": {"phase": "Running"},
    }


def test_a_members_address_is_kept_only_if_it_is_used() -> None:
    """For kinds that never read the address, an assigned address is no reason for a reconcile."""
    theirs = pod()
    theirs["metadata"]["labels"]["paddle-res-type"] = "worker"
    assert trimmer_for("Pod")(theirs)["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:09Z", "message": "no data"}}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "containerStatuses": [{"name": "pytorch", "restartCount": 2, "state": ENDED}]},
        {
            "containerStatuses": [
                {"name": "pytorch", "restartCount": 4, "state": {"running": {}}, "lastState": ENDED},
                {"name": "sidecar", "state": {"waiting": {"reason": "PodInitializing"}}, "lastState": {}},
            ]
        },
        {"phase": "Failed", "initContainerStatuses": [{"name": "first", "restartCount": 0, "state": ENDED}]},
        {"phase": "Failed", "reason": "Evicted", "message": "no room"},
        {"containerStatuses": None},
    ],
)
def test_a_trimmed_pod_has_the_same_outcome(status: Object) -> None:
    whole = pod(**status)
    kept = trimmer_for("Pod")(whole)
    for question in (find_exit_code, describe_failure):
        assert question(kept, "pytorch") == question(whole, "pytorch")
    assert find_end_time(kept) == find_end_time(whole)
    assert count_container_restarts(kept) == count_container_restarts(whole)


def test_a_trimmed_service_keeps_its_name_and_owner() -> None:
    metadata = {
        "name": "s",
        "namespace": "default",
        "uid": "u3",
        "deletionTimestamp": "now",
        "ownerReferences": [OWNER],
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "labels": {}}, "spec": {"ports": []}}
    assert trimmer_for("Service")(service) == {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


def test_of_anything_else_all_but_who_wrote_it() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"}
    metadata = {"name": "job", "resourceVersion": "3"}
    job = {"metadata": {**metadata, "annotations": applied, "managedFields": []}, "spec": {"a": 1}, "status": {}}
    kept = {"metadata": {**metadata, "annotations": {"mine": "1"}}, "spec": {"a": 1}, "status": {}}
    assert trimmer_for("PyTorchJob")(job) == kept
    assert trimmer_for("ConfigMap")(kept) == kept
