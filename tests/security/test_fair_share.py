"""The server's time is shared: the requests of one member do not hold up those of others, whatever they ask for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from starlette.types import Receive, Scope, Send

from muster.kube.budgets import Budgets
from muster.kube.errors import NotAcceptable, TooManyRequests
from muster.kube.manifests import dump
from muster.server.embedded_server import run_server
from muster.server.fair_share import BURST_SECONDS, FairRequests, FairShares, TooManyWaiting, Turn, turn_of
from muster.server.kubernetes.request import ApiRequest, json_response, send_response, stream
from muster.server.settings import read_settings
from tests.server.platform.whole import Whole

BUDGETS = Budgets(member_running_requests=2, member_waiting_requests=3, member_loop_percent=25)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_user_who_used_more_than_their_share() -> None:
    """A member keeps the event loop busy with requests for large objects while others wait"""
    clock = Clock()
    shares = FairShares(BUDGETS, clock)
    shares.note("alice")
    mallory = await shares.begin("mallory")
    shares.spend(mallory, BURST_SECONDS)
    assert shares.seconds_to_wait("mallory") == 0
    shares.spend(mallory, 0.1)
    assert shares.seconds_to_wait("mallory") == pytest.approx(0.4)
    assert shares.seconds_to_wait("alice") == 0
    clock.now += 0.4
    assert shares.seconds_to_wait("mallory") == pytest.approx(0)


async def test_a_user_who_is_alone_does_not_wait() -> None:
    """(for comparison) without other users, a member gets all of the server"""
    clock = Clock()
    shares = FairShares(BUDGETS, clock)
    shares.note("alice")
    clock.now += 60
    shares.note("mallory")
    account = await shares.begin("mallory")
    shares.spend(account, 30)
    assert shares.seconds_to_wait("mallory") == 0
    shares.note("alice")
    assert 0 < shares.seconds_to_wait("mallory") < 5


async def _run_socket(shares: FairShares, app: Any, sent: list[str]) -> None:
    async def receive() -> Any:
        return {"type": "websocket.receive", "bytes": b"x"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await FairRequests(app, shares)({"type": "websocket"}, receive, send)


@pytest.mark.parametrize(
    "direction",
    [
        pytest.param("output", id="A member runs commands that print without end, or forwards ports"),
        pytest.param("input", id="A member sends input to a command without end"),
    ],
)
async def test_sockets_wait_for_the_share_of_their_user(direction: str) -> None:
    clock = Clock()
    shares = FairShares(BUDGETS, clock)
    shares.note("alice")
    sent: list[str] = []
    received = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        turn = turn_of(scope)
        assert turn is not None
        await turn.begin("mallory")
        await send({"type": "websocket.accept"})
        turn.spend(BURST_SECONDS + 0.1)
        if direction == "input":
            await receive()
            received.set()
            return
        for _ in range(3):
            await send({"type": "websocket.send"})

    running = asyncio.create_task(_run_socket(shares, app, sent))
    await asyncio.wait((running,), timeout=0.3)
    assert not running.done() and not received.is_set()
    assert sent == ["websocket.accept", *(["websocket.send"] if direction == "output" else [])]
    clock.now += 60
    shares.note("alice")
    await asyncio.wait_for(running, 20)
    assert received.is_set() or sent.count("websocket.send") == 3


async def test_a_user_has_a_limit_on_open_streams() -> None:
    """A member opens thousands of watches, and wakes all of them with every write"""
    shares = FairShares(Budgets(user_streams=2))
    watches = [Turn(shares) for _ in range(3)]
    for turn in watches:
        turn.join("mallory")
    other = Turn(shares)
    other.join("alice")
    with watches[0].streaming(), other.streaming():
        with watches[1].streaming():
            scope = {"type": "http", "method": "GET", "headers": [], "query_string": b"", "muster.turn": watches[2]}
            request = ApiRequest(scope, _unexpected, _unexpected, "/api/v1/pods")
            with pytest.raises(TooManyRequests, match=r"2 of your streams are open; .* budgets.userStreams"):
                await stream(request, _no_pieces(), media="application/json")
        with watches[2].streaming():
            pass


async def _unexpected(*_: Any) -> Any:
    raise AssertionError


async def _no_pieces() -> AsyncGenerator[bytes, None]:
    return
    yield b""


async def test_open_sockets_do_not_hold_up_requests() -> None:
    """(for comparison) a user with many open terminals can go on working"""
    shares = FairShares(BUDGETS)
    sent: list[str] = []
    leave = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        turn = turn_of(scope)
        assert turn is not None
        await turn.begin("mallory")
        await send({"type": "websocket.accept"})
        await leave.wait()

    terminals = [asyncio.create_task(_run_socket(shares, app, sent)) for _ in range(5)]
    async with asyncio.timeout(20):
        shares.end(await shares.begin("mallory"))
    leave.set()
    await asyncio.gather(*terminals)
    assert sent == ["websocket.accept"] * 5


async def test_many_requests_at_once() -> None:
    """A member sends hundreds of requests at once: a few are worked on, some wait, the others are refused"""
    shares = FairShares(BUDGETS)
    running = [await shares.begin("mallory") for _ in range(2)]
    waiting = [asyncio.create_task(shares.begin("mallory")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWaiting, match="3 of your requests"):
        await shares.begin("mallory")
    await shares.begin("alice")
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    shares.end(running[0])
    await waiting[1]
    assert not waiting[2].done()
    shares.end(running[1])
    await waiting[2]


def busy(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def _call(app: FairRequests) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http"}, _never, send)
    return sent


def served_by(work: Callable[[Turn, Send], Awaitable[None]]) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        turn = turn_of(scope)
        assert turn is not None
        await turn.begin("mallory")
        await work(turn, send)

    return app


async def test_the_time_of_each_step_is_counted() -> None:
    """A request does its work in many small steps, before and after its response has started"""
    clock = Clock()
    shares = FairShares(BUDGETS, clock)

    async def work(turn: Turn, send: Send) -> None:
        for _ in range(5):
            busy(BURST_SECONDS / 4)
            await asyncio.sleep(0)
        await send({"type": "http.response.start"})
        busy(BURST_SECONDS)

    await _call(FairRequests(served_by(work), shares))
    shares.note("alice")
    assert shares.seconds_to_wait("mallory") >= BURST_SECONDS / 0.25


async def test_a_stream_gives_up_its_place() -> None:
    """(for comparison) open streams do not stop the other requests of the same user"""
    shares, opened = FairShares(BUDGETS), asyncio.Event()

    async def work(turn: Turn, send: Send) -> None:
        await send({"type": "http.response.start"})
        await opened.wait()

    app = FairRequests(served_by(work), shares)
    streams = [asyncio.create_task(_call(app)) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.wait_for(shares.begin("mallory"), 10)
    opened.set()
    assert all([await stream == [{"type": "http.response.start"}] for stream in streams])


async def test_a_request_that_fails_or_is_cancelled_gives_up_its_place() -> None:
    """A client disconnects again and again, so that its places are never free again"""
    shares = FairShares(BUDGETS)

    async def fail(turn: Turn, send: Send) -> None:
        raise ValueError

    async def hang(turn: Turn, send: Send) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it may clean up
            raise

    for _ in range(3):
        with pytest.raises(ValueError):
            await _call(FairRequests(served_by(fail), shares))
        task = asyncio.create_task(_call(FairRequests(served_by(hang), shares)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.wait_for(shares.begin("mallory"), 10)
    await asyncio.wait_for(shares.begin("mallory"), 10)


async def test_a_large_response_as_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member lists megabytes as YAML, which takes a minute on the event loop"""
    threads: list[threading.Thread] = []

    def noted(obj: Any) -> str:
        threads.append(threading.current_thread())
        return dump(obj)

    monkeypatch.setattr("muster.kube.manifests.dump", noted)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"query_string": b"", "headers": [(b"accept", b"application/yaml")]}
    request = ApiRequest(scope, _never, send, "/api/v1/configmaps")
    with pytest.raises(NotAcceptable, match="list less at once with limit"):
        json_response({"items": ["x" * 1000] * 10_000}, request)
    await send_response(request, json_response({"items": ["x" * 1000] * 1000}, request))
    assert sent[1]["body"].startswith(b"items:\n- xxx")
    assert threading.main_thread() not in threads
    assert len(threads) == 1


async def _never() -> Any:
    raise AssertionError


@pytest.mark.slow
async def test_both_apis_of_a_server(tmp_path: Path) -> None:
    """A member floods the platform and the Kubernetes API; an admin and another member are served meanwhile"""
    budgets = {"memberRunningRequests": 1, "memberWaitingRequests": 1}
    settings = read_settings(tmp_path / "home", {"durability": "process", "web": {"port": 0}, "budgets": budgets})
    async with run_server(settings, web=True) as server:
        whole = Whole(server.info.web, tmp_path / "home", server.cluster)
        mallory, alice = await whole.member("mallory"), await whole.member("alice")
        made = {"metadata": {"generateName": "x-"}}
        objects = f"{server.info.url}/api/v1/namespaces/user-mallory/configmaps"
        for url, body, done in ((f"{whole.url}/api/v1/jobs", None, 200), (objects, made, 201)):
            codes = await _flood(url, mallory.token, body)
            assert codes[done] >= 1
            assert codes[429] >= 1
            assert set(codes) == {done, 429}
        await alice.get("runs")
        assert await _flood(f"{whole.url}/api/v1/jobs", whole.admin.token) == {200: _MANY}


_MANY = 50


async def _flood(url: str, token: str, body: Any = None) -> dict[int, int]:
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=_MANY, ssl=False)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def one() -> int:
            async with session.request("POST" if body else "GET", url, json=body) as response:
                text = await response.text()
                assert response.status != 429 or "memberWaitingRequests" in text
                return response.status

        codes = await asyncio.gather(*(one() for _ in range(_MANY)))
    return {code: codes.count(code) for code in set(codes)}
