"""The same jobs on a loopback AIHC and a loopback timaker, with a real dispatcher: faults, adoption, cancel."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.dispatch import Dispatcher, JobCancelled, JobFailed, JobHandle
from muster.dispatch.model import Job
from tests.dispatch.aihc_server import AihcServer
from tests.dispatch.cloud_shop import KEYS, LEDGER, make_adapter, make_dispatcher
from tests.dispatch.loopback import FAULTS, Loopback
from tests.dispatch.timaker_server import TimakerServer

CREATE = {"aihc": "CreateJob", "timaker": "v1/CreateTrainingJob"}
STOP = {"aihc": "StopJob", "timaker": "v1/StopTrainingJob"}
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["aihc", "timaker"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(kind: str) -> Iterator[Loopback]:
    with make_server(kind) as server:
        yield server


def make_server(kind: str, **options: Any) -> AihcServer | TimakerServer:
    return AihcServer(execute=True, **options) if kind == "aihc" else TimakerServer(execute=True, **options)


@pytest.fixture
def dispatcher(kind: str, server: Loopback, tmp_path: Path) -> Iterator[Dispatcher]:
    dispatcher = make_dispatcher(tmp_path, make_adapter(kind, server.url))
    yield dispatcher
    dispatcher.close()


def wait_until(handle: JobHandle, condition: Callable[[Job], bool]) -> Job:
    deadline = time.monotonic() + PATIENCE
    while not condition(job := handle.refresh()):
        assert time.monotonic() < deadline, f"{job.state}: {job.reason}"
        time.sleep(0.02)
    return job


def runs(dispatcher: Dispatcher, handle: JobHandle) -> int:
    path = dispatcher.folder / handle.id / LEDGER
    return len(path.read_text().split()) if path.exists() else 0


def test_the_same_job_runs_on_both(dispatcher: Dispatcher, server: Loopback, kind: str, tmp_path: Path) -> None:
    with dispatcher:
        assert dispatcher.plan("square", {"number": 7}).problems == ()
        handle = dispatcher.submit("square", {"number": 7}, creator="ann")
        assert handle.result(PATIENCE) == 49
        failed = dispatcher.submit("square", {"number": 1, "exit": 1})
        with pytest.raises(JobFailed) as error:
            failed.result(PATIENCE)
    assert server.creations == {handle.refresh().external_name: 1, failed.refresh().external_name: 1}
    assert error.value.fault.code == {"aihc": "Aihc.JobFailed", "timaker": "Timaker.ExitCode"}[kind]
    assert list(handle.logs()) == ["working on 7"]
    assert runs(dispatcher, handle) == 1
    for path in tmp_path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(key.encode() in content for key in KEYS.values()), f"a key is in {path}"


def test_starts_that_go_wrong_in_every_way(dispatcher: Dispatcher, server: Loopback, kind: str) -> None:
    server.fail(CREATE[kind], *FAULTS)
    with dispatcher:
        handles = [dispatcher.submit("square", {"number": number}) for number in range(len(FAULTS))]
        if kind == "timaker":  # which can be asked for a job by its id only
            held = [wait_until(handle, lambda job: job.tracking.on_hold or job.has_ended) for handle in handles]
            unclear = [job for job in held if not job.has_ended]
            assert len(unclear) == len(FAULTS) - 1  # a slow answer is an answer
            assert all(job.state == "starting" and job.reason.startswith("start unclear: ") for job in unclear)
            for job in unclear:
                resolve(dispatcher, server, job)
        assert [handle.result(PATIENCE) for handle in handles] == [number**2 for number in range(len(FAULTS))]
    assert server.faults_given == Counter(FAULTS)
    assert server.creations == {handle.refresh().external_name: 1 for handle in handles}
    assert [(runs(dispatcher, handle), handle.refresh().attempt) for handle in handles] == [(1, 1)] * len(FAULTS)


def resolve(dispatcher: Dispatcher, server: Loopback, job: Job) -> None:
    """What a person does: looks for the name on timaker's pages."""
    assert isinstance(server, TimakerServer)
    found = [each.job_id for each in server.jobs.values() if each.body["TrainingJobName"] == job.external_name]
    if found:
        dispatcher.resolve(job.id, "adopt", found[0])
    else:
        dispatcher.resolve(job.id, "again")


def test_what_follows_an_unclear_start_can_be_set(tmp_path: Path) -> None:
    with TimakerServer(execute=True) as server:
        dispatcher = make_dispatcher(tmp_path, make_adapter("timaker", server.url, on_unclear="fail"))
        server.fail(CREATE["timaker"], "500")
        with dispatcher, pytest.raises(JobFailed, match="start unclear"):
            dispatcher.submit("square", {"number": 3}).result(PATIENCE)
        assert server.calls[CREATE["timaker"]] == 1


def test_a_job_goes_on_without_its_dispatcher_and_is_adopted(
    dispatcher: Dispatcher, server: Loopback, kind: str, tmp_path: Path
) -> None:
    with dispatcher:
        handle = dispatcher.submit("square", {"number": 4, "seconds": 1})
        wait_until(handle, lambda job: job.state == "running")
    other = make_dispatcher(tmp_path, make_adapter(kind, server.url))
    with other:
        assert other.get(handle.id).result(PATIENCE) == 16
    other.close()
    assert sum(server.creations.values()) == 1


def test_cancel_in_every_state_and_twice(dispatcher: Dispatcher, server: Loopback, kind: str) -> None:
    assert isinstance(server, AihcServer | TimakerServer)
    waiting, running = (dispatcher.submit("square", {"number": n, "seconds": 3600}) for n in range(2))
    waiting.cancel()  # while no dispatcher runs
    waiting.cancel()
    with dispatcher:
        wait_until(running, lambda job: job.state == "running")
        if isinstance(server, AihcServer):
            server.queue_seconds = 3600
        else:
            server.prepare_seconds = 3600
        preparing = dispatcher.submit("square", {"number": 3})
        wait_until(preparing, lambda job: job.state == "preparing" and bool(job.cluster_status))
        server.fail(STOP[kind], "reset after", "500")
        for handle in (running, preparing):
            handle.cancel()
            handle.cancel()
        for handle in (waiting, running, preparing):
            with pytest.raises(JobCancelled):
                handle.result(PATIENCE)
    assert waiting.refresh().external_name not in server.creations
    ended = [each.forced for each in server.jobs.values()]
    assert ended == ["Stopped", "Stopped"]


@pytest.mark.slow
@pytest.mark.smoke
def test_jobs_wait_for_room_one_by_one(tmp_path: Path) -> None:
    with TimakerServer(execute=True) as server:
        server.total["Train"]["Cpu"] = 1500
        dispatcher = make_dispatcher(tmp_path, make_adapter("timaker", server.url))
        with dispatcher:
            handles = [dispatcher.submit("square", {"number": number, "seconds": 1}) for number in range(3)]
            waits = "no room on timaker: app group 7: 1 cores needed, 0.5 there"
            wait_until(handles[1], lambda job: job.reason == waits or job.has_ended)
            wait_until(handles[2], lambda job: job.reason == waits or job.has_ended)
            assert [handle.result(PATIENCE) for handle in handles] == [0, 1, 4]
        dispatcher.close()
        assert server.calls[CREATE["timaker"]] == 3  # nothing was sent in vain
