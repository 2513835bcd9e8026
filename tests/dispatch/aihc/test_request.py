"""What a job is on AIHC, as tables: the body of CreateJob, units, types, states, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.dispatch import Job, Mount, Refused, Resources, Spec, secret
from muster.dispatch.aihc.request import (
    STATES,
    AihcJob,
    AihcSettings,
    cluster_state,
    create_body,
    describe_status,
    normalize_job_type,
    parse_time,
    resource_list,
    started_at,
)
from muster.dispatch.secrets import mask
from tests.dispatch.aihc_server import check_create as aihc_accepts
from tests.dispatch.examples import SPEC, make_job

SETTINGS = AihcSettings(queues=("q-1", "q-2"))


def body(
    job: Job | None = None, spec: Spec = SPEC, settings: AihcSettings = SETTINGS, **extra: Any
) -> dict[str, Any]:  # fmt: skip
    return create_body(job or make_job(), spec, "train-j1-1", settings, cast(AihcJob, extra))


def test_the_body_of_a_plain_job() -> None:
    assert body() == {
        "name": "train-j1-1",
        "queue": "q-1",
        "jobType": "PyTorchJob",
        "command": "python train.py --name 'two words'",
        "jobSpec": {
            "image": "shop/train:1.4",
            "replicas": 1,
            "resources": [{"name": "cpu", "quantity": 8}, {"name": "memory", "quantity": 64}],
            "envs": [{"name": "SEED", "value": "7"}],
        },
        "priority": "normal",
    }


def test_the_body_of_a_job_with_everything() -> None:
    job = make_job(
        resources=Resources(cpu=16, memory="128Gi", gpu=8, gpu_type="A800", nodes=4, rdma=True),
        priority=5,
        labels={"team": "vision"},
    )
    spec = Spec(
        image="registry.example.com:5000/shop/train:1.4",
        command=("sh", "-c", "python train.py && echo done"),
        working_dir="/my code",
        mounts=(
            Mount("/data", "/", kind="pfs", name="pfs-1", read_only=True),
            Mount("/models", "bucket/models/", kind="bos"),
        ),
    )
    found = body(
        job, spec, jobType="MPIJob", queue="q-2", sharedMemory="10Gi", faultTolerance=True,
        jobSpec={"hostNetwork": True, "envs": [{"name": "A", "value": "1"}]},
    )  # fmt: skip
    aihc_accepts(found)
    assert found == {
        "name": "train-j1-1",
        "queue": "q-2",
        "jobType": "MPIJob",
        "command": "cd '/my code' && sh -c 'python train.py && echo done'",
        "jobSpec": {
            "image": "registry.example.com:5000/shop/train:1.4",
            "replicas": 4,
            "resources": [
                {"name": "cpu", "quantity": 16},
                {"name": "memory", "quantity": 128},
                {"name": "baidu.com/a800_80g_cgpu", "quantity": 8},
                {"name": "sharedMemory", "quantity": 10},
            ],
            "envs": [{"name": "A", "value": "1"}],
            "enableRDMA": True,
            "hostNetwork": True,
        },
        "priority": "high",
        "labels": [{"key": "team", "value": "vision"}],
        "datasources": [
            {"type": "pfs", "name": "pfs-1", "sourcePath": "/", "mountPath": "/data", "options": {"readOnly": True}},
            {"type": "bos", "sourcePath": "bucket/models/", "mountPath": "/models", "options": {"readOnly": False}},
        ],
        "faultTolerance": True,
    }


@pytest.mark.parametrize(
    ("written", "job_type"),
    [
        ("PyTorchJob", "PyTorchJob"), ("pytorch", "PyTorchJob"), ("TFJob", "TFJob"), ("TensorFlowJob", "TFJob"),
        ("MPIJob", "MPIJob"), ("RayJob", "RayJob"),
    ],
)  # fmt: skip
def test_job_types(written: str, job_type: str) -> None:
    assert normalize_job_type(written) == job_type


@pytest.mark.parametrize(("priority", "word"), [(10, "high"), (1, "high"), (0, "normal"), (-1, "low")])
def test_priorities(priority: int, word: str) -> None:
    assert body(make_job(priority=priority))["priority"] == word


UNITS = [
    (Resources(cpu=1, memory="1Gi"), {"cpu": 1, "memory": 1}),
    (Resources(cpu=8.0, memory="65536Mi"), {"cpu": 8, "memory": 64}),
    (Resources(cpu=0, memory="1Gi"), {"memory": 1}),
    (Resources(memory="1Ti", gpu=2, gpu_type="v100-32g"), {"cpu": 1, "memory": 1024, "baidu.com/v100_32g_cgpu": 2}),
    (Resources(gpu=1, gpu_type="baidu.com/x_cgpu"), {"cpu": 1, "memory": 1, "baidu.com/x_cgpu": 1}),
    (Resources(gpu=1, gpu_type="P4"), {"cpu": 1, "memory": 1, "baidu.com/p4_cgpu": 1}),
]


@pytest.mark.parametrize(("resources", "expected"), UNITS)
def test_units_are_cores_gigabytes_and_cards(resources: Resources, expected: dict[str, int]) -> None:
    found = body(
        make_job(resources=resources), settings=AihcSettings(("q",), gpu_resources={"P4": "baidu.com/p4_cgpu"})
    )
    assert {each["name"]: each["quantity"] for each in found["jobSpec"]["resources"]} == expected


@given(
    cpu=st.integers(0, 512_000), mebibytes=st.integers(1, 2**22), cards=st.integers(0, 800)
)  # fmt: skip
def test_units_are_exact_or_refused(cpu: int, mebibytes: int, cards: int) -> None:
    resources = Resources(cpu=cpu / 1000, memory=f"{mebibytes}Mi", gpu=cards / 100, gpu_type="A800")
    exact = cpu % 1000 == 0 and mebibytes % 1024 == 0 and cards % 100 == 0
    try:
        found = {each["name"]: Fraction(each["quantity"]) for each in resource_list(resources, {"A800": "a800"})}
    except Refused:
        assert not exact
        return
    assert exact
    assert found.get("cpu", 0) * 1000 == cpu
    assert found["memory"] * 1024 == mebibytes
    assert found.get("a800", 0) * 100 == cards


REFUSED = [
    ({"resources": Resources(cpu=1.5)}, SPEC, {}, r"resources\.cpu: 1\.5 is not a whole number of cores; ask for 2"),
    ({"resources": Resources(memory="1G")}, SPEC, {}, r"resources\.memory: 1G is not .* Gi; ask for 1 Gi"),
    ({"resources": Resources(gpu=0.5, gpu_type="A800")}, SPEC, {}, r"resources\.gpu: 0\.5"),
    ({"resources": Resources(gpu=1)}, SPEC, {}, r"resources\.gpu_type: it must be set"),
    ({"resources": Resources(gpu=1, gpu_type="V100")}, SPEC, {}, r"'V100' is not known; use one of .*V100-16G"),
    ({"resources": Resources(ports=1)}, SPEC, {}, r"resources\.ports"),
    ({"resources": Resources(labels={"disk": "ssd"})}, SPEC, {}, r"resources\.labels"),
    ({}, Spec(command=("a",)), {}, r"spec\.image: AIHC needs an image"),
    ({}, Spec(image="host:5000/train", command=("a",)), {}, r"has no tag"),
    ({}, Spec(image="a:1"), {}, r"spec\.command"),
    ({}, Spec(image="a:1", command=("a",), manifest={"kind": "Job"}), {}, r"spec\.manifest"),
    (
        {},
        Spec(image="a:1", command=("a",), mounts=(Mount("/a", "x", kind="claim"),)),
        {},
        r"no storage of type 'claim'",
    ),
    ({}, Spec(image="a:1", command=("a",), mounts=(Mount("/a", "/", kind="pfs"),)), {}, r"needs a name"),
    ({}, SPEC, {"jobType": "PaddleJob"}, r"AIHC does not run 'PaddleJob'; it runs PyTorchJob, TFJob, MPIJob, RayJob"),
    ({}, SPEC, {"dataSources": []}, r"no field 'dataSources'; the field is `datasources`"),
    ({}, SPEC, {"jobSpec": {"cpus": 1}}, r"jobSpec has no field 'cpus'"),
    ({}, SPEC, {"queue": "q-9"}, r"'q-9' is not one of the adapter's queues \(q-1, q-2\)"),
    ({}, SPEC, {"priority": "urgent"}, r"'urgent' is not one of high, normal, low"),
    ({}, SPEC, {"sharedMemory": "100Mi"}, r"sharedMemory"),
]


@pytest.mark.parametrize(("fields", "spec", "extra", "message"), REFUSED)
def test_what_aihc_cannot_run_is_refused_by_name(
    fields: dict[str, Any], spec: Spec, extra: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        body(make_job(**fields), spec, **extra)


def test_data_sources_of_the_mlp_cooker_are_taken_as_they_are() -> None:
    settings = AihcSettings(("q-1",), pfs_instance="pfs-9")
    found = body(
        settings=settings,
        datasources=[
            {"type": "pfs", "sourcePath": "/", "mountPath": "/data", "readOnly": False},
            {"type": "bos", "sourcePath": "my-bucket/data/", "mountPath": "/in", "readOnly": True},
            {"type": "emptydir", "name": "devshm", "mountPath": "/dev/shm", "options": {"medium": "Memory"}},
        ],
    )
    assert found["datasources"] == [
        {"type": "pfs", "name": "pfs-9", "sourcePath": "/", "mountPath": "/data", "options": {"readOnly": False}},
        {"type": "bos", "sourcePath": "my-bucket/data/", "mountPath": "/in", "options": {"readOnly": True}},
        {"type": "emptydir", "name": "devshm", "mountPath": "/dev/shm", "options": {"medium": "Memory"}},
    ]


def test_tfjobs_are_sent_by_role_if_the_setting_says_so() -> None:
    found = body(settings=AihcSettings(("q-1",), roles=True), jobType="TFJob")
    assert set(found["jobSpec"]) == {"Worker"}
    aihc_accepts(found)


def test_secrets_stay_secrets() -> None:
    config = {"username": "robot", "password": secret("env:REGISTRY_PASSWORD")}
    found = body(
        spec=Spec(image="a:1", command=("a",), env={"KEY": secret("env:KEY")}), jobSpec={"imageConfig": config}
    )
    assert mask(found)["jobSpec"]["imageConfig"] == {"username": "robot", "password": "***"}
    assert mask(found)["jobSpec"]["envs"] == [{"name": "KEY", "value": "***"}]


def test_states() -> None:
    assert STATES == {
        "Created": "preparing",
        "Scheduled": "preparing",
        "Starting": "preparing",
        "Running": "running",
        "Abnormal": "running",
        "Restarting": "preparing",
        "Succeeded": "succeeded",
        "Failed": "failed",
        "Stopping": "stopping",
        "Stopped": "cancelled",
        "ManualTermination": "cancelled",
    }


def test_an_unknown_state_counts_as_running() -> None:
    assert cluster_state("Hibernating") == "running"
    assert "Hibernating" in describe_status("Hibernating", "q-1")


def test_a_queued_job_says_where_it_waits() -> None:
    assert describe_status("Created", "q-1") == "waits in AIHC's queue q-1"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2025-09-10T04:00:34Z", datetime(2025, 9, 10, 4, 0, 34, tzinfo=UTC)),
        ("2025-09-10T12:00:34+08:00", datetime(2025, 9, 10, 4, 0, 34, tzinfo=UTC)),
        ("1757476834", datetime(2025, 9, 10, 4, 0, 34, tzinfo=UTC)),
        ("", None), (None, None), ("soon", None), ("9" * 30, None),
    ],
)  # fmt: skip
def test_times(written: object, expected: datetime | None) -> None:
    assert parse_time(written) == expected


def test_a_job_started_when_its_timeline_says_so() -> None:
    timeline = [{"conditionType": "Created"}, {"conditionType": "Running", "time": "2025-09-10T04:00:34Z"}]
    assert started_at({"jobTimeLine": timeline}) == datetime(2025, 9, 10, 4, 0, 34, tzinfo=UTC)
    assert started_at({"jobTimeLine": None}) is None
