"""The step of the template `aihc-training-job`: Baidu's own SDK against a loopback AIHC that verifies requests."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.aihc_server import AK, SERVERLESS, SK, AihcServer
from tests.workflows.bundled.steps import POD, Step

Start = Callable[..., Step]
SECRET = {"credentials/ak": AK, "credentials/sk": f"{SK}\n"}
CONFIG = {"config/resource-pool-id": SERVERLESS, "config/queue-id": "q-1", "config/pfs-instance-id": "pfs-1"}
COMMAND = "echo '$HOME $$ $(PATH) `id`' \"quoted\" \\ %s 中文 \n}} '''"


@pytest.fixture
def aihc() -> Iterator[AihcServer]:
    with AihcServer(run_seconds=0.0) as server:
        yield server


@pytest.fixture
def start(tmp_path: Path, aihc: AihcServer) -> Start:
    def step(files: dict[str, str] | None = None, **parameters: str) -> Step:
        written = {"job-name": "my-training", "aihc-base-url": aihc.url}
        written |= {name.replace("_", "-"): value for name, value in parameters.items()}
        mounted = {f"/aihc/{path}": text for path, text in (SECRET | CONFIG if files is None else files).items()}
        return Step(tmp_path, "aihc-training-job", written, mounted)

    return step


def test_creates_the_job_in_the_queue_of_the_config_map(start: Start, aihc: AihcServer) -> None:
    step = start(command=COMMAND, replicas="4", job_type="TensorFlowJob", priority="high").end()
    assert step.ok, step.logs
    job = aihc.job("my-training")
    assert (job.pool, job.queue) == (SERVERLESS, "q-1")
    spec = job.body.pop("jobSpec")
    assert {name: value for name, value in job.body.items() if value is not None} == {
        "name": "my-training",
        "queue": "q-1",
        "jobType": "TFJob",
        "command": COMMAND,
        "priority": "high",
        "labels": [{"key": "argo-pod", "value": POD}],
        "datasources": [{"type": "pfs", "name": "pfs-1", "sourcePath": "/", "mountPath": "/data"}],
    }
    assert (spec["replicas"], spec["enableRDMA"], spec["resources"]) == (4, True, [])
    assert [each["name"] for each in spec["envs"]] == ["NCCL_DEBUG", "NCCL_IB_DISABLE"]
    assert {key: step.response[key] for key in ("jobId", "jobName")} == {"jobId": job.job_id, "jobName": "my-training"}
    assert (step.outputs["job-id"], step.outputs["status"]) == (job.job_id, "Created")


def test_parameters_win_over_the_config_map(start: Start, aihc: AihcServer) -> None:
    files = {"config/ak": AK, "config/sk": "another", **CONFIG}
    step = start(files, aihc_sk=SK, resource_pool_id="cce-test", queue_id="research", enable_rdma="false").end()
    assert step.ok, step.logs
    job = aihc.job("my-training")
    assert (job.pool, job.queue, job.body["jobSpec"]["enableRDMA"]) == ("cce-test", "research", False)


@pytest.mark.parametrize(
    ("sources", "sent"),
    [
        pytest.param([], [], id="none"),
        pytest.param(
            [{"type": "pfs", "sourcePath": "/", "mountPath": "/data", "readOnly": False}],
            [{"type": "pfs", "name": "pfs-1", "sourcePath": "/", "mountPath": "/data", "options": {"readOnly": False}}],
            id="pfs",
        ),
        pytest.param(
            [{"type": "bos", "sourcePath": "my-bucket/data/", "mountPath": "/data", "readOnly": True}, {"type": "bos"}],
            [
                {"name": "", "sourcePath": "my-bucket/data/", "mountPath": "/data", "type": "bos",
                 "options": {"readOnly": True}},
                {"name": "", "sourcePath": "usual/", "mountPath": "/data", "type": "bos"},
            ],
            id="bos",
        ),
    ],
)  # fmt: skip
def test_data_sources_are_filled_in(start: Start, aihc: AihcServer, sources: Any, sent: Any) -> None:
    step = start(datasources=json.dumps(sources), bucket="usual").end()
    assert step.ok, step.logs
    assert aihc.job("my-training").body["datasources"] == sent


def test_waits_for_the_job_and_prints_its_logs_once(start: Start, aihc: AihcServer) -> None:
    aihc.logs["my-training-master-0"] = [f"line {number}" for number in range(1, 8)]
    aihc.run_seconds = 1.0
    aihc.fail("DescribeJob", "500", "500", "500", "500")  # the SDK itself repeats a read three times
    aihc.fail("DescribeJobLogs", "500", "500", "500", "500")
    step = start(wait="true").end()
    assert step.ok, step.logs
    assert step.outputs["status"] == "Succeeded"
    printed = [line for line in step.logs.splitlines() if " | " in line]
    assert printed == [f"my-training-master-0 | line {number}" for number in range(1, 8)]


def test_a_job_that_fails_fails_the_step_with_the_reason(start: Start, aihc: AihcServer) -> None:
    aihc.outcomes["my-training"] = "Failed"
    step = start(wait="true").end()
    assert not step.ok
    job = aihc.job("my-training").job_id
    assert step.message == f"Training job {job} (my-training): Failed: my-training-master-0: Error: exit code 1"


@pytest.mark.parametrize("fault", ["reset after", "500 after"])
def test_a_job_whose_answer_was_lost_is_adopted(start: Start, aihc: AihcServer, fault: Any) -> None:
    aihc.fail("CreateJob", fault)
    step = start().end()
    assert step.ok, step.logs
    assert aihc.creations["my-training"] == 1
    assert aihc.calls["CreateJob"] == 1, "the SDK would repeat it"
    assert step.outputs["job-id"] == aihc.job("my-training").job_id


def test_a_job_that_was_not_created_fails_the_step(start: Start, aihc: AihcServer) -> None:
    aihc.fail("CreateJob", "reset")
    step = start().end()
    assert not step.ok
    assert "The training job was not created: " in step.message
    assert aihc.calls["CreateJob"] == 1


@pytest.mark.parametrize(
    ("files", "parameters", "reason"),
    [
        ({}, {}, "There are no keys for AIHC. Create a Secret: kubectl create secret generic aihc-credentials"),
        (SECRET, {}, "resource-pool-id is missing. Pass it as a parameter, or put it into the ConfigMap aihc-config"),
        (SECRET | CONFIG, {"aihc_sk": "wrong"}, "AIHC refused the training job: SignatureDoesNotMatch: "),
        (SECRET | CONFIG, {"queue_id": "q-9"}, "AIHC refused the training job: InvalidParam: there is no queue 'q-9'"),
        (SECRET | CONFIG, {"envs": "[{]"}, "envs is not valid JSON: Expecting property name"),
        (SECRET | CONFIG, {"replicas": "many"}, "replicas is 'many', but must be a positive number"),
        (SECRET | CONFIG, {"enable_rdma": "on"}, "enable-rdma is 'on', but must be true or false"),
        (SECRET | CONFIG, {"aihc_base_url": "aihc"}, "aihc-base-url is 'aihc', not like https://aihc.bj.baidubce.com"),
        (SECRET | CONFIG, {"datasources": '[{"type": "bos"}]'}, "A data source of type bos needs a sourcePath"),
        (SECRET | CONFIG, {"aihc_base_url": "http://127.0.0.1:1"}, "not created: AIHC cannot be reached: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_the_message_of_the_step(
    start: Start, aihc: AihcServer, files: dict[str, str], parameters: dict[str, str], reason: str
) -> None:
    step = start(files, **parameters).end()
    assert not step.ok
    assert reason in step.message
    assert not aihc.jobs
    assert SK not in step.logs


def test_stopping_the_step_stops_the_job(start: Start, aihc: AihcServer) -> None:
    aihc.run_seconds = 60.0
    step = start(wait="true")
    assert step.process.stdout is not None
    assert any("Running" in line for line in step.process.stdout)
    step.process.send_signal(signal.SIGTERM)
    assert not step.end().ok
    assert "and training job" in step.message
    assert aihc.calls["StopJob"] == 1
