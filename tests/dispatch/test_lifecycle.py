"""The life of one job, as tables and laws."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.dispatch import (
    Job,
    JobDescription,
    JobError,
    JobFault,
    NoCapacity,
    Refused,
    Retry,
    State,
    Transient,
    Unclear,
)
from muster.dispatch.errors import DispatchError
from muster.dispatch.lifecycle import (
    MOST_METRICS,
    CancelRequested,
    Cleaned,
    Described,
    Finished,
    Found,
    HookFailed,
    Observation,
    PrioritySent,
    Reported,
    Sending,
    Started,
    StartFailed,
    StopSent,
    admitted,
    advance,
    backoff,
    external_name,
    next_act,
    resolved,
    restarted,
    taken_over,
)
from muster.dispatch.model import ENDED, Tracking

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FAULT = JobFault("Job.Run", "it broke", retryable=True)


def job_in(state: State, **changes: Any) -> Job:
    found = Job("01abc", "train", {}, "aihc", state, NOW - timedelta(hours=1), attempt=1, external_name="train-01abc-1")
    if state in {"preparing", "running", "submitting"}:
        found = replace(found, external_id="x-1")
    return replace(found, **changes)


def start_failed(error: DispatchError, **more: Any) -> StartFailed:
    return StartFailed(error, JobFault(error.code, error.message, retryable=isinstance(error, JobError)), **more)


def described(state: Any, **more: Any) -> Described:
    return Described(JobDescription(state, **more))


SENT = Tracking(sent=True, prepared=True)
FAIL_UNCLEAR = start_failed(Unclear("reset"), finds=False, on_unclear="fail")
HELD = replace(SENT, unclear=True, on_hold=True)
TOLD = Tracking(sent=True, priority=0)
LEFT = Tracking(off_cluster=True)
ONCE = Retry(1)
LONG_AGO = NOW - timedelta(hours=1)


def NEVER(fault: JobFault) -> bool:
    return False


@pytest.mark.parametrize(
    ("before", "observed", "state", "act"),
    [
        # starting
        (job_in("starting"), Sending(), "starting", "start"),
        (job_in("starting", tracking=SENT), Started("x-1"), "preparing", None),
        (job_in("starting", tracking=SENT), start_failed(NoCapacity("full")), "waiting", None),
        (job_in("starting", tracking=SENT), start_failed(Transient("503")), "waiting", None),
        (job_in("starting", tracking=replace(SENT, unclear=True)), start_failed(Transient("503")), "starting", None),
        (job_in("starting", tracking=SENT), start_failed(Unclear("reset")), "starting", None),
        (job_in("starting", tracking=SENT), start_failed(Unclear("reset"), finds=False), "starting", None),
        (job_in("starting", tracking=SENT), FAIL_UNCLEAR, "stopping", "clean"),
        (job_in("starting", tracking=SENT), start_failed(Refused("no image")), "stopping", "clean"),
        (job_in("starting"), start_failed(JobError("A.B", "bad")), "stopping", "clean"),
        (job_in("starting"), HookFailed(FAULT), "stopping", "clean"),
        # on the cluster
        (job_in("preparing"), described("preparing", reason="queued"), "preparing", None),
        (job_in("preparing"), described("running"), "running", None),
        (job_in("running"), described("preparing", reason="suspended"), "preparing", None),
        (job_in("running"), described("stopping"), "running", None),
        (job_in("running"), described("succeeded"), "submitting", "finish"),
        (job_in("preparing"), described("succeeded"), "submitting", "finish"),
        (job_in("running"), described("failed"), "stopping", "clean"),
        (job_in("running"), described("cancelled"), "cancelling", "clean"),
        (job_in("running"), Described(None), "running", None),
        (job_in("running", tracking=Tracking(lost_since=LONG_AGO)), Described(None), "stopping", "clean"),
        (job_in("running", timeout=60, started=NOW - timedelta(seconds=61)), described("running"), "stopping", "stop"),
        (job_in("running", timeout=60, started=NOW - timedelta(seconds=59)), described("running"), "running", None),
        (job_in("running"), HookFailed(FAULT), "stopping", "stop"),
        # a new priority
        (job_in("preparing", priority=5, tracking=TOLD), described("preparing"), "preparing", "prioritize"),
        (job_in("preparing", priority=0, tracking=TOLD), described("preparing"), "preparing", None),
        (job_in("preparing", priority=5), described("preparing"), "preparing", None),
        (job_in("preparing", priority=5, tracking=TOLD), PrioritySent(5), "preparing", None),
        (job_in("preparing", priority=5, tracking=TOLD), PrioritySent(4), "preparing", "prioritize"),
        (job_in("preparing", priority=5, tracking=TOLD), PrioritySent(5, Transient("503")), "preparing", None),
        (job_in("preparing", priority=5, tracking=TOLD), PrioritySent(5, Refused("too late")), "preparing", None),
        (job_in("running", priority=5, tracking=TOLD), described("running"), "running", None),
        # the end
        (job_in("submitting"), Finished(result=7), "succeeded", None),
        (job_in("submitting"), Finished(fault=FAULT), "failed", None),
        (job_in("submitting", retry=Retry(1)), Finished(fault=FAULT), "restarting", None),
        (job_in("stopping", fault=FAULT, tracking=LEFT), Cleaned(), "failed", None),
        (job_in("stopping", fault=FAULT, retry=Retry(1), tracking=LEFT), Cleaned(), "restarting", None),
        (job_in("stopping", fault=FAULT, retry=Retry(1), tracking=replace(LEFT, retries=1)), Cleaned(), "failed", None),
        (job_in("stopping", fault=FAULT, retry=Retry(1, on=NEVER), tracking=LEFT), Cleaned(), "failed", None),
        (job_in("stopping", fault=FAULT, retry=ONCE, tracking=LEFT, cancel_requested=NOW), Cleaned(), "failed", None),
        (job_in("stopping", external_id="x-1"), Described(None), "stopping", "clean"),
        (job_in("stopping", external_id="x-1"), described("running"), "stopping", "stop"),
        (job_in("stopping", external_id="x-1"), described("succeeded"), "stopping", "clean"),
        (job_in("stopping", external_id="x-1"), StopSent(), "stopping", None),
        (job_in("stopping", external_id="x-1"), StopSent(Transient("503")), "stopping", None),
        (job_in("cancelling", external_id="x-1"), Described(None), "cancelling", "clean"),
        (job_in("cancelling", external_id="x-1"), described("succeeded"), "submitting", "finish"),
        (job_in("cancelling", external_id="x-1"), described("failed"), "cancelling", "clean"),
        (job_in("cancelling", tracking=SENT), Found("x-1"), "cancelling", "stop"),
        (job_in("cancelling", tracking=SENT), Found(None), "cancelling", "clean"),
        (job_in("cancelling", tracking=SENT), Started("x-1"), "cancelling", "stop"),
        (job_in("cancelling", tracking=LEFT), Cleaned(), "cancelled", None),
        # cancel
        (job_in("waiting"), CancelRequested(), "cancelled", None),
        (job_in("restarting"), CancelRequested(), "cancelled", None),
        (job_in("waiting", tracking=Tracking(prepared=True)), CancelRequested(), "cancelling", "clean"),
        (job_in("starting"), CancelRequested(), "cancelling", "clean"),
        (job_in("starting", tracking=SENT), CancelRequested(), "cancelling", "find"),
        (job_in("starting", tracking=HELD), CancelRequested(), "cancelling", "clean"),
        (job_in("preparing"), CancelRequested(), "cancelling", "stop"),
        (job_in("running"), CancelRequested(), "cancelling", "stop"),
        (job_in("submitting"), CancelRequested(), "submitting", "finish"),
        (job_in("stopping", external_id="x-1"), CancelRequested(), "cancelling", "stop"),
        (job_in("stopping", tracking=LEFT), CancelRequested(), "cancelling", "clean"),
        # late observations
        (job_in("waiting"), Started("x-1"), "waiting", None),
        (job_in("submitting"), described("failed"), "submitting", "finish"),
        (job_in("succeeded"), CancelRequested(), "succeeded", None),
        (job_in("cancelled"), described("running"), "cancelled", None),
    ],
)  # fmt: skip
def test_what_a_job_becomes_and_what_is_done_about_it(
    before: Job, observed: Observation, state: State, act: str | None
) -> None:
    after = advance(before, observed, NOW)
    assert (after.state, next_act(after, NOW)) == (state, act)
    assert (after.ended is None) == (after.state not in ENDED or before.state in ENDED)


def test_no_capacity_and_no_effect_are_no_attempts() -> None:
    for error in (NoCapacity("full"), Transient("503")):
        after = advance(job_in("starting", tracking=SENT), start_failed(error), NOW)
        assert (after.attempt, after.tracking.sent, after.tracking.tries) == (0, False, 1)
        assert after.next_at is not None
        again = admitted(after, NOW)
        assert (again.attempt, again.external_name) == (1, "train-01abc-1")


def test_the_clusters_wish_about_the_next_try_is_obeyed() -> None:
    after = advance(job_in("starting"), start_failed(NoCapacity("full", retry_after=42)), NOW)
    assert after.next_at == NOW + timedelta(seconds=42)


def test_an_unclear_start_is_held_and_says_what_to_do() -> None:
    before = job_in("starting", tracking=SENT)
    held = advance(before, start_failed(Unclear("reset"), finds=False), NOW)
    assert "look for train-01abc-1 on aihc, then run `muster dispatch resolve 01abc" in held.reason
    assert next_act(held, NOW + timedelta(days=1)) is None
    assert resolved(held, "adopt", "x-9", NOW).external_id == "x-9"
    assert next_act(resolved(held, "again", "", NOW), NOW) == "start"
    assert next_act(resolved(held, "fail", "", NOW), NOW) == "clean"


def test_an_unclear_start_is_looked_for_where_the_cluster_can_be_asked() -> None:
    before = job_in("starting", tracking=SENT)
    after = advance(before, start_failed(Unclear("reset"), settle=7), NOW)
    assert after.may_exist
    assert not before.may_exist
    assert next_act(after, NOW + timedelta(seconds=6)) is None
    assert next_act(after, NOW + timedelta(seconds=8)) == "start"


def test_a_start_is_looked_for_soon_however_many_dispatchers_ended_meanwhile() -> None:
    ended = start_failed(Unclear("the dispatcher ended"), settle=2)
    job = job_in("starting", tracking=Tracking(sent=True))
    for number in range(20):
        job = taken_over(job, ended, NOW + timedelta(minutes=number))
        assert job.tracking.unclear and job.tracking.tries == 1
        assert job.next_at == NOW + timedelta(minutes=number, seconds=2)  # the last one may just have sent it


def test_a_take_over_does_not_shorten_a_wait_and_changes_nothing_else() -> None:
    ended = start_failed(Unclear("the dispatcher ended"), settle=2)
    later = NOW + timedelta(minutes=1)
    waits = job_in("starting", next_at=later, tracking=Tracking(sent=True, unclear=True, tries=6))
    assert taken_over(waits, ended, NOW).next_at == later
    for job in (job_in("starting"), job_in("running"), job_in("starting", tracking=Tracking(sent=True, on_hold=True))):
        assert taken_over(job, ended, NOW) == job


def test_a_retry_waits_longer_each_time_and_has_a_new_name() -> None:
    job = job_in("stopping", fault=FAULT, retry=Retry(3, backoff=10, backoff_max=15), tracking=LEFT)
    first = advance(job, Cleaned(), NOW)
    assert (first.next_at, first.reason) == (NOW + timedelta(seconds=10), "retry 1 of 3 after: it broke")
    second = advance(advance(admitted(first, NOW), HookFailed(FAULT), NOW), Cleaned(), NOW)
    assert second.next_at == NOW + timedelta(seconds=15)
    assert admitted(second, NOW).external_name == "train-01abc-3"


def test_a_restart_has_all_its_retries_again() -> None:
    ended = job_in("failed", fault=FAULT, cancel_requested=NOW, tracking=Tracking(retries=3, kept={"a": 1}))
    again = restarted(ended, NOW)
    assert (again.state, again.cancel_requested, again.tracking.retries) == ("waiting", None, 0)
    assert again.tracking.kept == {"a": 1}
    assert admitted(again, NOW).external_name == "train-01abc-2"


def test_reports_add_up() -> None:
    job = advance(job_in("running"), Reported(10, 0.5, "half", (("loss", 1.0),)), NOW)
    job = advance(job, Reported(20, None, "", (("accuracy", 0.9),)), NOW)
    assert (job.progress, job.message, job.metrics) == (0.5, "half", {"loss": 1.0, "accuracy": 0.9})
    assert advance(job, Reported(30, 7.0), NOW).progress == 1.0
    many = tuple((f"m{number}", 0.0) for number in range(MOST_METRICS - 1))
    kept = advance(advance(job, Reported(30, metrics=many), NOW), Reported(40, metrics=(("m0", 1.0),)), NOW).metrics
    assert len(kept) == MOST_METRICS
    assert next(iter(kept)) == "accuracy", "the oldest is forgotten"
    assert list(kept.items())[-1] == ("m0", 1.0)


@pytest.mark.parametrize("type", ["train", "Train Model!", "训练", "x" * 200, "-", ""])
def test_a_name_is_a_dns_label(type: str) -> None:
    name = external_name(replace(job_in("waiting"), type=type, id="1m7n06gk002p82mr"), 12)
    assert len(name) <= 63
    assert name.strip("-") == name
    assert name == name.lower()
    assert all(c.isascii() and (c.isalnum() or c == "-") for c in name)


ERRORS = st.sampled_from([NoCapacity("x"), Transient("x"), Unclear("x"), Refused("x"), JobError("A", "x")])
OBSERVATIONS: st.SearchStrategy[Observation] = st.one_of(
    st.just(Sending()),
    st.just(Started("x-1")),
    st.builds(start_failed, ERRORS, finds=st.booleans(), on_unclear=st.sampled_from(["hold", "again", "fail"])),
    st.just(Described(None)),
    st.builds(described, st.sampled_from(["preparing", "running", "stopping", "succeeded", "failed", "cancelled"])),
    st.sampled_from([Found(None), Found("x-1"), StopSent(), StopSent(Transient("x")), HookFailed(FAULT)]),
    st.sampled_from([Finished(result=1), Finished(fault=FAULT), Cleaned(), CancelRequested(), Reported(1, 0.1)]),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OBSERVATIONS, max_size=30), st.integers(0, 3))
def test_laws_of_any_history(history: list[Observation], retries: int) -> None:
    """Whatever happens in whatever order: an ended job stays as it is; a job that has been sent is not forgotten before
    the cluster said that it is gone; a job that is not at rest has something to do, sooner or later."""
    job = admitted(job_in("waiting", attempt=0, retry=Retry(retries)), NOW)
    for observed in history:
        before, job = job, advance(job, observed, NOW)
        if before.state in ENDED:
            assert job == before
        if before.external_id is not None and job.state in ENDED | {"restarting"}:
            assert before.tracking.off_cluster
        if job.state in {"waiting", "restarting"}:
            job = admitted(job, NOW)
        if job.state in {"starting", "stopping", "cancelling", "submitting"} and not job.tracking.on_hold:
            assert next_act(job, NOW + timedelta(days=1)) is not None
        assert job.state in ENDED or job.ended is None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10_000), st.floats(0.001, 100), st.floats(0.001, 1000))
def test_backoff_grows_to_its_limit(tries: int, first: float, longest: float) -> None:
    assert 0 <= backoff(tries, first, longest) <= longest
    assert backoff(tries + 1, first, longest) >= backoff(tries, first, longest)
