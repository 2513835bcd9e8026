"""How much of the server's time the requests of one user get.

One event loop serves all users, and a request for a large object keeps it busy for a tenth of a second: while a few
hundred of them are served, other users wait for a minute. So a user has a few requests in progress at a time, and the
others wait. While other users are active, a user who has used up their time waits as well, until their share is back.
A user who is alone on the server gets all of it.

Only the time on the event loop is counted: the rest is limited by the number of requests in progress. A request that
streams, or a WebSocket, gives up its place when its response starts, but its time still counts. A large list keeps its
place until it is sent, because it takes memory until then.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.kube.budgets import Budgets

BURST_SECONDS: Final = 0.25
"""What a user may use at once, before the share matters."""
ACTIVE_SECONDS: Final = 2.0
"""How long after a request a user counts as active."""
_LARGEST_DEBT: Final = 2.0
"""So that a user who was alone, and used everything, does not wait for long when others come."""
_LONGEST_SLEEP: Final = 0.25
_REMEMBERED: Final = 10_000
_TURN: Final = "muster.turn"


class TooManyWaiting(Exception):
    """So many requests of the user wait already."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} of your requests wait for others to end")
        self.most = most


class TooManyStreams(Exception):
    """So many streams of the user are open already."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} of your streams are open")


@dataclass(slots=True)
class Account:
    """What one user has used and waits for."""

    places: asyncio.Semaphore
    at: float
    """When `used` was computed."""
    used: float = 0.0
    """Seconds, less what has come back since."""
    seen: float = 0.0
    """When the last request began."""
    pending: int = 0
    """Requests that wait or have a place."""
    streams: int = 0
    """Streams and WebSockets that are open."""
    pieces: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of long responses, one piece at a time is made."""


class FairShares:
    def __init__(self, budgets: Budgets, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = budgets.member_loop_percent / 100
        self._most_running, self._most_waiting = budgets.member_running_requests, budgets.member_waiting_requests
        self.most_streams = budgets.user_streams
        self._clock = clock
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    async def begin(self, user: str) -> Account:
        """Waits for the user's turn. Raises TooManyWaiting."""
        account = self.account(user)
        if account.pending >= self._most_running + self._most_waiting:
            raise TooManyWaiting(self._most_waiting)
        account.pending += 1
        try:
            await account.places.acquire()
        except BaseException:
            account.pending -= 1
            raise
        try:
            await self.wait_for_share(user)
        except BaseException:
            self.end(account)
            raise
        return account

    async def wait_for_share(self, user: str) -> None:
        while (seconds := self.seconds_to_wait(user)) > 0:  # noqa: ASYNC110 (time passes; there is no event)
            await asyncio.sleep(min(seconds, _LONGEST_SLEEP))

    def end(self, account: Account) -> None:
        account.pending -= 1
        account.places.release()

    def note(self, user: str) -> None:
        """Notes that a user is active, also one who need not wait."""
        self.account(user).seen = self._clock()
        self._accounts.move_to_end(user)

    def seconds_to_wait(self, user: str) -> float:
        account, now = self.account(user), self._clock()
        self._return_time(account, now)
        if account.used <= BURST_SECONDS or not self._others_are_active(account, now):
            return 0.0
        return (account.used - BURST_SECONDS) / self._share

    def spend(self, account: Account, seconds: float) -> None:
        self._return_time(account, self._clock())
        account.used = min(account.used + seconds, BURST_SECONDS + _LARGEST_DEBT * self._share)

    def _return_time(self, account: Account, now: float) -> None:
        account.used = max(0.0, account.used - (now - account.at) * self._share)
        account.at = now

    def _others_are_active(self, own: Account, now: float) -> bool:
        for account in reversed(self._accounts.values()):  # the last ones to begin a request come first
            if account is not own:
                return now - account.seen < ACTIVE_SECONDS
        return False

    def account(self, user: str) -> Account:
        account = self._accounts.get(user)
        if account is None:
            if len(self._accounts) >= _REMEMBERED:
                self._forget_one()
            account = self._accounts[user] = Account(asyncio.Semaphore(self._most_running), self._clock())
        return account

    def _forget_one(self) -> None:
        idle = next((user for user, a in self._accounts.items() if not (a.pending or a.streams)), None)
        if idle is not None:
            del self._accounts[idle]


class Turn:
    """One request: whose it is, and what it uses."""

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._user = ""
        self._account: Account | None = None
        self._has_place = False
        self.is_kept = False
        """Whether the request keeps its place after its response has started, until `end`."""
        self._seconds = 0.0

    async def begin(self, user: str, *, may_wait: bool = True) -> None:
        """Raises TooManyWaiting. A second call does nothing."""
        if self._account is not None:
            return
        self._shares.note(user)
        if may_wait:
            self._account = await self._shares.begin(user)
            self._user, self._has_place = user, True

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Counts a stream. Raises TooManyStreams. One event wakes every stream that shows it."""
        account = self._account
        if account is None:
            yield
            return
        if account.streams >= self._shares.most_streams:
            raise TooManyStreams(self._shares.most_streams)
        account.streams += 1
        try:
            yield
        finally:
            account.streams -= 1

    def join(self, user: str) -> None:
        """For a stream that takes no place, but whose time counts."""
        self._shares.note(user)
        self._user, self._account = user, self._shares.account(user)

    async def pause(self) -> None:
        """Lets others run between two pieces of a long response, and waits until the user's share is back."""
        await asyncio.sleep(0)
        if self._account is not None:
            async with self._account.pieces:
                await self._shares.wait_for_share(self._user)

    def end(self) -> None:
        """Gives up the place. What the request uses from now on still counts."""
        if self._has_place and self._account is not None:
            self._has_place = False
            self._shares.end(self._account)

    def metered(self, work: Coroutine[Any, Any, None]) -> _Metered:
        return _Metered(work, self)

    def spend(self, seconds: float) -> None:
        self._seconds += seconds
        if self._account is not None:
            self._shares.spend(self._account, self._seconds)
            self._seconds = 0.0


class _Metered:
    """Runs a coroutine and measures each of its steps on the event loop."""

    def __init__(self, work: Coroutine[Any, Any, None], turn: Turn) -> None:
        self._work, self._turn = work, turn

    def __await__(self) -> Generator[Any, Any, None]:
        step: Callable[[Any], Any] = self._work.send
        value: Any = None
        while True:
            began = time.thread_time()
            try:
                waits_for = step(value)
            except StopIteration:
                return
            finally:
                self._turn.spend(time.thread_time() - began)
            try:
                value = yield waits_for
                step = self._work.send
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # a cancellation, which the work has to see
                value, step = error, self._work.throw


class FairRequests:
    """Gives each request a turn. What identifies the user begins it (`turn_of`)."""

    def __init__(self, app: ASGIApp, shares: FairShares) -> None:
        self._app, self._shares = app, shares

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve_request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        turn = scope[_TURN] = Turn(self._shares)

        async def send_and_end(message: Message) -> None:
            if message["type"] == "http.response.start" and not turn.is_kept:
                turn.end()
            await send(message)

        try:
            await turn.metered(_as_coroutine(self._app, scope, receive, send_and_end))
        finally:
            turn.end()

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket gives up its place when it is opened. Its messages wait for the user's share: commands that print
        without end would keep the event loop busy."""
        turn = scope[_TURN] = Turn(self._shares)

        async def send_in_turn(message: Message) -> None:
            turn.end()
            await turn.metered(_as_coroutine(send, message))
            if message["type"] == "websocket.send":
                await turn.pause()

        async def receive_in_turn() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                await turn.pause()
            return message

        try:
            await turn.metered(_as_coroutine(self._app, scope, receive_in_turn, send_in_turn))
        finally:
            turn.end()


async def _as_coroutine(call: Callable[..., Awaitable[None]], *args: Any) -> None:
    await call(*args)


def turn_of(scope: Scope) -> Turn | None:
    """The turn of a request or WebSocket; None where nothing is shared."""
    found = scope.get(_TURN)
    return found if isinstance(found, Turn) else None
