"""One request as the API sees it, and what it answers."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import Message, Receive, Scope, Send

from muster.embedded.api import protobuf
from muster.embedded.api.negotiation import JSON, PROTOBUF, YAML, Form, body_media, form_of
from muster.embedded.api.targets import is_true
from muster.embedded.identity.users import User
from muster.kube import manifests
from muster.kube.errors import ApiError, BadRequest, TooLarge

LARGEST_BODY = 3 * 1024 * 1024
GZIP_FROM = 128 * 1024
"""Below this, compressing costs more than it saves."""

_NOBODY = User("system:anonymous")


@dataclass(slots=True)
class Answer:
    body: bytes
    status: int = 200
    media: str = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class Call:
    """A request whose body has not been read yet."""

    __slots__ = (
        "headers", "kind", "method", "name", "path", "query", "receive", "scope", "send", "started", "user", "warnings",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.path = path
        self.method: str = scope.get("method", "GET")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        text = scope["query_string"]
        self.query: dict[str, str] = dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True)) if text else {}
        self.user = _NOBODY
        self.kind = ""
        self.name = ""
        """The kind and name of the object in the body, for errors about it."""
        self.warnings: list[str] = []
        self.started = False
        """Whether the answer has begun, so that an error cannot be the answer any more."""

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    def form(self) -> Form:
        return form_of(self.header(b"accept"))

    def flag(self, name: str) -> bool:
        return is_true(self.query.get(name))

    def integer(self, name: str) -> int | None:
        """A query parameter that is a number, or None where it was left out."""
        text = self.query.get(name)
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise BadRequest(f'the query parameter {name} is "{text}"; it must be an integer') from None

    async def body(self) -> bytes:
        length = self.header(b"content-length")
        if length.isdigit() and int(length) > LARGEST_BODY:
            raise _too_large()
        message = await self._received()
        content: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(content) > LARGEST_BODY:
                raise _too_large()
            return content
        chunks, size = [content], len(content)
        while message.get("more_body"):
            message = await self._received()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > LARGEST_BODY:
                raise _too_large()
        return b"".join(chunks)

    async def _received(self) -> Message:
        """What was cut off must not pass for a body."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client hung up before its request was complete")
        return message

    async def document(self) -> dict[str, Any]:
        """The object in the body. An empty body is BadRequest."""
        found = parse(await self.body(), body_media(self.header(b"content-type")))
        if not isinstance(found, dict):
            raise BadRequest(f"the body of the request must be an object, not {_described(found)}")
        return found


def parse(content: bytes, media: str) -> Any:
    if not content:
        raise BadRequest("the request has no body")
    if media == YAML:
        return parse_yaml(content)
    if media == PROTOBUF:
        return protobuf.decode(content)
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body of the request is not JSON: {error}") from None


def parse_yaml(content: bytes) -> Any:
    try:
        found = manifests.mapping_in(content.decode(), "the body of the request")
    except UnicodeDecodeError:
        raise BadRequest("the body of the request is not UTF-8 text") from None
    except manifests.ManifestError as error:
        raise BadRequest(str(error)) from None
    if found is None:
        raise BadRequest("the request has no body")
    return found.object


def answer(obj: Any, call: Call | None = None, status: int = 200) -> Answer:
    """`obj` as JSON, or as YAML where the client prefers that."""
    if call is not None:
        if call.form().media == YAML:
            return Answer(manifests.dump(obj).encode(), status, YAML)
        if call.query.get("pretty") and call.flag("pretty"):
            return Answer(orjson.dumps(obj, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), status)
    return Answer(orjson.dumps(obj, option=orjson.OPT_APPEND_NEWLINE), status)


def failure(error: ApiError, details: Mapping[str, Any] | None = None) -> Answer:
    """The Status that tells what went wrong; `details` say with what."""
    status = error.to_status()
    if details:
        status["details"] = {**details, **status.get("details", {})}
    made = answer(status, status=error.code)
    if error.retry_after is not None:
        made.headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    if error.code == 401:
        made.headers.append((b"www-authenticate", b'Bearer realm="muster"'))
    return made


async def deliver(call: Call, made: Answer) -> None:
    body = made.body
    headers = [(b"content-type", made.media.encode()), *made.headers]
    headers.extend((b"warning", _warning(text)) for text in dict.fromkeys(call.warnings))
    if len(body) >= GZIP_FROM and b"gzip" in call.headers.get(b"accept-encoding", b""):
        body = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    headers.append((b"content-length", str(len(body)).encode()))
    await call.send({"type": "http.response.start", "status": made.status, "headers": headers})
    await call.send({"type": "http.response.body", "body": b"" if call.method == "HEAD" else body})


def _warning(text: str) -> bytes:
    """RFC 7234: code, agent, quoted text. kubectl prints what is between the quotes."""
    plain = " ".join(text.split())[:1000].replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{plain}"'.encode()


def _too_large() -> TooLarge:
    return TooLarge(f"the body of the request is larger than the {LARGEST_BODY} bytes this API takes")


def _described(value: Any) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), type(value).__name__)
