"""Stories of a dispatcher at work, on a fake cluster with a real database and real hook processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from muster.dispatch import (
    Capacity,
    Dispatcher,
    InvalidJob,
    Job,
    JobCancelled,
    JobFailed,
    JobHandle,
    JobNotFound,
    NoCapacity,
    Refused,
    Resources,
    Retry,
    Transient,
    Unclear,
    secret,
    store,
)
from muster.dispatch.loop import DispatchLoop
from muster.dispatch.testing import FakeAdapter, FakeClock
from tests.dispatch import shop

New = Callable[..., Dispatcher]


def until(job: JobHandle, *states: str, timeout: float = 20) -> Job:
    """Waits for a state."""
    for event in job.events(follow=True):
        if event.state in states:
            return job.refresh()
    raise AssertionError(f"the job ended as {job.state} and was never {states}")


def hooks_of(job: JobHandle) -> list[str]:
    return (Path(job.refresh().folder) / "hooks").read_text().split()


def test_a_function_runs_reports_and_returns(new_dispatcher: New, database_url: str) -> None:
    with new_dispatcher(FakeAdapter(), url=database_url) as dispatcher:
        handle = dispatcher.submit("add", {"a": 1, "b": 2}, project="shop", creator="ann")
        assert handle.result(20) == 3
        job = dispatcher.job(handle.id)
        assert (job.state, job.attempt, job.progress, job.message) == ("succeeded", 1, 0.5, "adding")
        assert job.metrics == {"a": 1.0}
        states = [event.state for event in handle.events()]
        assert states == ["waiting", "starting", "preparing", "submitting", "succeeded"]


async def test_a_handle_can_be_awaited(new_dispatcher: New) -> None:
    with new_dispatcher(FakeAdapter()) as dispatcher:
        results = await asyncio.gather(*(dispatcher.submit("add", {"a": n}) for n in range(5)))
        assert results == [0, 1, 2, 3, 4]


def test_hooks_run_in_order_and_keep_facts(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train", {"rows": 5})
        assert fake.wait_for(job.id).spec.command == ("train", "5")
        fake.finish(job.id)
        result = job.result(20)
        assert [hook for hook in result["hooks"] if hook != "check"] == ["initialize", "prepare", "submit"]
        assert result["kept"] == {"prepared": 1}
        assert hooks_of(job)[-1] == "clean"


@pytest.mark.parametrize(
    ("hook", "trouble", "code", "message"),
    [
        ("initialize", "raise", "Job.Initialize", "RuntimeError: initialize is broken"),
        ("prepare", "job-error", "Shop.prepare", "prepare does not like it"),
        ("prepare", "exit", "Job.Prepare.Exited", "ended with exit code 3"),
        ("prepare", "kill", "Job.Prepare.Exited", "ended with signal 9"),
        ("prepare", "hang", "Job.Prepare.Timeout", "took longer than 1 seconds"),
        ("check", "raise", "Job.Check", "RuntimeError: check is broken"),
        ("check", "hang", "Job.Check.Timeout", "took longer than 1 seconds"),
        ("check", "exit", "Job.Check.Exited", "ended with exit code 3"),
        ("submit", "raise", "Job.Submit", "RuntimeError: submit is broken"),
        ("submit", "exit", "Job.Submit.Exited", "ended with exit code 3"),
    ],
)
def test_a_hook_that_misbehaves_fails_its_job_and_nothing_else(
    new_dispatcher: New, hook: str, trouble: str, code: str, message: str
) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("impatient", {"trouble": {hook: trouble}})
        if hook == "submit":
            fake.finish(job.id)
        with pytest.raises(JobFailed, match=message) as failed:
            job.result(20)
        assert (failed.value.fault.code, failed.value.fault.origin) == (code, "job")
        assert hooks_of(job)[-1] == "clean"
        assert dispatcher.submit("add", {"a": 1}).result(20) == 1


def test_a_failing_clean_does_not_change_how_the_job_ended(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train", {"trouble": {"clean": "raise"}})
        fake.finish(job.id)
        job.result(20)
        assert "clean failed" in job.refresh().reason


def test_an_error_of_a_function_is_the_jobs_own(new_dispatcher: New) -> None:
    with new_dispatcher(FakeAdapter()) as dispatcher, pytest.raises(JobFailed) as failed:
        dispatcher.submit("fail", {"message": "disk on fire"}).result(20)
    assert (failed.value.fault.code, failed.value.fault.message) == ("Job.Run", "ValueError: disk on fire")


def test_an_error_marshaler_names_the_errors_of_hooks(new_dispatcher: New) -> None:
    with new_dispatcher(FakeAdapter(), errors=shop.errors) as dispatcher, pytest.raises(JobFailed) as failed:
        dispatcher.submit("train", {"trouble": {"prepare": "raise"}}).result(20)
    assert failed.value.fault.code == "Shop.Error"
    assert failed.value.fault.message == "prepare of train: prepare is broken"


def test_retry_starts_again_under_a_new_name(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("fail-twice")
        assert job.result(20) == 3
        assert [name.rpartition("-")[2] for name in fake.started] == ["1", "2", "3"]
        assert "restarting" in [event.state for event in job.events()]


def test_a_fault_that_is_not_retryable_ends_the_job(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train", retry=Retry(5, backoff=0.01))
        fake.fail(job.id, "bad input", retryable=False)
        with pytest.raises(JobFailed, match="bad input"):
            job.result(20)
        assert job.refresh().attempt == 1


# Submitting


def test_the_same_key_is_the_same_job(new_dispatcher: New, database_url: str) -> None:
    dispatcher = new_dispatcher(FakeAdapter(), url=database_url)
    first = dispatcher.submit("add", {"a": 1}, key="order-1")
    assert dispatcher.submit("add", {"a": 2}, key="order-1").id == first.id
    assert dispatcher.submit("add", {"a": 2}, key="order-2").id != first.id


def test_a_job_belongs_to_the_callers_transaction(new_dispatcher: New, database_url: str) -> None:
    dispatcher = new_dispatcher(FakeAdapter(), url=database_url)
    dispatcher.list()  # creates the tables
    engine = create_engine(dispatcher.database.url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        lost = dispatcher.submit("add", {"a": 1}, connection=connection)
        raise ZeroDivisionError
    with pytest.raises(JobNotFound):
        dispatcher.get(lost.id)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (2)"))
        kept = dispatcher.submit("add", {"a": 1}, connection=connection)
    engine.dispose()
    with dispatcher:
        assert kept.result(20) == 1


@pytest.mark.parametrize(
    ("type", "args", "options", "message"),
    [
        ("ad", {}, {}, 'there is no type "ad"; did you mean "add"?'),
        ("add", {"c": 1}, {}, "the arguments do not fit add: .*'a'"),
        ("add", {"a": object()}, {}, "must be JSON"),
        ("add", {"a": 1}, {"on": "moon"}, 'there is no adapter "moon"; the dispatcher has: fake'),
        ("add", {"a": 1}, {"at": datetime(2030, 1, 1)}, "at needs a time zone"),  # noqa: DTZ001
        ("add", {"a": "x" * 2_000_000}, {}, "pass its path"),
    ],
)
def test_a_bad_submit_says_what_is_wrong(new_dispatcher: New, type: str, args: dict[str, Any],
                                         options: dict[str, Any], message: str) -> None:  # fmt: skip
    with pytest.raises(InvalidJob, match=message):
        new_dispatcher(FakeAdapter()).submit(type, args, **options)


def test_a_plan_shows_the_request_with_masked_secrets(new_dispatcher: New, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter2")

    class Masking(FakeAdapter):
        def request(self, job: Job, spec: object, name: str) -> dict[str, object]:
            return {"name": name, "key": secret("env:SHOP_KEY")}

    dispatcher = new_dispatcher(Masking(capacity=Capacity({"cpu": 4, "gpu": 1}, {"cpu": 4, "gpu": 0})))
    plan = dispatcher.plan("train", resources=Resources(gpu=1))
    assert plan.request["key"] == "***"
    assert plan.problems == ("waits for GPUs on fake",)
    assert dispatcher.list().items == ()


# Order, limits, capacity


def test_priority_before_age(new_dispatcher: New) -> None:
    fake = FakeAdapter(capacity=Capacity({"cpu": 1}, {"cpu": 1}))
    dispatcher = new_dispatcher(fake, limits={"add": 1})
    low = dispatcher.submit("add", {"a": 1})
    high = dispatcher.submit("add", {"a": 2}, priority=5)
    changed = dispatcher.submit("add", {"a": 3})
    dispatcher.set_priority(changed.id, 9)
    with dispatcher:
        low.result(20)
    names = [fake.jobs[f"fake/{name}"].job.id for name in fake.started]
    assert names == [changed.id, high.id, low.id]


def test_a_job_in_the_queue_of_its_cluster_gets_a_new_priority(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    fake.fail_next("set_priority", Transient("gateway is down", retry_after=0.01))
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train", priority=1)
        fake.set_state(job.id, "preparing", "queued")
        while job.refresh().reason != "queued":
            pass
        dispatcher.set_priority(job.id, 7)
        while fake.wait_for(job.id).priority != 7:
            pass
        fake.finish(job.id)
        job.result(20)
        assert (job.refresh().priority, job.refresh().tracking.priority) == (7, 7)


def test_a_waiting_job_says_why(new_dispatcher: New) -> None:
    fake = FakeAdapter(capacity=Capacity({"cpu": 4, "gpu": 2}, {"cpu": 4, "gpu": 0}))
    with new_dispatcher(fake, limits={("shop", "train"): 0}) as dispatcher:
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        waiting = {
            dispatcher.submit("train", resources=Resources(gpu=1)): "waits for GPUs on fake",
            dispatcher.submit("train", resources=Resources(gpu=8)): "can never start on fake: it needs more GPUs",
            dispatcher.submit("train", project="shop"): "at most 0 jobs of type train run at a time in project shop",
            dispatcher.submit("train", at=tomorrow): f"starts at {tomorrow:%Y-%m-%d}",
        }
        blocked = dispatcher.submit("add", {"a": 1}, after=[next(iter(waiting))])
        waiting[blocked] = f"waits for job {next(iter(waiting)).id}"
        for job, reason in waiting.items():
            while job.refresh().reason == "waits for a dispatcher":
                pass
            assert reason in job.refresh().reason


def test_a_job_that_comes_after_a_failed_one_fails(new_dispatcher: New) -> None:
    with new_dispatcher(FakeAdapter()) as dispatcher:
        first = dispatcher.submit("fail")
        second = dispatcher.submit("add", {"a": 1}, after=[first])
        with pytest.raises(JobFailed, match=f"job {first.id}, which it comes after, failed"):
            second.result(20)


def test_no_capacity_is_waited_for_and_no_attempt(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    fake.fail_next("start", NoCapacity("the queue is full", retry_after=0.01))
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("add", {"a": 1})
        assert job.result(20) == 1
        assert job.refresh().attempt == 1
        assert "no room on fake: the queue is full" in [event.reason for event in job.events()]


def test_a_hook_may_wait_for_capacity(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train", {"trouble": {"prepare": "no-capacity"}})
        until(job, "starting")
        while "no licence is free" not in job.refresh().reason:
            pass
        (Path(job.refresh().folder) / "room").touch()
        fake.finish(job.id)
        job.result(20)


# Starts that go wrong


def test_a_lost_answer_is_adopted_and_not_repeated(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    fake.fail_next("start", Unclear("connection reset"), after=True)
    fake.fail_next("start", Transient("busy"))
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("add", {"a": 1})
        assert job.result(30) == 1
        assert fake.started == [job.refresh().external_name]


def test_a_start_whose_result_cannot_be_stored_is_not_repeated(
    new_dispatcher: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, save = FakeAdapter(finds=False), store.save_job

    def save_without_ids(connection: Connection, before: Job, after: Job, holder: str) -> bool:
        # Every time: writes that are committed together are tried again one by one if one of them fails.
        if after.external_id is not None:
            raise OSError("the database cannot be reached")
        return save(connection, before, after, holder)

    monkeypatch.setattr(store, "save_job", save_without_ids)
    with new_dispatcher(fake) as dispatcher:
        handle = dispatcher.submit("train")
        for event in handle.events(follow=True):
            if event.reason.startswith("start unclear: "):
                break
    assert len(fake.started) == 1


def test_an_unclear_start_is_held_where_the_cluster_cannot_be_asked(new_dispatcher: New) -> None:
    fake = FakeAdapter(finds=False)
    fake.fail_next("start", Unclear("time-out"), after=True)
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train")
        while not job.refresh().tracking.on_hold:
            pass
        assert job.refresh().reason.startswith("start unclear: time-out; look for train-")
        (external_id,) = fake.jobs
        dispatcher.resolve(job.id, "adopt", external_id)
        fake.finish(job.id)
        job.result(20)
        assert len(fake.started) == 1
        with pytest.raises(InvalidJob, match="is not unclear"):
            dispatcher.resolve(job.id, "again")


def test_a_refused_job_fails_without_retry(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    fake.fail_next("start", Refused("no such image"))
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("add", {"a": 1}, retry=Retry(3, backoff=0.01))
        with pytest.raises(JobFailed, match="no such image") as failed:
            job.result(20)
        assert failed.value.fault.origin == "dispatch"


def test_a_job_that_the_cluster_forgets_is_lost(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake, lost_after=0.1) as dispatcher:
        job = dispatcher.submit("train")
        until(job, "running")
        fake.forget(job.id)
        with pytest.raises(JobFailed, match="was it deleted there"):
            job.result(20)


def test_a_timeout_stops_the_job(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train", timeout=0.05)
        with pytest.raises(JobFailed, match=r"more than 0\.05 seconds"):
            job.result(20)
        assert fake.wait_for(job.id).state == "cancelled"


# Cancel


def test_cancel_a_waiting_job_while_no_dispatcher_runs(new_dispatcher: New, database_url: str) -> None:
    dispatcher = new_dispatcher(FakeAdapter(), url=database_url)
    job = dispatcher.submit("train")
    job.cancel()
    job.cancel()
    assert job.state == "cancelled"
    with pytest.raises(JobCancelled):
        job.result(0)


@pytest.mark.parametrize("state", ["starting", "preparing", "running", "stopping", "restarting"])
def test_cancel_in_every_state_and_twice(new_dispatcher: New, state: str) -> None:
    fake = FakeAdapter(obeys_stop=state != "stopping")
    with new_dispatcher(fake) as dispatcher:
        trouble = {"starting": {"prepare": "hang"}, "stopping": {"check": "raise"}}.get(state, {})
        job = dispatcher.submit("train", {"trouble": trouble}, retry=Retry(5, backoff=300))
        if state == "preparing":
            fake.set_state(job.id, "preparing", "pulling the image")
        if state == "restarting":
            fake.fail(job.id)
        until(job, state)
        if state == "starting":
            while "prepare" not in (hooks_of(job) if (Path(job.refresh().folder) / "hooks").exists() else []):
                pass
        job.cancel(grace=1)
        job.cancel(grace=1)
        if state == "stopping":
            until(job, "cancelling")
            fake.set_state(job.id, "cancelled")
        with pytest.raises(JobCancelled):
            job.result(20)
        if state != "starting":
            assert hooks_of(job).count("clean") == 1


def test_cancel_while_the_start_is_unclear_stops_what_was_started(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    fake.fail_next("start", Unclear("connection reset", retry_after=1), after=True)
    fake.fail_next("start", Unclear("connection reset"))
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train")
        fake.wait_for(job.id)
        job.cancel()
        with pytest.raises(JobCancelled):
            job.result(30)
        assert fake.wait_for(job.id).state == "cancelled"


def test_a_cancel_during_another_write_keeps_its_grace(new_dispatcher: New, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, save, read, cancel = FakeAdapter(), store.save_job, store.read_wishes, DispatchLoop._cancel
    is_read, is_writing, is_noted = threading.Event(), threading.Event(), threading.Event()

    def read_wishes(connection: Connection, holder: str) -> list[store.Wish]:
        wishes = read(connection, holder)
        if any(wish.cancel_requested for wish in wishes) and not is_read.is_set():
            is_read.set()
            assert is_writing.wait(20)
        return wishes

    def save_job(connection: Connection, before: Job, after: Job, holder: str) -> bool:
        if after.reason == "waits for its image" and not is_writing.is_set():
            is_writing.set()
            assert is_noted.wait(20)
        return save(connection, before, after, holder)

    async def note_cancel(loop: DispatchLoop, held: Any) -> None:
        is_noted.set()
        await cancel(loop, held)

    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train")
        until(job, "running")
        monkeypatch.setattr(store, "read_wishes", read_wishes)
        monkeypatch.setattr(store, "save_job", save_job)
        monkeypatch.setattr(DispatchLoop, "_cancel", note_cancel)
        job.cancel(grace=0)
        assert is_read.wait(20)
        fake.set_state(job.id, "preparing", "waits for its image")
        with pytest.raises(JobCancelled):
            job.result(20)
        assert fake.wait_for(job.id).grace == 0


def test_success_wins_over_a_late_cancel(new_dispatcher: New) -> None:
    fake = FakeAdapter(obeys_stop=False)
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train")
        until(job, "running")
        job.cancel()
        until(job, "cancelling")
        fake.finish(job.id)
        assert "hooks" in job.result(20)


def test_cancel_while_no_dispatcher_runs_takes_effect_with_the_next(new_dispatcher: New, database_url: str) -> None:
    fake = FakeAdapter()
    dispatcher = new_dispatcher(fake, url=database_url)
    with dispatcher:
        job = dispatcher.submit("train")
        until(job, "running")
    job.cancel()
    assert job.state == "running"
    with dispatcher, pytest.raises(JobCancelled):
        job.result(20)
    assert hooks_of(job).count("initialize") == 2  # again, in the dispatcher that took it over


def test_a_stop_that_fails_is_tried_again(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    fake.fail_next("stop", Transient("gateway is down", retry_after=0.01))
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train")
        until(job, "running")
        job.cancel(grace=7)
        with pytest.raises(JobCancelled):
            job.result(20)
        assert "cannot be stopped yet: gateway is down" in [event.reason for event in job.events()]
        assert fake.wait_for(job.id).grace == 7


def test_what_a_job_left_is_removed_in_spite_of_a_fault(new_dispatcher: New) -> None:
    tries: list[str] = []

    class Forgetful(FakeAdapter):
        async def release(self, job: Job) -> None:
            tries.append(job.id)
            if len(tries) < 3:
                raise Transient("500 Internal Server Error")

    with new_dispatcher(Forgetful()) as dispatcher:
        job = dispatcher.submit("add", {"a": 1})
        assert job.result(20) == 1
    assert tries == [job.id] * 3


def test_restart_runs_an_ended_job_again(new_dispatcher: New) -> None:
    with new_dispatcher(FakeAdapter()) as dispatcher:
        job = dispatcher.submit("fail")
        with pytest.raises(JobFailed):
            job.result(20)
        with pytest.raises(JobFailed):
            job.restart().result(20)
        assert job.refresh().attempt == 2
        running = dispatcher.submit("train")
        with pytest.raises(InvalidJob, match="only an ended job can be restarted"):
            running.restart()


# Reading


def test_lists_have_pages_and_filters(new_dispatcher: New, database_url: str) -> None:
    dispatcher = new_dispatcher(FakeAdapter(), url=database_url)
    ids = [dispatcher.submit("add", {"a": n}, project=f"p{n % 2}", labels={"n": str(n)}).id for n in range(5)]
    first = dispatcher.list(limit=2)
    second = dispatcher.list(limit=2, cursor=first.cursor)
    third = dispatcher.list(limit=2, cursor=second.cursor)
    found = [job.id for page in (first, second, third) for job in page.items]
    assert (found, third.cursor) == (ids[::-1], None)
    assert [job.id for job in dispatcher.list(project="p1").items] == [ids[3], ids[1]]
    assert [job.id for job in dispatcher.list(labels={"n": "4"}).items] == [ids[4]]
    assert dispatcher.list(state=["running", "failed"]).items == ()
    with pytest.raises(InvalidJob, match="not a cursor"):
        dispatcher.list(cursor="x")


def test_logs_come_from_the_cluster_and_then_from_the_folder(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train")
        fake.wait_for(job.id).lines += ["epoch 1", "epoch 2"]
        until(job, "running")
        assert list(job.logs(tail=1)) == ["epoch 2"]
        fake.finish(job.id)
        job.result(20)
        fake.forget(job.id)
        assert list(job.logs()) == ["epoch 1", "epoch 2"]
    assert list(job.logs()) == ["epoch 1", "epoch 2"]


def test_a_result_is_waited_for_no_longer_than_asked(new_dispatcher: New) -> None:
    with pytest.raises(TimeoutError, match="is waiting after 0 seconds: waits for a dispatcher"):
        new_dispatcher(FakeAdapter()).submit("train").result(0)


def test_an_ended_job_can_be_deleted(new_dispatcher: New, database_url: str) -> None:
    dispatcher = new_dispatcher(FakeAdapter(), url=database_url)
    job = dispatcher.submit("train")
    with pytest.raises(InvalidJob, match="is waiting; cancel it first"):
        dispatcher.delete(job.id)
    job.cancel()
    dispatcher.delete(job.id)
    with pytest.raises(JobNotFound):
        dispatcher.get(job.id)


def test_a_job_starts_at_its_time_by_a_clock_that_one_turns(new_dispatcher: New) -> None:
    clock = FakeClock()
    with new_dispatcher(FakeAdapter(), clock=clock) as dispatcher:
        job = dispatcher.submit("add", {"a": 1}, at=clock() + timedelta(hours=1))
        while not job.refresh().reason.startswith("starts at"):
            pass
        clock.turn(3601)
        assert job.result(20) == 1


def test_a_cluster_that_cannot_be_asked_is_named_on_its_jobs(new_dispatcher: New) -> None:
    fake = FakeAdapter()
    with new_dispatcher(fake) as dispatcher:
        job = dispatcher.submit("train")
        until(job, "running")
        for _ in range(20):
            fake.fail_next("describe", Transient("gateway is down"))
        while job.refresh().reason != "fake cannot be asked about it: gateway is down":
            pass
