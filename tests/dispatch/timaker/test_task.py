"""What a job is on timaker, as tables: the body of CreateTrainingJob, units, states, times, and what fits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.dispatch import Mount, Refused, Resources, Spec, secret
from muster.dispatch.timaker.task import (
    STATES,
    TimakerCapacity,
    TimakerFileSystemDataSource,
    TimakerResources,
    TimakerTaskInfo,
    cluster_state,
    create_body,
    describe_status,
    lacking,
    mask_keys,
    parse_time,
    resource_config,
)
from tests.dispatch.examples import SPEC, make_job

INFO = TimakerTaskInfo(
    host="127.0.0.1", addr="http://127.0.0.1:31425", secret_id="the-id", secret_key="the-key", uin="superadmin"
)
NAME = "train-j1-1"


def test_the_body_of_a_plain_job() -> None:
    assert create_body(make_job(), SPEC, NAME, INFO) == {
        "Uin": "superadmin",
        "TiProjectId": 1,
        "TrainingJobName": NAME,
        "ResourceConfig": {
            "Memory": 65536,
            "CpuNum": 8000,
            "GpuNum": 0,
            "GpuType": "",
            "InstanceCount": 1,
            "RDMAConfig": {"Enable": False},
        },
        "EnvConfig": [{"Name": "SEED", "Value": "7"}],
        "AlgorithmSpecification": {
            "EntryPoint": "python train.py --name 'two words'",
            "TrainingImageName": "shop/train:1.4",
            "AlgorithmSource": {},
        },
        "Elastic": False,
        "RestartPolicy": {"PolicyName": "AutoRestart"},
    }


def test_what_the_parser_says_goes_before_the_job_and_its_spec() -> None:
    ceph = TimakerFileSystemDataSource("ceph", "/jobs/1", True, "10.0.0.2:6789", "admin", "ceph-key")
    info = replace(
        INFO, project_id=3, memory=1024, cpu_num=500, gpu_num=50, gpu_type="T4", instance_count=2, is_elasticity=True,
        env_config={"A": "1", "SEED": "1"}, start_cmd="bash run.sh", enable_rdma=True, file_system_option=ceph,
        task_name="my-task", image_name="mirror/train:2",
    )  # fmt: skip
    body = create_body(make_job(), SPEC, NAME, info)
    assert body["ResourceConfig"] == {
        "Memory": 1024, "CpuNum": 500, "GpuNum": 50, "GpuType": "T4", "InstanceCount": 2,
        "RDMAConfig": {"Enable": True},
    }  # fmt: skip
    assert body["EnvConfig"] == [{"Name": "A", "Value": "1"}, {"Name": "SEED", "Value": "7"}]
    assert (body["TiProjectId"], body["TrainingJobName"], body["Elastic"]) == (3, "my-task", True)
    assert body["AlgorithmSpecification"] == {
        "EntryPoint": "bash run.sh",
        "TrainingImageName": "mirror/train:2",
        "AlgorithmSource": {
            "FileSystemDataSource": {
                "FileSystemType": "ceph", "DirectoryPath": "/jobs/1", "ReadOnly": True,
                "FileSystemEndpoint": "10.0.0.2:6789", "User": "admin", "SecretKey": "ceph-key",
            }
        },
    }  # fmt: skip
    assert "ceph-key" not in str(mask_keys(body))


def test_one_mount_at_the_code_folder() -> None:
    spec = replace(SPEC, mounts=(Mount("/opt/ml/code", "/share/j1", kind="nas", name="10.0.0.3", read_only=True),))
    source = create_body(make_job(), spec, NAME, INFO)["AlgorithmSpecification"]["AlgorithmSource"]
    assert source == {
        "FileSystemDataSource": {
            "FileSystemType": "nas", "DirectoryPath": "/share/j1", "ReadOnly": True, "FileSystemEndpoint": "10.0.0.3",
        }
    }  # fmt: skip


UNITS = [
    (Resources(cpu=8, memory="64Gi", gpu=2, gpu_type="V100", nodes=2), (65536, 8000, 200, "V100", 2)),
    (Resources(cpu=0.5, memory="512Mi", gpu=0.5), (512, 500, 50, "", 1)),
    (Resources(cpu=0.001, memory="1Mi", gpu=0.29), (1, 1, 29, "", 1)),  # 0.29 * 100 is not 29 in floating point
    (Resources(cpu=1.1, memory="1048576Ki", gpu=1.15), (1024, 1100, 115, "", 1)),
]


@pytest.mark.parametrize(("resources", "expected"), UNITS)
def test_units_are_megabytes_thousandths_and_hundredths(resources: Resources, expected: tuple[Any, ...]) -> None:
    found = resource_config(make_job(resources=resources), INFO)
    assert tuple(found[name] for name in ("Memory", "CpuNum", "GpuNum", "GpuType", "InstanceCount")) == expected


@given(
    micro_cores=st.integers(0, 10**9), kibibytes=st.integers(1, 2**33), thousandths=st.integers(0, 10**5)
)  # fmt: skip
def test_units_are_exact_or_refused(micro_cores: int, kibibytes: int, thousandths: int) -> None:
    resources = Resources(cpu=micro_cores / 10**6, memory=f"{kibibytes}Ki", gpu=thousandths / 1000)
    exact = micro_cores % 1000 == 0 and kibibytes % 1024 == 0 and thousandths % 10 == 0
    try:
        found = resource_config(make_job(resources=resources), INFO)
    except Refused:
        assert not exact
        return
    assert exact
    assert (found["CpuNum"] * 1000, found["Memory"] * 1024, found["GpuNum"] * 10) == (
        micro_cores, kibibytes, thousandths,
    )  # fmt: skip


REFUSED: list[tuple[dict[str, Any], Spec, dict[str, Any], str]] = [
    ({"resources": Resources(memory="64M")}, SPEC, {}, r"resources\.memory: 64M is not a whole number of Mi"),
    ({"resources": Resources(cpu=0.0001)}, SPEC, {}, r"resources\.cpu"),
    ({"resources": Resources(gpu=0.333)}, SPEC, {}, r"resources\.gpu: 0\.333 is not a whole number of 1/100 cards"),
    ({"resources": Resources(memory="4096Ti")}, SPEC, {}, r"more than timaker can count"),
    ({"resources": Resources(ports=1)}, SPEC, {}, r"resources\.ports"),
    ({"resources": Resources(labels={"disk": "ssd"})}, SPEC, {}, r"resources\.labels"),
    ({}, Spec(image="a:1"), {}, r"spec\.command: timaker needs a command"),
    ({}, Spec(command=("a",)), {}, r"spec\.image: timaker needs an image"),
    ({}, replace(SPEC, manifest={}), {}, r"spec\.manifest"),
    ({}, replace(SPEC, mounts=(Mount("/data", "/x"),)), {}, r"timaker mounts one folder, at /opt/ml/code"),
    ({}, replace(SPEC, mounts=(Mount("/opt/ml/code", "/x", kind="claim"),)), {}, r"claims"),
    ({}, replace(SPEC, env={"A-B": "1"}), {}, r"'A-B' is not the name of a variable"),
]


@pytest.mark.parametrize(("fields", "spec", "info", "message"), REFUSED)
def test_what_timaker_cannot_run_is_refused_by_name(
    fields: dict[str, Any], spec: Spec, info: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        create_body(make_job(**fields), spec, NAME, replace(INFO, **info))


def test_states() -> None:
    by_state: dict[str, set[str]] = {}
    for word, state in STATES.items():
        by_state.setdefault(state, set()).add(word)
    assert by_state == {
        "succeeded": {"Completed"},
        "failed": {"Failed", "Evicted"},
        "preparing": {"JobReceived", "PrepareInstance", "InstanceReady", "PreResume", "Resuming"},
        "running": {"Training", "Suspending"},
        "stopping": {"PreStopped", "Stopping", "Suspended", "PreSuspend"},
        "cancelled": {"Stopped"},
    }


def test_an_unknown_state_counts_as_running() -> None:
    assert cluster_state("Daydreaming") == "running"
    assert "Daydreaming" in describe_status("Daydreaming")
    assert describe_status("Training") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01 08:00:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-07-01 00:30:00", datetime(2026, 6, 30, 16, 30, tzinfo=UTC)),
        ("", None), (None, None), ("2026-01-01T08:00:00Z", None),
    ],
)  # fmt: skip
def test_times_are_shanghais(text: object, expected: datetime | None) -> None:
    assert parse_time(text) == expected


THERE = TimakerResources.from_json(
    {"Train": {"Cpu": 16000, "Memory": 65536, "VGpu": 50, "V100": 2, "T4": 1}, "Elastic": 4}
)
FITS = [
    (Resources(cpu=16, memory="64Gi"), False, ""),
    (Resources(cpu=17), False, "17 cores needed, 16 there"),
    (Resources(cpu=8, memory="40Gi", nodes=2), False, "81920 MB of memory needed, 65536 there"),
    (Resources(gpu=2, gpu_type="V100"), False, ""),
    (Resources(gpu=2.5, gpu_type="V100"), False, ""),
    (Resources(gpu=3, gpu_type="V100"), False, "3 V100 cards needed, 2.5 there"),
    (Resources(gpu=3, gpu_type="V100-32G"), False, "3 V100-32G cards needed, 2.5 there"),
    (Resources(gpu=6, gpu_type="V100"), True, ""),
    (Resources(gpu=1, gpu_type="A100"), False, "1 A100 cards needed, 0.5 there"),
    (Resources(gpu=3), False, ""),
    (Resources(gpu=4), False, "4 GPU cards needed, 3.5 there"),
]


@pytest.mark.parametrize(("resources", "elastic", "expected"), FITS)
def test_what_fits(resources: Resources, elastic: bool, expected: str) -> None:
    assert lacking(resource_config(make_job(resources=resources), INFO), THERE, elastic=elastic) == expected


def test_capacity_in_common_units() -> None:
    found = TimakerCapacity(THERE, TimakerResources()).to_capacity()
    assert found.total == {
        "cpu": 16, "memory": 64 * 2**30, "gpu": 7.5, "gpu/V100": 6.5, "gpu/A100": 4.5, "gpu/T4": 5.5, "gpu/P40": 4.5,
    }  # fmt: skip
    assert set(found.free.values()) == {0}


def test_keys_are_not_shown() -> None:
    ceph = TimakerFileSystemDataSource("ceph", "/", secret_key="ceph-key")
    shown = repr(replace(INFO, file_system_option=ceph)) + repr(replace(INFO, secret_key=secret("env:KEY")))
    assert "the-key" not in shown and "the-id" not in shown and "ceph-key" not in shown
