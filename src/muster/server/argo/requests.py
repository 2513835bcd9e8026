"""A request to Argo's API: path names, options, body, the `fields` filter, and errors as grpc-gateway writes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import orjson

from muster.kube.errors import ApiError, BadRequest
from muster.kube.kinds import Schema
from muster.kube.schema import ANY
from muster.server.argo.access import AuthorizedCluster
from muster.server.kubernetes.body_schemas import check_body
from muster.server.kubernetes.request import JSON, ApiRequest, ApiResponse, json_response, parse_body, stream


class Fields(NamedTuple):
    paths: frozenset[str] = frozenset()
    exclude: bool = False

    def cut(self, value: Any) -> Any:
        """Returns the wanted part of `value` as a copy."""
        return _cut(self, "", value) if self.paths else value

    def wants(self, path: str) -> bool:
        """Whether anything at or below `path` would be left."""
        if not self.paths:
            return True
        touched = any(path.startswith(one) or one.startswith(path) for one in self.paths)
        return touched is not self.exclude

    def below(self, prefix: str) -> Fields:
        return Fields(frozenset(path.removeprefix(prefix) for path in self.paths), self.exclude)


def parse_fields(text: str) -> Fields:
    if not text:
        return Fields()
    exclude = text.startswith("-")
    return Fields(frozenset(text.removeprefix("-").split(",")), exclude)


def _cut(fields: Fields, path: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(fields, path, item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if here in fields.paths:
            if not fields.exclude:
                kept[name] = inner
        elif fields.exclude or any(one.startswith(here) for one in fields.paths):
            kept[name] = _cut(fields, here, inner)
    return kept


class Unimplemented(ApiError):
    """Argo Server has this; the embedded cluster does not need it."""

    code, reason = 501, "NotImplemented"


class Code(NamedTuple):
    number: int
    http: int
    text: str


_UNKNOWN_REQUEST = Code(3, 400, "Bad Request")
_INTERNAL = Code(13, 500, "Internal Server Error")
_CODES = {
    400: _UNKNOWN_REQUEST,
    401: Code(16, 401, "Unauthorized"),
    403: Code(7, 403, "Forbidden"),
    404: Code(5, 404, "Not Found"),
    409: Code(6, 409, "Conflict"),
    429: Code(8, 429, "Too Many Requests"),
    501: Code(12, 501, "Not Implemented"),
    503: Code(14, 503, "Service Unavailable"),
    504: Code(4, 504, "Gateway Timeout"),
}


def code_of(error: ApiError) -> Code:
    return _CODES.get(error.code) or (_UNKNOWN_REQUEST if error.code < 500 else _INTERNAL)


def error_response(error: ApiError) -> ApiResponse:
    code = code_of(error)
    made = json_response({"code": code.number, "message": error.message}, status=code.http)
    if code.http == 401:
        made.headers.append((b"www-authenticate", b'Bearer realm="muster"'))
    return made


def stream_error(error: ApiError) -> dict[str, Any]:
    """The last message of a stream that has already started."""
    code = code_of(error)
    told = {"grpc_code": code.number, "http_code": code.http, "message": error.message, "http_status": code.text}
    return {"error": told}


_SSE = "text/event-stream"
_FIRST_MESSAGE_SECONDS = 0.2
_PAUSE_SECONDS = 15.0
_PAUSE, _END = object(), object()


@dataclass(frozen=True, slots=True)
class Request:
    call: ApiRequest
    names: dict[str, str]
    """What the braces in the route's pattern stand for."""
    api: AuthorizedCluster

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

    async def body(self, schema: Schema = ANY) -> dict[str, Any]:
        """Returns the JSON body, whatever its content type, without nulls. Its fields have the types of the schema."""
        content = await self.call.body()
        found = parse_body(content, JSON) if content else {}
        if not isinstance(found, dict):
            raise BadRequest("the body of the request must be an object")
        return check_body(without_nulls(found), schema, "request")

    def answer(self, obj: Any) -> ApiResponse:
        return json_response(obj)

    async def stream(self, messages: AsyncIterator[Any]) -> None:
        """Sends each message as it arrives, as server-sent events if the client accepts them, else one per line. Raises
        an error that occurs before the first message."""
        events = self.call.header(b"accept") == _SSE
        pieces = _pieces(cast("AsyncGenerator[Any, None]", messages), events)
        await stream(self.call, pieces, media=_SSE if events else JSON, first_piece_seconds=_FIRST_MESSAGE_SECONDS)


def without_nulls(value: Any) -> Any:
    """Drops nulls, which Go clients send for fields that are not set. In a list null is a value."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def frame_message(message: Any, events: bool) -> bytes:
    text = orjson.dumps(message)
    return b"data: " + text + b"\n\n" if events else text + b"\n"


async def _pieces(messages: AsyncGenerator[Any, None], events: bool) -> AsyncGenerator[bytes, None]:
    begun = False
    async with aclosing(messages):
        try:
            async for message in _with_pauses(messages):
                if message is _PAUSE:
                    # A comment keeps the connection alive. JSON lines have no comments.
                    if events:
                        yield b":\n"
                    continue
                begun = True
                yield frame_message({"result": message}, events)
        except ApiError as error:
            if not begun:
                raise
            yield frame_message(stream_error(error), events)


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
