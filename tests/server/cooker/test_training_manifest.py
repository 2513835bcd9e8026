"""Jobs of MLP Cooker as training jobs of this cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.kube.schema_validation import validate
from muster.platform.errors import InvalidProblem
from muster.platform.jobs.jobs import job_kind_of
from muster.platform.records.resources import StorageRoot
from muster.server.cooker.task_params import parse_task_params
from muster.server.cooker.training_manifest import SHELL, ClusterPlaces, training_manifest
from muster.server.dispatch.settings import SourcePlace

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def root(name: str, path: str = "/mnt/pfs", claim: str = "", *, read_only: bool = False) -> StorageRoot:
    return StorageRoot(name, name, "", path, "", claim, read_only, None, None, True, LONG_AGO, LONG_AGO, 1)


PLACES = ClusterPlaces(
    sources={
        "pfs:*": SourcePlace(storage_root="shared"),
        "pfs:pfs-claim": SourcePlace(claim="datasets", path="pfs"),
        "bos:my-bucket": SourcePlace(storage_root="in-claim", path="buckets"),
        "bos:read-only": SourcePlace(storage_root="frozen"),
        "bos:private": SourcePlace(storage_root="of-others"),
    },
    roots={each.name: each for each in (root("shared"), root("in-claim", claim="pvc"), root("frozen", read_only=True))},
    queues=frozenset({"default", "research"}),
)


def manifest(places: ClusterPlaces = PLACES, /, **changes: Any) -> dict[str, Any]:
    spec = {"image": "pytorch:2", "replicas": changes.pop("replicas", 1), **changes.pop("spec", {})}
    given = {"name": "j", "command": "python train.py", "jobSpec": spec, **changes}
    return training_manifest(parse_task_params(given), places)[0]


def errors(places: ClusterPlaces = PLACES, /, **changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidProblem) as caught:
        manifest(places, **changes)
    return {each.field: each.code for each in caught.value.errors}


def mounted(source: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    roles = manifest(datasources=[{"mountPath": "/data", **source}])["spec"]["pytorchReplicaSpecs"]
    pod = roles["Master"]["template"]["spec"]
    ((volume,), (mount,)) = pod["volumes"], pod["containers"][0]["volumeMounts"]
    return volume, mount


@pytest.mark.parametrize(
    ("job_type", "replicas", "specs", "roles"),
    [
        ("PyTorchJob", 1, "pytorchReplicaSpecs", {"Master": 1}),
        ("PyTorchJob", 4, "pytorchReplicaSpecs", {"Master": 1, "Worker": 3}),
        ("TensorFlowJob", 3, "tfReplicaSpecs", {"Worker": 3}),
        ("MPIJob", 2, "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}),
        ("XGBoostJob", 2, "xgbReplicaSpecs", {"Master": 1, "Worker": 1}),
        ("PaddleJob", 2, "paddleReplicaSpecs", {"Worker": 2}),
        ("JAXJob", 2, "jaxReplicaSpecs", {"Worker": 2}),
    ],
)
def test_a_job_type_is_a_kind_with_its_roles(job_type: str, replicas: int, specs: str, roles: dict[str, int]) -> None:
    made = manifest(jobType=job_type, replicas=replicas)
    assert {role: each["replicas"] for role, each in made["spec"][specs].items()} == roles
    job_kind = job_kind_of(made)
    assert job_kind is not None
    named = {**made, "metadata": {"name": "job"}}
    assert validate(named, job_kind.kind.schema) == []
    assert job_kind.validate(named) == []
    assert made["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == sum(roles.values())


def test_the_command_is_an_argument_and_kubernetes_leaves_it_as_it_is() -> None:
    made = manifest(command="echo $(HOSTNAME) && echo '$0'")
    (container,) = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert container["command"][-1] == "echo $$(HOSTNAME) && echo '$0'"
    assert len(container["command"]) == len(SHELL) + 1


def test_workers_of_mpi_wait_for_the_launcher() -> None:
    roles = manifest(jobType="MPIJob", replicas=2)["spec"]["mpiReplicaSpecs"]
    commands = {role: "command" in each["template"]["spec"]["containers"][0] for role, each in roles.items()}
    assert commands == {"Launcher": True, "Worker": False}


def test_amounts_in_units_of_kubernetes() -> None:
    amounts = {"baidu.com/a800_80g_cgpu": 2, "cpu": 0.5, "memory": 4, "sharedMemory": 1}
    resources = [{"name": name, "quantity": quantity} for name, quantity in amounts.items()]
    pod = manifest(spec={"resources": resources})["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    wanted = {"nvidia.com/gpu": "2", "cpu": "0.5", "memory": "4Gi"}
    assert pod["containers"][0]["resources"] == {"limits": wanted, "requests": wanted}
    assert pod["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]


@pytest.mark.parametrize(
    ("source", "volume", "mount"),
    [
        ({"type": "pfs", "name": "pfs-9"}, {"hostPath": {"path": "/mnt/pfs"}}, {}),
        (
            {"type": "pfs", "name": "pfs-9", "sourcePath": "/a/b/"},
            {"hostPath": {"path": "/mnt/pfs"}},
            {"subPath": "a/b"},
        ),
        (
            {"type": "pfs", "name": "pfs-claim", "sourcePath": "/a", "readOnly": True},
            {"persistentVolumeClaim": {"claimName": "datasets"}},
            {"subPath": "pfs/a", "readOnly": True},
        ),
        (
            {"type": "bos", "sourcePath": "my-bucket/datasets/"},
            {"persistentVolumeClaim": {"claimName": "pvc"}},
            {"subPath": "buckets/datasets"},
        ),
        ({"type": "hostpath", "sourcePath": "/mnt/x"}, {"hostPath": {"path": "/mnt/x"}}, {}),
        ({"type": "hostpath", "sourcePath": "/mnt/pfs/"}, {"hostPath": {"path": "/mnt/pfs"}}, {}),
        ({"type": "hostpath", "sourcePath": "/mnt/pfs//a/"}, {"hostPath": {"path": "/mnt/pfs"}}, {"subPath": "a"}),
        ({"type": "hostpath", "sourcePath": "/mnt/pfs2"}, {"hostPath": {"path": "/mnt/pfs2"}}, {}),
        ({"type": "emptydir"}, {"emptyDir": {}}, {}),
    ],
)
def test_a_data_source_is_found_by_the_settings(source: Any, volume: Any, mount: Any) -> None:
    assert mounted(source) == ({"name": "data-0", **volume}, {"name": "data-0", "mountPath": "/data", **mount})


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"jobType": "RayJob"}, "taskParams.jobType", "cooker.no-kind"),
        ({"faultTolerance": True}, "taskParams.faultTolerance", "cooker.only-aihc"),
        ({"queue": "aihcq-1"}, "taskParams.queue", "cooker.queue"),
        (
            {"datasources": [{"type": "cfs", "name": "c", "mountPath": "/d"}]},
            "taskParams.datasources[0]",
            "cooker.no-source",
        ),
        ({"datasources": [{"type": "bos", "sourcePath": "x/"}]}, "taskParams.datasources[0]", "cooker.no-source"),
        ({"datasources": [{"type": "bos", "sourcePath": "private/"}]}, "taskParams.datasources[0]", "cooker.no-root"),
        (
            {"datasources": [{"type": "bos", "sourcePath": "read-only/"}]},
            "taskParams.datasources[0]",
            "storage.read-only",
        ),
        (
            {"datasources": [{"type": "hostpath", "sourcePath": "etc", "mountPath": "/d"}]},
            "taskParams.datasources[0].sourcePath",
            "cooker.source-path",
        ),
    ],
)
def test_what_this_cluster_lacks_is_refused_by_name(changes: dict[str, Any], field: str, code: str) -> None:
    assert errors(**changes) == {field: code}


def test_a_field_without_an_effect_is_a_warning() -> None:
    params = parse_task_params({"name": "j", "command": "c", "jobSpec": {"image": "i", "enableRDMA": True}})
    assert training_manifest(params, PLACES)[1] == ["enableRDMA has no effect on this cluster"]


def test_a_queue_and_labels_are_set() -> None:
    made = manifest(queue="research", labels=[{"key": "model", "value": "qwen"}])
    assert made["spec"]["runPolicy"]["schedulingPolicy"]["queue"] == "research"
    assert made["metadata"]["labels"] == {"model": "qwen"}
