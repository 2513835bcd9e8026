"""TimakerAdapter against a strict loopback gateway: signatures, units, room, and starts that are never doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from muster.dispatch import DispatchError, Job, JobError, NoCapacity, Refused, Resources, Transient, Unclear, secret
from muster.dispatch.external import Effect
from muster.dispatch.timaker.adapter import TimakerAdapter, TimakerClient, describe_resource, explain_error
from muster.dispatch.timaker.task import TimakerTaskInfo
from tests.dispatch.examples import SPEC, make_job, started
from tests.dispatch.loopback import Fault, Problem
from tests.dispatch.timaker_server import (
    APP_GROUP,
    ENDED,
    HOST,
    SECRET_ID,
    SECRET_KEY,
    UIN,
    TimakerServer,
)

NAME = "train-j1-1"
CREATE, DESCRIBE, STOP = "v1/CreateTrainingJob", "v1/DescribeTrainingJob", "v1/StopTrainingJob"


@pytest.fixture
def server() -> Iterator[TimakerServer]:
    with TimakerServer() as server:
        yield server


def make_info(server: TimakerServer, **fields: Any) -> TimakerTaskInfo:
    return TimakerTaskInfo(HOST, server.url, SECRET_ID, SECRET_KEY, UIN, **fields)


def make_adapter(server: TimakerServer, **settings: Any) -> TimakerAdapter:
    given: dict[str, Any] = {"app_group": APP_GROUP, "timeout": 20}
    return TimakerAdapter({"train": lambda job: make_info(server)}, **given | settings)


@pytest.fixture
async def adapter(server: TimakerServer) -> AsyncIterator[TimakerAdapter]:
    adapter = make_adapter(server)
    yield adapter
    await adapter.close()


async def state_of(adapter: TimakerAdapter, job: Job) -> str | None:
    found = (await adapter.describe([job])).get(job.id)
    return found.state if found else None


ERRORS: list[tuple[str, type[DispatchError], type[DispatchError]]] = [
    # code, what it means for create, and for reads
    ("AuthFailure.SignatureFailure", Refused, Transient),
    ("AuthFailure.SignatureExpire", Transient, Transient),
    ("UnauthorizedOperation", Refused, Transient),
    ("InvalidParameter", Refused, Refused),
    ("RequestLimitExceeded", Transient, Transient),
    ("ResourceInsufficient", NoCapacity, Transient),
    ("ResourceInsufficient.GPUInsufficient", NoCapacity, Transient),
    ("LimitExceeded", NoCapacity, Transient),
    ("ResourceNotFound", Refused, Refused),
    ("InternalError", Unclear, Transient),
    ("FailedOperation", Refused, Refused),
    ("SomethingNew", Refused, Refused),
]


@pytest.mark.parametrize(("code", "create", "read"), ERRORS)
def test_errors_are_told_apart_by_code(code: str, create: type[DispatchError], read: type[DispatchError]) -> None:
    effects: list[tuple[Effect, type[DispatchError]]] = [("create", create), ("read", read)]
    for effect, kind in effects:
        found = explain_error("timaker", code, "why", effect)
        assert (type(found), found.message, found.code) == (kind, f"timaker: {code}: why", f"Timaker.{code}")


async def test_a_job_from_start_to_end(adapter: TimakerAdapter, server: TimakerServer) -> None:
    server.prepare_seconds, server.run_seconds = 100, 100
    job = make_job(resources=Resources(cpu=0.5, memory="512Mi", gpu=2, gpu_type="V100", nodes=2))
    job = started(job, await adapter.start(job, SPEC, NAME))
    seen = []
    for _ in range(3):
        found = (await adapter.describe([job]))[job.id]
        seen.append((found.status, found.state, found.reason))
        server.clock.advance(100)
    assert seen == [
        ("PrepareInstance", "preparing", "timaker prepares its instances"),
        ("Training", "running", ""),
        ("Completed", "succeeded", ""),
    ]
    assert found.started is not None and found.ended is not None and found.started < found.ended
    assert abs(found.started.timestamp() - server.job(NAME).created) < 1
    assert found.hosts == (f"{job.external_id}-0",)
    assert server.calls["v1/StartTrainingJob"] == 0  # create has started it


FAULTS_OF_CREATE: list[tuple[Fault, int]] = [
    ("500", 0), ("reset", 0), ("500 after", 1), ("reset after", 1), ("lost", 1),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "created"), FAULTS_OF_CREATE)
async def test_an_unclear_start_is_named_and_not_repeated(server: TimakerServer, fault: Fault, created: int) -> None:
    adapter = make_adapter(server, timeout=1.5 if fault == "lost" else 20)
    server.fail(CREATE, fault)
    with pytest.raises(Unclear):
        await adapter.start(make_job(), SPEC, NAME)
    await adapter.close()
    assert server.calls[CREATE] == 1
    assert server.creations[NAME] == created
    assert (adapter.finds, adapter.on_unclear) == (False, "hold")


async def test_a_slow_answer_within_the_time_out_is_an_answer(adapter: TimakerAdapter, server: TimakerServer) -> None:
    server.fail(CREATE, "slow")
    assert await adapter.start(make_job(), SPEC, NAME) == server.job(NAME).job_id


async def test_a_job_waits_for_room(adapter: TimakerAdapter, server: TimakerServer) -> None:
    server.run_seconds = 100
    server.total["Train"]["V100"] = 3
    server.total["Train"]["VGpu"] = 0
    wanted = Resources(gpu=2, gpu_type="V100")
    await adapter.start(make_job(resources=wanted), SPEC, "first")
    with pytest.raises(NoCapacity, match="2 V100 cards needed, 1 there"):
        await adapter.start(make_job(resources=wanted), SPEC, "second")
    assert server.calls[CREATE] == 1  # it looked first
    server.clock.advance(100)
    await adapter.start(make_job(resources=wanted), SPEC, "second")
    assert server.creations == {"first": 1, "second": 1}


@pytest.mark.parametrize("code", ["ResourceInsufficient", "FailedOperation.Unheard"])
async def test_if_another_takes_the_room_after_the_look_the_job_waits(
    adapter: TimakerAdapter, server: TimakerServer, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of that refusal is not public: for an unknown one, the adapter looks again."""
    server.no_room = Problem(200, code, "no room")
    server.total["Train"] |= {"V100": 0, "VGpu": 0}

    async def see_room(*_: object) -> None:
        return None

    monkeypatch.setattr(adapter, "_check_capacity", see_room)
    with pytest.raises(NoCapacity):
        await adapter.start(make_job(resources=Resources(gpu=1, gpu_type="V100")), SPEC, NAME)


async def test_without_an_app_group_the_gateway_decides(server: TimakerServer) -> None:
    adapter = make_adapter(server, app_group=None)
    server.total["Train"]["Cpu"] = 10
    with pytest.raises(NoCapacity, match="ResourceInsufficient"):
        await adapter.start(make_job(), SPEC, NAME)
    await adapter.close()
    assert set(server.calls) == {CREATE}


async def test_the_dispatcher_may_know_the_capacity(server: TimakerServer) -> None:
    adapter = make_adapter(server, account=lambda: make_info(server))
    found = await adapter.capacity()
    await adapter.close()
    assert found is not None
    assert (found.total["cpu"], found.total["gpu/V100"], found.free["gpu/A100"]) == (512, 18, 10)
    assert await make_adapter(server).capacity() is None


async def test_describe_resource(server: TimakerServer) -> None:
    keys: dict[str, Any] = {
        "host": HOST,
        "addr": server.url,
        "uin": UIN,
        "secret_id": SECRET_ID,
        "secret_key": SECRET_KEY,
    }
    adapter = make_adapter(server)
    await adapter.start(make_job(), SPEC, NAME)
    found = await adapter.describe_resource(APP_GROUP, **keys)
    await adapter.close()
    assert (found.total.cpu, found.available.cpu) == (512_000, 504_000)
    assert (found.total.memory - found.available.memory, found.total.cards["V100"]) == (65536, 16)
    assert await describe_resource(APP_GROUP, **keys) == found


@pytest.mark.parametrize("state", ["JobReceived", "InstanceReady", "Training", "Suspended", "PreSuspend", "Odd"])
async def test_a_job_is_stopped_in_every_state(adapter: TimakerAdapter, server: TimakerServer, state: str) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.set_state(NAME, state)
    await adapter.stop(job, 30)
    assert await state_of(adapter, job) == "cancelled"
    await adapter.stop(job, 30)
    assert server.calls[STOP] == 1


@pytest.mark.parametrize("state", ["PreStopped", "Stopping", *sorted(ENDED)])
async def test_a_job_that_ends_anyway_is_not_stopped(
    adapter: TimakerAdapter, server: TimakerServer, state: str
) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.set_state(NAME, state)
    await adapter.stop(job, 30)
    assert server.calls[STOP] == 0


async def test_a_stop_without_an_answer_can_be_repeated(adapter: TimakerAdapter, server: TimakerServer) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.fail(STOP, "reset after")
    with pytest.raises(Transient):
        await adapter.stop(job, 30)
    await adapter.stop(job, 30)
    assert await state_of(adapter, job) == "cancelled"


async def test_a_stopped_job_can_be_started_again(adapter: TimakerAdapter, server: TimakerServer) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    client, info = adapter.client, make_info(server)
    with pytest.raises(Refused, match="started already"):
        await client.start_training_job(info, str(job.external_id))
    await adapter.stop(job, 30)
    await client.start_training_job(info, str(job.external_id))
    assert await state_of(adapter, job) == "running"


@pytest.mark.parametrize(("state", "origin"), [("Failed", "job"), ("Evicted", "dispatch")])
async def test_a_failed_job_says_why(adapter: TimakerAdapter, server: TimakerServer, state: str, origin: str) -> None:
    server.outcomes[NAME] = state
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.clock.advance(10)
    fault = (await adapter.describe([job]))[job.id].fault
    assert fault is not None
    assert fault.code == "Timaker.ExitCode"
    assert fault.message == f"{state} on timaker: the training program ended with exit code 1"
    assert (fault.origin, fault.retryable) == (origin, True)


async def test_a_job_that_is_gone_is_missing_and_one_without_an_answer_is_not(
    adapter: TimakerAdapter, server: TimakerServer
) -> None:
    jobs = [
        replace(started(make_job(id=name), await adapter.start(make_job(), SPEC, name)), state="running")
        for name in ("a", "b", "c")
    ]
    del server.jobs[str(jobs[0].external_id)]
    server.fail(DESCRIBE, "500", "500", "500", "500", "500", "500", "500")
    found = await adapter.describe(jobs)
    assert set(found) >= {"b", "c"} or len(found) == 2  # which calls failed is not determined
    assert all(each.state in {"running", "succeeded"} for each in found.values())
    assert set(await adapter.describe(jobs)) == {"b", "c"}


async def test_if_timaker_cannot_be_asked_no_job_is_missing(adapter: TimakerAdapter, server: TimakerServer) -> None:
    job = started(make_job(), await adapter.start(make_job(), SPEC, NAME))
    server.fail(DESCRIBE, "500", "reset", "500")
    with pytest.raises(Transient):
        await adapter.describe([job])


async def test_wrong_keys(server: TimakerServer) -> None:
    wrong = replace(make_info(server), secret_key="not-the-key")
    adapter = TimakerAdapter({"train": lambda job: wrong})
    with pytest.raises(Refused, match=r"AuthFailure\.SignatureFailure") as refused:
        await adapter.start(make_job(), SPEC, NAME)
    with pytest.raises(Transient):
        await adapter.describe([started(make_job(), "timaker-x")])
    await adapter.close()
    assert "not-the-key" not in str(refused.value) + repr(adapter) + repr(wrong)


async def test_each_job_has_the_keys_of_its_developer(server: TimakerServer) -> None:
    server.keys = {"id-ann": "key-ann", "id-bob": "key-bob"}
    asked = []

    def parse(job: Job) -> TimakerTaskInfo:
        asked.append(job.creator)
        return TimakerTaskInfo(HOST, server.url, f"id-{job.creator}", f"key-{job.creator}", job.creator)

    adapter = TimakerAdapter({"train": parse})
    for name in ("ann", "bob"):
        job = make_job(id=name, creator=name)
        job = started(job, await adapter.start(job, SPEC, name))
        assert await state_of(adapter, job)
    await adapter.close()
    assert asked == ["ann", "ann", "bob", "bob"]  # for every request, and nothing is kept
    assert [job.body["Uin"] for job in server.jobs.values()] == ["ann", "bob"]


async def test_secrets_reach_timaker_and_nothing_else(server: TimakerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMAKER_KEY", SECRET_KEY)
    monkeypatch.setenv("TOKEN", "hunter2")
    info = TimakerTaskInfo(HOST, server.url, SECRET_ID, secret("env:TIMAKER_KEY"), UIN)
    adapter = TimakerAdapter({"train": lambda job: info})
    spec = replace(SPEC, env={"TOKEN": secret("env:TOKEN")})
    shown = str(adapter.request(make_job(), spec, NAME)) + repr(adapter) + repr(info)
    await adapter.start(make_job(), spec, NAME)
    await adapter.close()
    assert "hunter2" not in shown and SECRET_KEY not in shown and SECRET_ID not in shown
    assert server.job(NAME).body["EnvConfig"] == [{"Name": "TOKEN", "Value": "hunter2"}]


async def test_a_parser_that_fails_fails_the_job_with_its_name(server: TimakerServer) -> None:
    def parse(job: Job) -> TimakerTaskInfo:
        raise KeyError("no project")

    adapter = TimakerAdapter({"train": parse})
    with pytest.raises(JobError, match="the parser of 'train' failed: KeyError"):
        await adapter.start(make_job(), SPEC, NAME)
    with pytest.raises(Refused, match="no parser for jobs of type 'other'"):
        await adapter.start(make_job(type="other"), SPEC, NAME)
    await adapter.close()


async def test_a_stranger_behind_the_address(server: TimakerServer) -> None:
    client = TimakerClient(timeout=1)
    info = replace(make_info(server), addr=f"{server.url}/_loopback/counts?")
    with pytest.raises(Unclear, match="not the gateway's JSON"):
        await client.create_training_job(info, {})
    await client.close()
