"""A call to Argo's API: the names in its path, its options and its body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

import orjson

from muster.embedded.api.calls import Answer, Call, answer, parse
from muster.embedded.api.negotiation import JSON
from muster.embedded.api.streaming import stream
from muster.kube.errors import ApiError, BadRequest
from muster.server.argo.access import OnBehalf
from muster.server.argo.failures import stream_failure
from muster.server.argo.fields import Fields, parse_fields

_SSE = "text/event-stream"
_FIRST_MESSAGE_SECONDS = 0.2
_PAUSE_SECONDS = 15.0
_PAUSE, _END = object(), object()


@dataclass(frozen=True, slots=True)
class Request:
    call: Call
    names: dict[str, str]
    """What the braces in the route's pattern stand for."""
    api: OnBehalf

    @property
    def namespace(self) -> str:
        return self.names.get("namespace", "")

    @property
    def name(self) -> str:
        return self.names.get("name", "")

    def option(self, name: str) -> str:
        return self.call.query.get(name, "")

    @property
    def fields(self) -> Fields:
        return parse_fields(self.option("fields"))

    async def body(self) -> dict[str, Any]:
        """Whatever a client calls it, it is JSON, and what is null is not there."""
        content = await self.call.body()
        found = parse(content, JSON) if content else {}
        if not isinstance(found, dict):
            raise BadRequest("the body of the request must be an object")
        body: dict[str, Any] = without_nulls(found)
        return body

    def answer(self, obj: Any) -> Answer:
        return answer(obj)

    async def stream(self, messages: AsyncIterator[Any]) -> None:
        """Sends each message as it comes, as server-sent events where the client asks for these, else one per line.
        An error before the first one is the answer, and raised."""
        events = self.call.header(b"accept") == _SSE
        pieces = _pieces(cast("AsyncGenerator[Any, None]", messages), events)
        await stream(self.call, pieces, media=_SSE if events else JSON, patience=_FIRST_MESSAGE_SECONDS)


def without_nulls(value: Any) -> Any:
    """Go writes null for what is not set. In a list it is a value."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def framed(message: Any, events: bool) -> bytes:
    text = orjson.dumps(message)
    return b"data: " + text + b"\n\n" if events else text + b"\n"


async def _pieces(messages: AsyncGenerator[Any, None], events: bool) -> AsyncGenerator[bytes, None]:
    begun = False
    async with aclosing(messages):
        try:
            async for message in _with_pauses(messages):
                if message is _PAUSE:
                    # A comment, so that nobody takes the line for dead. There are none in JSON.
                    if events:
                        yield b":\n"
                    continue
                begun = True
                yield framed({"result": message}, events)
        except ApiError as error:
            if not begun:
                raise
            yield framed(stream_failure(error), events)


async def _with_pauses(messages: AsyncGenerator[Any, None]) -> AsyncIterator[Any]:
    """Each message, and `_PAUSE` whenever there has been none for a while."""
    coming = asyncio.ensure_future(anext(messages, _END))
    try:
        while True:
            done, _ = await asyncio.wait((coming,), timeout=_PAUSE_SECONDS)
            if not done:
                yield _PAUSE
                continue
            message = coming.result()
            if message is _END:
                return
            yield message
            coming = asyncio.ensure_future(anext(messages, _END))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
