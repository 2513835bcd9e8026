"""Jobs as Kubernetes objects, and objects as descriptions, as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.dispatch import Job, Mount, Refused, Resources, Spec, secret
from muster.dispatch.kubernetes_objects import (
    JOB_LABEL,
    PodOptions,
    build_object,
    describe_object,
    describe_pod,
    measure_capacity,
    secrets_of,
)
from muster.kube.objects import Object

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SPEC = Spec(image="shop/train:1", command=("train",), env={"SEED": "7"})


def job(**changes: Any) -> Job:
    given: dict[str, Any] = {"attempt": 1, "folder": "/share/jobs/01a"}
    return Job("01a", "train", {}, "cluster", "starting", NOW, **{**given, **changes})


def build(spec: Spec = SPEC, options: PodOptions | None = None, **changes: Any) -> Object:
    return build_object(job(**changes), spec, "train-01a-1", options or PodOptions())


def test_a_job_of_one_node_is_a_pod() -> None:
    pod = build(resources=Resources(cpu=1.5, memory="2Gi", gpu=2, gpu_type="V100", labels={"zone": "a"}))
    assert (pod["kind"], pod["metadata"]["name"], pod["spec"]["restartPolicy"]) == ("Pod", "train-01a-1", "Never")
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "2"}
    assert pod["spec"]["nodeSelector"] == {"zone": "a", "nvidia.com/gpu.product": "V100"}
    assert container["env"] == [{"name": "SEED", "value": "7"}]


def test_a_job_of_several_nodes_is_a_pytorch_job() -> None:
    built = build(resources=Resources(nodes=3))
    roles = built["spec"]["pytorchReplicaSpecs"]
    assert (built["kind"], {role: spec["replicas"] for role, spec in roles.items()}) == (
        "PyTorchJob",
        {"Master": 1, "Worker": 2},
    )
    assert all(spec["template"]["metadata"]["labels"][JOB_LABEL] == "01a" for spec in roles.values())


def test_a_manifest_gets_our_name_and_labels() -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "tf"}]}}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"generateName": "mine-", "labels": {"team": "a"}},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
    }
    built = build(Spec(manifest=manifest))
    assert built["metadata"]["name"] == "train-01a-1"
    assert "generateName" not in built["metadata"]
    assert built["metadata"]["labels"] | {"team": "a"} == built["metadata"]["labels"]
    worker = built["spec"]["tfReplicaSpecs"]["Worker"]
    assert worker["template"]["metadata"]["labels"][JOB_LABEL] == "01a"
    assert "labels" not in template


def test_a_key_goes_into_a_secret_and_not_into_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    spec = Spec(image="x:1", env={"KEY": secret("env:SHOP_KEY")})
    pod = build(spec)
    assert pod["spec"]["containers"][0]["env"] == [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "train-01a-1", "key": "KEY"}}}
    ]
    assert list(secrets_of(spec, PodOptions())) == ["KEY"]
    assert "hunter2" not in str(pod)


@pytest.mark.parametrize(
    ("folder", "path", "volume", "sub_path"),
    [
        (Mount("", "", "hostpath"), "/share/jobs/01a", {"hostPath": {"path": "/share/jobs/01a"}}, None),
        (Mount("/jobs", "/nfs/jobs"), "/jobs/01a", {"hostPath": {"path": "/nfs/jobs/01a"}}, None),
        (Mount("", "jobs", "claim", "shop"), "/share/jobs/01a",
         {"persistentVolumeClaim": {"claimName": "shop"}}, "jobs/01a"),
    ],
)  # fmt: skip
def test_pods_find_the_jobs_folder(folder: Mount, path: str, volume: Object, sub_path: str | None) -> None:
    pod = build(options=PodOptions(folder=folder))
    (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
    assert (mount["mountPath"], mount.get("subPath")) == (path, sub_path)
    assert pod["spec"]["volumes"] == [{"name": "mount-0", **volume}]


def test_storage_of_another_cluster_is_mapped_or_refused_by_name() -> None:
    spec = Spec(image="x:1", mounts=(Mount("/data", "/moons", "pfs", "pfs-1", read_only=True),))
    with pytest.raises(Refused, match="does not know the storage pfs pfs-1"):
        build(spec)
    pod = build(spec, PodOptions(storage={"pfs": Mount("", "/lake", "claim", "shared")}))
    (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
    assert mount == {"name": "mount-0", "mountPath": "/data", "readOnly": True, "subPath": "lake/moons"}


@pytest.mark.parametrize(
    ("spec", "resources", "message"),
    [
        (Spec(command=("x",)), Resources(), "needs an image"),
        (SPEC, Resources(gpu=0.5), r"whole GPUs only, not 0\.5"),
        (SPEC, Resources(rdma=True), "has no RDMA resource"),
        (SPEC, Resources(ports=1), "hands out no ports"),
        (Spec(image="x", mounts=(Mount("/data", "/", "claim"),)), Resources(), "needs the name of a claim"),
    ],
)
def test_what_cannot_be_expressed_is_refused(spec: Spec, resources: Resources, message: str) -> None:
    with pytest.raises(Refused, match=message):
        build(spec, resources=resources)


def pod_in(phase: str, **status: Any) -> Object:
    return {"kind": "Pod", "metadata": {}, "spec": {"nodeName": "n1"}, "status": {"phase": phase, **status}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2030-01-01T00:00:05Z"}}
    return {"containerStatuses": [{"name": "main", "state": state}]}


@pytest.mark.parametrize(
    ("pod", "state", "code"),
    [
        (pod_in("Pending"), "preparing", None),
        (pod_in("Running"), "running", None),
        (pod_in("Unknown"), "running", None),
        ({**pod_in("Running"), "metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}, "stopping", None),
        (pod_in("Succeeded", **ended(0)), "succeeded", None),
        (pod_in("Failed", **ended(3)), "failed", "Job.ExitCode"),
        (pod_in("Failed", **ended(137, "OOMKilled")), "failed", "Job.OutOfMemory"),
        (pod_in("Failed", **ended(128, "StartError")), "failed", "Job.CannotStart"),
        (pod_in("Failed", reason="Evicted", message="low on memory"), "failed", "Cluster.Evicted"),
        (pod_in("Failed", reason="DeadlineExceeded"), "failed", "Job.DeadlineExceeded"),
    ],
)
def test_what_a_pod_says(pod: Object, state: str, code: str | None) -> None:
    found = describe_pod(pod)
    assert (found.state, found.fault.code if found.fault else None, found.hosts) == (state, code, ("n1",))


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("PyTorchJob", {}, "preparing"),
        ("PyTorchJob", {"conditions": [{"type": "Created", "status": "True"}]}, "preparing"),
        ("PyTorchJob", {"conditions": [{"type": "Running", "status": "True"}]}, "running"),
        ("PyTorchJob", {"conditions": [{"type": "Restarting", "status": "True"}]}, "running"),
        ("PyTorchJob", {"conditions": [{"type": "Running", "status": "False"},
                                       {"type": "Succeeded", "status": "True"}]}, "succeeded"),
        ("PyTorchJob", {"conditions": [{"type": "Failed", "status": "True", "message": "no"}]}, "failed"),
        ("Job", {"active": 1}, "running"),
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}, "succeeded"),
        ("Workflow", {"phase": "Error", "message": "no"}, "failed"),
        ("PaddleJob", {"phase": "Completed"}, "succeeded"),
    ],
)  # fmt: skip
def test_what_a_training_job_says(kind: str, status: Object, state: str) -> None:
    found = describe_object({"kind": kind, "metadata": {}, "status": status}, ())
    assert found.state == state
    assert (found.fault is not None) == (state == "failed")


def test_capacity_is_what_no_pod_has_asked_for() -> None:
    def node(name: str, cpu: str, **more: Any) -> Object:
        labels = {"nvidia.com/gpu.product": "V100"}
        ready = [{"type": "Ready", "status": "True"}]
        allocatable = {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": "2"}
        return {
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable, "conditions": ready},
            **more,
        }

    def pod(host: str, phase: str = "Running") -> Object:
        requests = {"cpu": "500m", "nvidia.com/gpu": "1"}
        container = {"name": "main", "resources": {"requests": requests}}
        return {"spec": {"nodeName": host, "containers": [container]}, "status": {"phase": phase}}

    nodes = [node("a", "4"), node("b", "8", spec={"unschedulable": True})]
    pods = [pod("a"), pod("b"), pod("", "Pending"), pod("a", "Succeeded")]
    capacity = measure_capacity(nodes, pods, PodOptions())
    assert capacity.total["cpu"] == 4
    assert (capacity.free["cpu"], capacity.free["gpu"], capacity.free["gpu/V100"]) == (3, 0, 1)
