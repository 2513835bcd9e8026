"""The step of the template `mlp-cooker-training-job`, against a backend that fails on demand."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.bundled.cooker_backend import KEYS, TOKEN, CookerBackend, serve_cooker
from tests.workflows.bundled.steps import Step

TASK = {"name": "my-job", "jobType": "PyTorchJob", "command": "python train.py", "jobSpec": {"replicas": 1}}
SECRET = "/mlp-cooker/credentials"
Start = Callable[..., Step]


@pytest.fixture
def backend() -> Iterator[CookerBackend]:
    with serve_cooker() as backend:
        yield backend


@pytest.fixture
def start(tmp_path: Path, backend: CookerBackend) -> Start:
    def step(task: Any = TASK, *, address: str = "", secret: dict[str, str] | None = None, **more: str) -> Step:
        text = task if isinstance(task, str) else json.dumps(task)
        parameters = {"mlp-cooker-api": address or backend.address, "task-params": text, **more}
        files = {f"{SECRET}/{key}": value for key, value in (secret or {}).items()}
        return Step(tmp_path, "mlp-cooker-training-job", parameters, files)

    return step


def test_creates_the_job_and_passes_on_the_answer(start: Start, backend: CookerBackend) -> None:
    step = start().end()
    assert step.ok, step.logs
    assert backend.jobs["job-1"].task == TASK
    created = {"requestId": "r", "jobId": "job-1", "jobName": "my-job"}
    assert step.response == {"success": True, "message": "ok", "data": created}
    assert (step.outputs["job-id"], step.outputs["status"]) == ("job-1", "Created")


def test_accepts_quotes_that_were_escaped_for_upstreams_template(start: Start, backend: CookerBackend) -> None:
    assert start(json.dumps(TASK, indent=1).replace('"', '\\"')).end().ok
    assert backend.jobs["job-1"].task == TASK


def test_waits_for_the_job_and_prints_its_logs_once(start: Start, backend: CookerBackend) -> None:
    backend.faults = ["garbage", "log"]
    step = start(wait="true").end()
    assert step.ok, step.logs
    assert step.outputs["status"] == "Succeeded"
    assert "trying again: HTTP status 502" in step.logs
    assert "Cannot read the log of job-1-master-0: the log cannot be read now" in step.logs
    printed = [line for line in step.logs.splitlines() if " | " in line]
    assert printed == [f"job-1-master-0 | my-job line {number}" for number in range(1, 6)]


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        (["Running", "Failed"], "Training job job-1 (my-job): Failed: job-1-master-0: OOMKilled"),
        (["Stopped"], "Training job job-1 (my-job): Stopped: Evicted: no room"),
    ],
)
def test_a_job_that_fails_fails_the_step_with_the_reason(
    start: Start, backend: CookerBackend, states: list[str], reason: str
) -> None:
    backend.states = states
    step = start(wait="true").end()
    assert not step.ok
    assert step.message == reason
    assert step.outputs["status"] == states[-1]


@pytest.mark.parametrize(
    ("task", "more", "reason"),
    [
        ('{"name": "x",', {}, "task-params is not valid JSON: Expecting property name"),
        ("[]", {}, "task-params must be a JSON object"),
        ("{}", {}, "The training job was not created: the training job could not be created: name is missing"),
        (TASK, {"wait": "yes"}, "wait is 'yes', but must be true or false"),
        (TASK, {"address": "http://127.0.0.1:1"}, "not created: http://127.0.0.1:1 cannot be reached: "),
        (TASK, {"address": "http://a:b@127.0.0.1:1"}, "not created: http://127.0.0.1:1 cannot be reached: "),
    ],
)
def test_a_job_that_cannot_be_created_fails_the_step(
    start: Start, backend: CookerBackend, task: Any, more: dict[str, str], reason: str
) -> None:
    step = start(task, **more).end()
    assert not step.ok
    assert reason in step.message
    assert not backend.jobs


def test_a_lost_answer_is_not_repeated(start: Start, backend: CookerBackend) -> None:
    backend.faults = ["lost"]
    step = start().end()
    assert not step.ok
    assert "It is not clear whether the training job was created" in step.message
    assert len(backend.jobs) == 1


def test_says_which_secret_it_needs(start: Start, backend: CookerBackend) -> None:
    backend.needs_token = True
    step = start().end()
    assert "Create the Secret mlp-cooker-credentials with the key token, or ak and sk" in step.message


@pytest.mark.parametrize("secret", [{"token": f"{TOKEN}\n"}, KEYS])
def test_takes_the_token_or_the_keys_from_a_secret(
    start: Start, backend: CookerBackend, secret: dict[str, str]
) -> None:
    backend.needs_token = True
    step = start(secret=secret).end()
    assert step.ok, step.logs
    assert not any(value.strip() in step.logs for value in secret.values())
    assert backend.logins == int("ak" in secret)


def test_logs_in_again_when_the_token_has_expired(start: Start, backend: CookerBackend) -> None:
    backend.needs_token = True
    backend.states = ["Running"]
    step = start(secret=KEYS, wait="true")
    _read_until(step, "Running")
    backend.token = "another"
    backend.jobs["job-1"].states = ["Succeeded"]
    assert step.end().ok, step.logs
    assert backend.logins == 2


def test_wrong_keys(start: Start, backend: CookerBackend) -> None:
    step = start(secret={"ak": "key", "sk": "wrong"}).end()
    assert "the backend did not accept the keys of the Secret" in step.message


def test_a_token_in_the_address_is_sent_as_curl_sends_it(start: Start, backend: CookerBackend) -> None:
    backend.needs_token = True
    step = start(address=backend.address.replace("http://", f"http://token:{TOKEN}@")).end()
    assert step.ok, step.logs
    assert TOKEN not in step.logs


def test_stopping_the_step_stops_the_job(start: Start, backend: CookerBackend) -> None:
    backend.states = ["Running"]
    step = start(wait="true")
    _read_until(step, "line 5")
    step.process.send_signal(signal.SIGTERM)
    assert not step.end().ok
    assert step.message == "The step was stopped, and training job job-1 with it"
    assert backend.stopped == ["job-1"]


def test_a_job_that_is_being_created_is_stopped_as_well(start: Start, backend: CookerBackend) -> None:
    backend.states = ["Running"]
    backend.may_answer.clear()
    step = start(wait="true")
    assert backend.creating.wait(60)
    step.process.send_signal(signal.SIGTERM)
    backend.may_answer.set()
    assert not step.end().ok
    assert backend.stopped == ["job-1"]


def _read_until(step: Step, text: str) -> None:
    assert step.process.stdout is not None
    assert any(text in line for line in step.process.stdout)
