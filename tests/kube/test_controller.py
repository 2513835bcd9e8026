from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from muster.kube.controller import Controller, PriorityQueue, backoff
from muster.kube.errors import Conflict, Unavailable


@asynccontextmanager
async def running(
    reconcile: Callable[[str], Awaitable[float | None]], *, workers: int = 4, max_backoff: float = 30.0
) -> AsyncIterator[Controller[str]]:
    controller = Controller("test", reconcile, workers=workers, max_backoff=max_backoff)
    task = asyncio.create_task(controller.run())
    yield controller
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        for _ in itertools.count():
            if condition():
                return
            await asyncio.sleep(0.001)


async def test_a_key_waiting_in_the_queue_is_there_once() -> None:
    calls: list[str] = []

    async def reconcile(key: str) -> None:
        calls.append(key)

    async with running(reconcile) as controller:
        for key in ("a", "b", "a", "a"):
            controller.enqueue(key)
        await until(lambda: len(calls) == 2)
        controller.enqueue("a")
        await until(lambda: len(calls) == 3)
    assert calls == ["a", "b", "a"]


async def test_one_call_per_key_at_a_time_and_one_more_for_all_that_came_meanwhile() -> None:
    gate = asyncio.Event()
    calls: list[str] = []
    active: list[str] = []

    async def reconcile(key: str) -> None:
        assert key not in active
        active.append(key)
        calls.append(key)
        await gate.wait()
        active.remove(key)

    async with running(reconcile) as controller:
        controller.enqueue("a")
        await until(lambda: calls == ["a"])
        controller.enqueue("a")
        controller.enqueue("a")
        controller.enqueue("b")  # another key need not wait
        await until(lambda: calls == ["a", "b"])
        gate.set()
        await until(lambda: len(calls) == 3 and not active)
    assert calls == ["a", "b", "a"]


async def test_no_more_calls_at_once_than_workers() -> None:
    gate = asyncio.Event()
    active = most = done = 0

    async def reconcile(key: str) -> None:
        nonlocal active, most, done
        active += 1
        most = max(most, active)
        await gate.wait()
        active -= 1
        done += 1

    async with running(reconcile, workers=2) as controller:
        for number in range(5):
            controller.enqueue(str(number))
        await until(lambda: active == 2)
        gate.set()
        await until(lambda: done == 5)
    assert most == 2


async def test_it_looks_again_when_asked_to() -> None:
    calls = 0

    async def reconcile(key: str) -> float | None:
        nonlocal calls
        calls += 1
        return 0.01 if calls < 3 else None

    async with running(reconcile) as controller:
        controller.enqueue("a")
        await until(lambda: calls == 3)
        assert not controller._requested


async def test_of_two_wishes_the_earlier_wins_and_an_event_takes_none_back() -> None:
    calls = 0

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1

    async with running(reconcile) as controller:
        controller.enqueue_after("a", 3600)
        controller.enqueue_after("a", 0.05)
        controller.enqueue_after("a", 1800)
        controller.enqueue("a")
        await until(lambda: calls == 1)
        await until(lambda: calls == 2)


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("down"), ValueError("a bug")])
async def test_what_fails_is_tried_again(error: Exception) -> None:
    calls = 0

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise error

    async with running(reconcile) as controller:
        controller.enqueue("a")
        await until(lambda: calls == 4)
        assert not controller._failures


async def test_a_retry_that_an_event_came_before_is_not_made_twice() -> None:
    calls = 0
    healthy = False

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1
        if not healthy:
            raise Unavailable("down")

    async with running(reconcile) as controller:
        controller.enqueue("a")
        await until(lambda: calls == 3)  # the next retry is 40 ms away
        healthy = True
        controller.enqueue("a")
        await until(lambda: calls == 4)
        assert not controller._retries
        controller.enqueue("b")
        await until(lambda: calls == 5)


async def test_a_failure_does_not_cost_an_earlier_wish() -> None:
    calls = 0

    async def reconcile(key: str) -> float | None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Unavailable("down")
        return 3600 if calls == 1 else None

    async with running(reconcile) as controller:
        controller.enqueue("a")
        await until(lambda: controller._requested)
        controller.enqueue("a")
        await until(lambda: calls == 3)
        assert list(controller._requested) == ["a"]


async def test_it_never_gives_up() -> None:
    calls = 0

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1
        raise Conflict("again")

    async with running(reconcile, max_backoff=0.0) as controller:
        controller.enqueue("a")
        await until(lambda: calls > 1100)  # 2**1024 would overflow a float


async def test_a_cancelled_future_inside_does_not_cost_a_worker() -> None:
    calls = 0

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    async with running(reconcile, workers=1) as controller:
        controller.enqueue("a")
        await until(lambda: calls == 2)


async def test_every_failure_is_logged_and_the_pauses_grow(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Unavailable("the store is closed")
        if calls == 2:
            raise ZeroDivisionError("a bug")
        if calls == 3:
            raise Unavailable("the store is closed")

    with caplog.at_level(logging.WARNING):
        async with running(reconcile) as controller:
            controller.enqueue("a")
            await until(lambda: calls == 4)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "test a: the store is closed; retrying in 0.01 s"),
        ("ERROR", "test a failed; retrying in 0.02 s"),
        ("WARNING", "test a: the store is closed; retrying in 0.04 s"),
    ]
    assert "ZeroDivisionError: a bug" in caplog.text


async def test_stopping_cancels_what_it_does_and_what_it_planned() -> None:
    started = asyncio.Event()
    cancelled = False

    async def reconcile(key: str) -> None:
        nonlocal cancelled
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True
            raise

    async with running(reconcile) as controller:
        controller.enqueue("a")
        controller.enqueue_after("b", 3600)
        await started.wait()
    assert cancelled
    assert not controller._requested


def test_a_look_that_is_due_at_once_needs_no_timer() -> None:
    """For a time in the past, uvloop returns a handle that is no timer."""

    async def story() -> None:
        calls: list[str] = []

        async def reconcile(key: str) -> float | None:
            calls.append(key)
            return 0.0 if len(calls) < 3 else None

        async with running(reconcile) as controller:
            controller.enqueue_after("a", 0.0)
            await until(lambda: len(calls) == 3)

    uvloop.run(story())


def test_of_two_waits_too_short_for_uvloop_neither_does_harm() -> None:
    """uvloop rounds to milliseconds, and returns a handle without a due time for less than one."""

    async def story() -> None:
        calls: list[str] = []

        async def reconcile(key: str) -> float | None:
            calls.append(key)
            return None

        async with running(reconcile) as controller:
            controller.enqueue_after("a", 0.0001)
            controller.enqueue_after("a", 0.0001)
            controller.enqueue_after("b", 0.0001)
            controller.enqueue_after("b", 0.00005)
            await until(lambda: set(calls) == {"a", "b"})

    uvloop.run(story())


async def test_finish_begins_nothing_more_and_waits_for_what_was_begun() -> None:
    gate = asyncio.Event()
    calls: list[str] = []
    done: list[tuple[str, BaseException | None]] = []

    async def reconcile(key: str) -> None:
        calls.append(key)
        await gate.wait()

    controller: Controller[str] = Controller(
        "test", reconcile, workers=1, on_done=lambda key, seconds, error: done.append((key, error))
    )
    running = asyncio.create_task(controller.run())
    controller.enqueue("a")
    await until(lambda: calls == ["a"])
    controller.enqueue("b")
    assert controller.depth == 1
    finishing = asyncio.create_task(controller.finish())
    await asyncio.sleep(0)
    assert not finishing.done()
    gate.set()
    async with asyncio.timeout(10):
        await finishing
    await asyncio.wait([running], timeout=10)
    assert calls == ["a"] and done == [("a", None)]


async def test_every_look_is_told_of_with_what_went_wrong() -> None:
    done: list[tuple[str, str]] = []
    errors = [Conflict("changed"), ValueError("a bug")]

    async def reconcile(key: str) -> None:
        if errors:
            raise errors.pop(0)

    controller: Controller[str] = Controller(
        "test", reconcile, on_done=lambda key, seconds, error: done.append((key, type(error).__name__))
    )
    running = asyncio.create_task(controller.run())
    controller.enqueue("a")
    await until(lambda: len(done) == 3)
    running.cancel()
    await asyncio.wait([running])
    assert done == [("a", "Conflict"), ("a", "ValueError"), ("a", "NoneType")]


@pytest.mark.parametrize(
    ("failures", "error", "seconds"),
    [
        (1, Conflict("changed"), 0.01),
        (4, ValueError("wrong"), 0.08),
        (30, ValueError("wrong"), 30.0),
        (4, Unavailable("away"), 0.08),
        (30, Unavailable("away"), 5.0),
    ],
)
def test_the_more_often_it_fails_the_longer_it_waits_but_not_for_a_cluster_to_come_back(
    failures: int, error: Exception, seconds: float
) -> None:
    assert backoff(failures, error, 30.0) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("put", "taken"),
    [
        ("abc", "abc"),
        ("aab", "ab"),
        ("abcXYZ", "XYZabc"),
        ("abUVWXYZ", "UVWXaYZb"),
        ("XYZ", "XYZ"),
        ("abcX", "Xabc"),
        ("aXAb", "XAb"),
        ("XxYy", "XY"),
    ],
)
async def test_what_is_urgent_goes_first_and_lets_others_in_between(put: str, taken: str) -> None:
    """Capital letters are urgent; a key is its letter."""
    lanes: PriorityQueue[str] = PriorityQueue()
    for letter in put:
        lanes.put(letter.lower(), urgent=letter.isupper())
    assert len(lanes) == len(taken)
    assert [await lanes.get() for _ in taken] == list(taken.lower())
    assert len(lanes) == 0


async def test_a_thousand_new_ones_do_not_keep_an_urgent_one_waiting() -> None:
    looked_at: list[str] = []
    over = asyncio.Event()

    async def reconcile(key: str) -> float | None:
        looked_at.append(key)
        if looked_at.count("new 0") == 1 and key == "new 0":
            controller.enqueue("new 0", urgent=True)  # during its reconcile
        if len(looked_at) == 1002:
            over.set()
        return None

    async with running(reconcile, workers=1) as controller:
        for number in range(1000):
            controller.enqueue(f"new {number}")
        controller.enqueue("old", urgent=True)
        async with asyncio.timeout(20):
            await over.wait()
    assert looked_at[:4] == ["old", "new 0", "new 0", "new 1"]
