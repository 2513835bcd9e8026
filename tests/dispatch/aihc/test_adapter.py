"""AihcAdapter against a strict loopback AIHC: start exactly once, one listing for many jobs, stop, logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from muster.dispatch import Job, Refused, Spec, Transient, Unclear, secret
from muster.dispatch.aihc.adapter import AihcAdapter
from muster.dispatch.secrets import mask
from tests.dispatch.aihc_server import AK, SK, TERMINAL, AihcServer
from tests.dispatch.examples import SPEC, make_job, started, unclear
from tests.dispatch.loopback import FAULTS, Fault, Problem

NAME = "train-j1-1"


@pytest.fixture
def server() -> Iterator[AihcServer]:
    with AihcServer() as server:
        yield server


@pytest.fixture
async def adapter(server: AihcServer) -> AsyncIterator[AihcAdapter]:
    adapter = make_adapter(server)
    yield adapter
    await adapter.close()


def make_adapter(server: AihcServer, **settings: Any) -> AihcAdapter:
    given: dict[str, Any] = {"pool": "aihc-serverless", "queue": "q-1"}
    return AihcAdapter(server.url, AK, SK, **given | settings)


async def state_of(adapter: AihcAdapter, job: Job) -> str | None:
    found = (await adapter.describe([job])).get(job.id)
    return found.state if found else None


async def test_a_job_from_start_to_end(adapter: AihcAdapter, server: AihcServer) -> None:
    server.queue_seconds, server.start_seconds, server.run_seconds = 100, 100, 100
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    seen = []
    for _ in range(4):
        found = (await adapter.describe([job]))[job.id]
        seen.append((found.status, found.state, found.reason))
        server.clock.advance(100)
    assert seen == [
        ("Created", "preparing", "waits in AIHC's queue q-1"),
        ("Starting", "preparing", "its pods are starting on AIHC"),
        ("Running", "running", ""),
        ("Succeeded", "succeeded", ""),
    ]
    assert found.started is not None and found.ended is not None and found.started < found.ended


@pytest.mark.parametrize("fault", FAULTS)
async def test_start_happens_exactly_once_whatever_goes_wrong(server: AihcServer, fault: Fault) -> None:
    adapter = make_adapter(server, create_timeout=1.5 if fault == "lost" else 20)
    server.fail("CreateJob", fault)
    job = make_job()
    try:
        external_id = await adapter.start(job, SPEC, NAME)
        assert fault == "slow"
    except Unclear:
        external_id = await adapter.start(unclear(job), SPEC, NAME)
    await adapter.close()
    assert server.creations == {NAME: 1}
    assert server.job(NAME).job_id == external_id


async def test_a_dispatcher_that_was_killed_while_it_started_a_job_adopts_it(server: AihcServer) -> None:
    first = make_adapter(server)
    external_id = await first.start(make_job(), SPEC, NAME)  # and now it is killed: the id was never stored
    await first.close()
    second = make_adapter(server)
    assert await second.start(unclear(make_job()), SPEC, NAME) == external_id
    assert await second.start(make_job(), SPEC, NAME) == external_id  # even if nobody knows of the first start
    await second.close()
    assert server.creations == {NAME: 1}


async def test_a_job_that_may_exist_is_not_created_while_it_cannot_be_looked_for(
    adapter: AihcAdapter, server: AihcServer
) -> None:
    server.fail("DescribeJobs", "500", "500", "500")
    with pytest.raises(Unclear):
        await adapter.start(unclear(make_job()), SPEC, NAME)
    assert server.creations == {}


async def test_names_that_begin_alike_are_told_apart(adapter: AihcAdapter, server: AihcServer) -> None:
    await adapter.start(make_job(), SPEC, "train-j1-10")
    assert await adapter.find(make_job(), "train-j1-1") is None
    ours = await adapter.start(make_job(), SPEC, "train-j1-1")
    assert await adapter.find(make_job(), "train-j1-1") == ours


async def test_a_job_is_found_among_many(server: AihcServer) -> None:
    adapter = make_adapter(server, page_size=2, queues=["q-2"])
    spec = replace(SPEC, options={"aihc": {"queue": "q-2"}})
    ids = [await adapter.start(make_job(), spec, f"x-{number}") for number in range(5)]
    assert [await adapter.find(make_job(), f"x-{number}") for number in range(5)] == ids
    assert ids[0].endswith("@q-2")
    jobs = [started(make_job(id=f"j{number}"), id) for number, id in enumerate(ids)]
    assert len(await adapter.describe(jobs)) == 5
    await adapter.close()


async def test_200_jobs_are_described_by_two_calls(adapter: AihcAdapter, server: AihcServer) -> None:
    jobs = []
    for number in range(200):
        job = make_job(id=f"j{number}")
        jobs.append(started(job, await adapter.start(job, SPEC, f"train-{number}")))
    server.calls.clear()
    assert len(await adapter.describe(jobs)) == 200
    assert server.calls == {"DescribeJobs": 2}


@pytest.mark.parametrize("missing", [Problem(404, "NoSuchJob", "no"), Problem(400, "InvalidParam", "no such job")])
async def test_a_job_that_was_deleted_is_missing(adapter: AihcAdapter, server: AihcServer, missing: Problem) -> None:
    server.missing = missing
    kept = started(make_job(id="kept"), await adapter.start(make_job(), SPEC, "a-1"))
    gone = started(make_job(id="gone"), await adapter.start(make_job(), SPEC, "a-2"))
    del server.jobs[str(gone.external_id)]
    assert set(await adapter.describe([kept, gone])) == {"kept"}


async def test_if_aihc_cannot_be_asked_no_job_is_missing(adapter: AihcAdapter, server: AihcServer) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.fail("DescribeJobs", "500", "reset", "500")
    with pytest.raises(Transient):
        await adapter.describe([job])


async def test_a_failed_job_says_why(adapter: AihcAdapter, server: AihcServer) -> None:
    server.outcomes[NAME] = "Failed"
    server.logs[f"{NAME}-master-0"] = [f"line {number}" for number in range(30)]
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.clock.advance(10)
    fault = (await adapter.describe([job]))[job.id].fault
    assert fault is not None
    assert fault.message == f"AIHC says that it failed: {NAME}-master-0: Error: exit code 1"
    assert fault.log_tail == tuple(f"line {number}" for number in range(10, 30))
    assert (fault.origin, fault.retryable) == ("job", True)


async def test_many_jobs_fail_at_once_and_some_without_details(
    adapter: AihcAdapter, server: AihcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.dispatch.aihc.adapter._FAULT_SECONDS", 0.2)
    jobs = [started(make_job(id=f"j{n}"), await adapter.start(make_job(), SPEC, f"a-{n}")) for n in range(30)]
    server.outcomes = {f"a-{n}": "Failed" for n in range(30)}
    server.clock.advance(10)
    for _ in range(10):
        server.fail("DescribeJob", "lost")
    found = await adapter.describe(jobs)
    assert {each.state for each in found.values()} == {"failed"}
    messages = [each.fault.message for each in found.values() if each.fault]
    assert len(messages) == 30 and "AIHC says that it failed" in messages


@pytest.mark.parametrize("state", ["Created", "Scheduled", "Starting", "Running", "Abnormal", "Restarting", "Odd"])
async def test_a_job_is_stopped_in_every_state(adapter: AihcAdapter, server: AihcServer, state: str) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.set_state(NAME, state)
    await adapter.stop(job, 30)
    server.job(NAME).forced = ""
    assert await state_of(adapter, job) == "cancelled"
    await adapter.stop(job, 30)
    assert server.calls["StopJob"] == 1


@pytest.mark.parametrize("state", ["Stopping", *sorted(TERMINAL)])
async def test_a_job_that_ends_anyway_is_not_stopped(adapter: AihcAdapter, server: AihcServer, state: str) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.set_state(NAME, state)
    await adapter.stop(job, 30)
    assert server.calls["StopJob"] == 0


@pytest.mark.parametrize("job_type", ["TFJob", "RayJob"])
async def test_what_aihc_cannot_stop_is_deleted(adapter: AihcAdapter, server: AihcServer, job_type: str) -> None:
    spec = replace(SPEC, options={"aihc": {"jobType": job_type}})
    job = started(make_job(), await adapter.start(make_job(), spec, NAME))
    await adapter.stop(job, 30)
    assert await state_of(adapter, job) is None
    await adapter.stop(job, 30)


async def test_a_stop_without_an_answer_can_be_repeated(adapter: AihcAdapter, server: AihcServer) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.fail("StopJob", "reset after")
    with pytest.raises(Transient):
        await adapter.stop(job, 30)
    await adapter.stop(job, 30)
    assert await state_of(adapter, job) == "cancelled"


async def test_a_queued_job_gets_a_new_priority(adapter: AihcAdapter, server: AihcServer) -> None:
    server.queue_seconds = 60
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    for priority, word in ((5, "high"), (-5, "low")):
        await adapter.set_priority(replace(job, priority=priority))
        assert server.job(NAME).body["priority"] == word
    server.clock.advance(100)
    with pytest.raises(Refused, match="only a job that is Created can be modified"):
        await adapter.set_priority(job)


async def test_logs_of_each_pod_in_pages(adapter: AihcAdapter, server: AihcServer) -> None:
    resources = replace(make_job().resources, nodes=2)
    job = make_job(resources=resources)
    job = started(job, await adapter.start(job, SPEC, NAME))
    server.logs = {
        f"{NAME}-master-0": [f"m{number}" for number in range(7)],
        f"{NAME}-worker-0": ["w0\nw1", "w2"],
    }
    lines = [(line.source, line.text) async for line in adapter.logs(job)]
    assert lines == [
        *((f"{NAME}-master-0", f"m{number}") for number in range(7)),
        *((f"{NAME}-worker-0", f"w{number}") for number in range(3)),
    ]
    assert [line.text async for line in adapter.logs(job, tail=2)] == ["w1", "w2"]


async def test_logs_are_followed_until_the_job_ends(
    adapter: AihcAdapter, server: AihcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.dispatch.aihc.adapter._FOLLOW_SECONDS", 0.01)
    server.run_seconds = 1000
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    pod = f"{NAME}-master-0"
    server.logs[pod] = ["0", "1", "2", "3"]
    lines = []
    async for line in adapter.logs(job, follow=True):
        lines.append(line.text)
        if line.text == "3":
            server.logs[pod] = [str(number) for number in range(8)]
        if line.text == "7":
            server.clock.advance(1000)
    assert lines == [str(number) for number in range(8)]


async def test_events(adapter: AihcAdapter, server: AihcServer) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    assert [event["reason"] for event in await adapter.events(job)] == ["JobCreated"]


async def test_parsers_and_options_are_merged(server: AihcServer) -> None:
    adapter = make_adapter(server, parsers={"train": lambda job, spec: {"jobType": "MPIJob", "priority": "low"}})
    spec = replace(SPEC, options={"aihc": {"priority": "high"}, "other": {"nonsense": True}})
    await adapter.start(make_job(), spec, NAME)
    await adapter.close()
    body = server.job(NAME).body
    assert (body["jobType"], body["priority"]) == ("MPIJob", "high")


async def test_a_job_in_a_self_managed_pool(server: AihcServer) -> None:
    adapter = make_adapter(server, pool="cce-test", queue="default")
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    assert await adapter.find(job, NAME) == job.external_id
    assert await state_of(adapter, job) in {"running", "succeeded"}
    await adapter.close()


async def test_a_job_that_aihc_would_never_take_is_refused(adapter: AihcAdapter, server: AihcServer) -> None:
    with pytest.raises(Refused, match="InvalidParam: name"):
        await adapter.start(make_job(), SPEC, "a name with blanks")
    with pytest.raises(Refused, match="no tag"):
        await adapter.start(make_job(), Spec(image="train", command=("a",)), NAME)
    assert server.calls["CreateJob"] == 1


async def test_keys_and_secrets_reach_aihc_and_nothing_else(
    server: AihcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIHC_SK", SK)
    monkeypatch.setenv("TOKEN", "hunter2")
    adapter = AihcAdapter(server.url, AK, secret("env:AIHC_SK"), pool="aihc-serverless", queue="q-1")
    spec = replace(SPEC, env={"TOKEN": secret("env:TOKEN")})
    shown = str(mask(adapter.request(make_job(), spec, NAME))) + repr(adapter) + repr(adapter.client)
    await adapter.start(make_job(), spec, NAME)
    await adapter.close()
    assert "hunter2" not in shown and SK not in shown
    assert server.job(NAME).body["jobSpec"]["envs"] == [{"name": "TOKEN", "value": "hunter2"}]


def test_the_request_is_shown_without_sending_it(server: AihcServer) -> None:
    found = make_adapter(server).request(make_job(), SPEC, NAME)
    assert found["query"] == {"action": "CreateJob", "resourcePoolId": "aihc-serverless", "queueID": "q-1"}
    assert found["body"]["name"] == NAME
    assert server.calls == {}
