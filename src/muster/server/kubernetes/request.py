"""A request to the API and its response: what the request is about, its body, and plain or streamed answers."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson
from starlette.types import Message, Receive, Scope, Send

from muster.kube import manifests
from muster.kube.errors import ApiError, BadRequest, TooLarge
from muster.kube.rbac import Action, User
from muster.kube.selectors import parse_fields
from muster.server.kubernetes import protobuf
from muster.server.kubernetes.negotiation import JSON, PROTOBUF, YAML, Form, body_media, form_of

_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_STREAMED = frozenset(("exec", "attach", "portforward"))


class Target(NamedTuple):
    """A resource, one object of it (`name`), or a part of that (`subresource`)."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_target(path: str) -> Target | None:
    """None for paths that are no resource's: discovery, health, OpenAPI."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1 and parts[1]:
        group, rest = parts[1], parts[2:]
    else:
        return None
    if len(rest) < 2 or not all(rest):
        return None
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, plural, namespace, name, subresource)


def required_action(target: Target, method: str, query: Mapping[str, str]) -> Action:
    """The verb that roles grant for this request, and on what."""
    name = target.name
    if target.subresource in _STREAMED:
        # A WebSocket is opened by GET, but it is no reading: it does something in the Pod.
        verb = "create"
    elif method in _VERBS:
        verb = _VERBS[method]
    elif method == "DELETE":
        verb = "delete" if name else "deletecollection"
    elif name:
        verb = "get"
    else:
        verb = "watch" if is_true(query.get("watch")) else "list"
        fields = query.get("fieldSelector")
        if fields:
            name = parse_fields(fields).exact("metadata.name") or ""
    namespace = target.namespace
    if not target.group and target.plural == "namespaces":
        namespace = target.name
    return Action(verb, target.group, target.plural, target.subresource, namespace, name)


def is_true(value: str | None) -> bool:
    """As Go reads a boolean query parameter."""
    return value is not None and value.lower() not in ("false", "0", "f")


LARGEST_BODY = 3 * 1024 * 1024
GZIP_FROM = 128 * 1024
"""Below this, compressing costs more than it saves."""

_NOBODY = User("system:anonymous")


@dataclass(slots=True)
class ApiResponse:
    body: bytes
    status: int = 200
    media: str = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class ApiRequest:
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
        found = parse_body(await self.body(), body_media(self.header(b"content-type")))
        if not isinstance(found, dict):
            raise BadRequest(f"the body of the request must be an object, not {_described(found)}")
        return found


def parse_body(content: bytes, media: str) -> Any:
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
        found = manifests.parse_mapping(content.decode(), "the body of the request")
    except UnicodeDecodeError:
        raise BadRequest("the body of the request is not UTF-8 text") from None
    except manifests.ManifestError as error:
        raise BadRequest(str(error)) from None
    if found is None:
        raise BadRequest("the request has no body")
    return found.object


def json_response(obj: Any, call: ApiRequest | None = None, status: int = 200) -> ApiResponse:
    """`obj` as JSON, or as YAML where the client prefers that."""
    if call is not None:
        if call.form().media == YAML:
            return ApiResponse(manifests.dump(obj).encode(), status, YAML)
        if call.query.get("pretty") and call.flag("pretty"):
            return ApiResponse(orjson.dumps(obj, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), status)
    return ApiResponse(orjson.dumps(obj, option=orjson.OPT_APPEND_NEWLINE), status)


def error_response(error: ApiError, details: Mapping[str, Any] | None = None) -> ApiResponse:
    """The Status that tells what went wrong; `details` say with what."""
    status = error.to_status()
    if details:
        status["details"] = {**details, **status.get("details", {})}
    made = json_response(status, status=error.code)
    if error.retry_after is not None:
        made.headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    if error.code == 401:
        made.headers.append((b"www-authenticate", b'Bearer realm="muster"'))
    return made


async def send_response(call: ApiRequest, made: ApiResponse) -> None:
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


async def stream(
    call: ApiRequest,
    pieces: AsyncGenerator[bytes, None],
    *,
    media: str,
    seconds: float | None = None,
    patience: float | None = 0.0,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Sends `pieces` as they come. With `patience`, the first piece is waited for that many seconds before the answer
    begins (None: however long it takes), so that an error until then can still be the answer; it is raised."""
    pump = asyncio.create_task(_pump(call, pieces, media, patience, headers), name=f"stream {call.path}")
    listener = asyncio.create_task(_hang_up(call), name=f"listen {call.path}")
    try:
        await asyncio.wait((pump, listener), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finished, left = pump.done(), listener.done()
    finally:
        pump.cancel()
        listener.cancel()
        await asyncio.gather(pump, listener, return_exceptions=True)
        await pieces.aclose()
    if finished:
        pump.result()
    if not left:
        await call.send({"type": "http.response.body", "body": b""})


async def _pump(
    call: ApiRequest,
    pieces: AsyncGenerator[bytes, None],
    media: str,
    patience: float | None,
    more: Sequence[tuple[bytes, bytes]],
) -> None:
    first = asyncio.create_task(_next(pieces))
    try:
        if patience != 0.0:
            await asyncio.wait((first,), timeout=patience)
            if first.done():
                first.result()
        headers = [(b"content-type", media.encode()), (b"cache-control", b"no-cache, private"), *more]
        call.started = True
        await call.send({"type": "http.response.start", "status": 200, "headers": headers})
        piece = await first
    finally:
        first.cancel()
    while piece is not None:
        await call.send({"type": "http.response.body", "body": piece, "more_body": True})
        piece = await _next(pieces)


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(pieces, None)


async def _hang_up(call: ApiRequest) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
