"""A request to the API and its response: content negotiation, parsing, sending and streaming."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

import orjson
from starlette.types import Message, Receive, Scope, Send

from muster.kube import manifests, tables
from muster.kube.budgets import setting_name
from muster.kube.cluster import Listing, PatchType
from muster.kube.errors import (
    ApiError,
    BadRequest,
    NotAcceptable,
    TooLarge,
    TooManyRequests,
    UnsupportedMediaType,
    is_count,
)
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, version_of
from muster.kube.rbac import Action, User
from muster.kube.selectors import parse_fields
from muster.server import object_checks
from muster.server.fair_share import TooManyStreams, turn_of
from muster.server.kubernetes import protobuf
from muster.server.workers import SMALL_BYTES, WorkerPool

# Content negotiation: which form of an object a client asks for, and objects in that form
# (whole, table, metadata).


log = logging.getLogger(__name__)

Shape: TypeAlias = Literal["object", "table", "metadata"]

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

_META_SHAPES: dict[str, Shape] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
_ANY = frozenset(("*/*", "application/*"))
_PATCHES: dict[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


class Form(NamedTuple):
    """The form of a response: the object itself, a table of it, or only its metadata; as JSON or YAML."""

    shape: Shape = "object"
    media: str = JSON
    meta_version: str = "v1"


class Clause(NamedTuple):
    """One alternative of an Accept header."""

    media: str
    parameters: dict[str, str]


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> tuple[Clause, ...]:
    """Returns the alternatives, the preferred one first."""
    found: list[tuple[float, int, Clause]] = []
    for position, text in enumerate(accept.split(",")):
        media, *rest = (part.strip() for part in text.split(";"))
        parameters = {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)}
        found.append((-_quality(parameters.pop("q", "1")), position, Clause(media.lower(), parameters)))
    return tuple(clause for weight, _, clause in sorted(found, key=lambda f: f[:2]) if weight < 0)


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """Returns the first alternative that can be served. Protobuf and CBOR cannot; clients that ask for them accept
    JSON."""
    if not accept.strip():
        return Form()
    for media, parameters in parse_accept(accept):
        served = JSON if media in _ANY else media
        if served not in (JSON, YAML):
            continue
        wanted = parameters.get("as")
        if not wanted:
            return Form(media=served)
        shape = _META_SHAPES.get(wanted)
        version = parameters.get("v", "v1")
        if shape and parameters.get("g") == "meta.k8s.io" and version in ("v1", "v1beta1"):
            return Form(shape, served, version)
    raise NotAcceptable(
        f"only the following media types are accepted: {JSON}, {JSON};as=Table;v=v1;g=meta.k8s.io, "
        f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io, {YAML}"
    )


def body_media(content_type: str) -> str:
    """Returns JSON, YAML or PROTOBUF. Raises UnsupportedMediaType for anything else."""
    media = content_type.partition(";")[0].strip().lower()
    if media in ("", JSON, "*/*"):
        return JSON
    if media in (YAML, "application/x-yaml", "text/yaml"):
        return YAML
    if media == PROTOBUF:
        return PROTOBUF
    raise UnsupportedMediaType(
        f'the body of the request was in an unknown format ("{media}"); '
        f"accepted media types include: {JSON}, {YAML}, {PROTOBUF}"
    )


def patch_type(content_type: str) -> PatchType:
    media = content_type.partition(";")[0].strip().lower()
    found = _PATCHES.get(media)
    if found is None:
        raise UnsupportedMediaType(
            f'the body of the request was in an unknown format ("{media}"); use one of: {", ".join(_PATCHES)}'
        )
    return found


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def parse_include(query: dict[str, str]) -> str:
    """Returns how much of each object the rows of a table include."""
    include = query.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise BadRequest(f'includeObject is "{include}"; it must be None, Metadata or Object')
    return include


def shape_object(kind: Kind, obj: Object, form: Form, include: str = "Metadata") -> Object:
    if form.shape == "object":
        return obj
    if form.shape == "metadata":
        return _metadata(obj, form)
    return _table(kind, [obj], form, include, version_of(obj))


def shape_list(kind: Kind, listing: Listing, form: Form, include: str = "Metadata") -> Object:
    if form.shape == "table":
        return _table(kind, listing.items, form, include, listing.resource_version, listing.continue_)
    metadata: dict[str, Any] = {"resourceVersion": listing.resource_version}
    if listing.continue_:
        metadata["continue"] = listing.continue_
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    if form.shape == "metadata":
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.meta_version}",
            "metadata": metadata,
            "items": [_metadata(obj, form) for obj in listing.items],
        }
    return {
        "kind": f"{kind.kind}List",
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "items": listing.items,
    }


def bookmark_object(kind: Kind, version: str, *, initial_events_end: bool = False) -> Object:
    """Returns the object of a BOOKMARK event. The one that ends the initial events has an annotation."""
    metadata: dict[str, Any] = {"resourceVersion": version, "creationTimestamp": None}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}


def _metadata(obj: Object, form: Form) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{form.meta_version}",
        "metadata": meta(obj),
    }


def _table(
    kind: Kind, objects: list[Object], form: Form, include: str, resource_version: str, continue_: str = ""
) -> Object:
    shown = tables.build_table(kind, objects, datetime.now(UTC), wide=True)
    wire = tables.table_to_object(shown, resource_version=resource_version, continue_=continue_, include=include)
    return wire if form.meta_version == "v1" else {**wire, "apiVersion": f"meta.k8s.io/{form.meta_version}"}


_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_STREAMED = frozenset(("exec", "attach", "portforward"))
_PROXIED = ("pods", "services")


class Target(NamedTuple):
    """What a URL is about: a resource, one object of it (`name`), or a subresource of that object."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_target(path: str) -> Target | None:
    """Returns None for paths without a resource: discovery, health, OpenAPI."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1 and parts[1]:
        group, rest = parts[1], parts[2:]
    else:
        return None
    if not group and len(rest) > 5 and rest[1] == "namespaces" and rest[3] in _PROXIED and rest[5] == "proxy":
        return Target("", rest[0], rest[3], rest[2], rest[4], "proxy") if all(rest[:5]) else None
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
    """Returns the action that a role has to allow for this request."""
    name = proxied_name(target.name) if target.subresource == "proxy" else target.name
    if target.subresource in _STREAMED:
        # A WebSocket is opened with GET, but it does not only read: it acts in the Pod.
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


def proxied_name(text: str) -> str:
    """Returns the name of the Pod or Service in `web`, `web:8080` or `http:web:8080`."""
    parts = text.split(":")
    return parts[1] if len(parts) == 3 else parts[0]


def is_true(value: str | None) -> bool:
    """Parses a boolean query parameter as Go does."""
    return value is not None and value.lower() not in ("false", "0", "f")


LARGEST_BODY = 3 * 1024 * 1024
LARGE_BYTES = 64 * 1024
"""The body of a request from which on checking it takes so long that a worker does it first."""
LARGEST_YAML = 4 * 1024 * 1024
"""Of the same as JSON. Writing it takes about a second for each megabyte."""
_LONGEST_WARNINGS = 16 * 1024
GZIP_FROM = 128 * 1024
"""Smaller bodies are not worth compressing."""

_ANONYMOUS = User("system:anonymous")
_LARGEST_INTEGER = 2**31 - 1
_SURELY_SHALLOW = 200


@dataclass(slots=True)
class ApiResponse:
    body: bytes
    status: int = 200
    media: str = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class ApiRequest:
    """A request whose body has not been read yet."""

    __slots__ = (
        "headers", "kind", "method", "name", "path", "query", "receive", "recheck", "scope", "send", "size", "started",
        "user", "warnings", "workers",
    )  # fmt: skip

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, path: str, workers: WorkerPool | None = None
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.path = path
        self.method: str = scope.get("method", "GET")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        text = scope["query_string"]
        self.query: dict[str, str] = dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True)) if text else {}
        self.user = _ANONYMOUS
        self.kind = ""
        self.name = ""
        """The kind and name of the object in the body, for errors about it."""
        self.warnings: list[str] = []
        self.workers = workers
        """Check large bodies. Without them, as in tests, the server does."""
        self.size = 0
        """Of the body, once it was read."""
        self.recheck: Callable[[], Awaitable[None]] | None = None
        """Raises Unauthorized or Forbidden when the user may no longer have what this request streams."""
        self.started = False
        """Whether the response has started, so that it can no longer be an error."""

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    def form(self) -> Form:
        return negotiate(self.header(b"accept"))

    def flag(self, name: str) -> bool:
        return is_true(self.query.get(name))

    def integer(self, name: str) -> int | None:
        """Returns a query parameter as a number, or None if it is missing."""
        text = self.query.get(name)
        if not text:
            return None
        try:
            found = int(text)
        except ValueError:
            found = _LARGEST_INTEGER + 1
        if abs(found) > _LARGEST_INTEGER:
            raise BadRequest(f'the query parameter {name} is "{text[:100]}"; it must be an integer')
        return found

    async def body(self) -> bytes:
        length = self.header(b"content-length")
        if length and not (is_count(length) and int(length) <= LARGEST_BODY):
            raise _too_large()
        message = await self._receive()
        content: bytes = message.get("body", b"")
        self.size = len(content)
        if not message.get("more_body"):
            if len(content) > LARGEST_BODY:
                raise _too_large()
            return content
        chunks, size = [content], len(content)
        while message.get("more_body"):
            message = await self._receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > LARGEST_BODY:
                raise _too_large()
        self.size = size
        return b"".join(chunks)

    async def _receive(self) -> Message:
        """Raises if the client disconnects, so that a truncated body is never used."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client disconnected before its request was complete")
        return message

    async def document(self) -> dict[str, Any]:
        """Returns the object in the body. Raises BadRequest if there is none."""
        found = await self.parse(await self.body(), body_media(self.header(b"content-type")))
        if not isinstance(found, dict):
            raise BadRequest(f"the body of the request must be an object, not {_type_name(found)}")
        return found

    async def parse(self, content: bytes, media: str) -> Any:
        """Like `parse_body`, but a worker parses long YAML, which takes seconds."""
        if media != YAML or self.workers is None or len(content) <= SMALL_BYTES:
            return parse_body(content, media)
        parsed = await self.workers.run(self.user.name, object_checks.parse_yaml, _decode(content), _SOURCE)
        if parsed.problem:
            raise BadRequest(parsed.problem)
        return parsed.value

    async def rehearse(self, kind: Kind, old: Object | None, body: Any, patch: PatchType | None = None) -> None:
        """Raises BadRequest if storing this would block the server for long."""
        if self.workers is not None and self.size > LARGE_BYTES:
            schema = {} if object_checks.is_known(kind) else kind.schema
            args = (kind.api_version, kind.kind, schema, old, body, patch)
            await self.workers.run_again_soon(self.user.name, object_checks.rehearse_write, *args)


def parse_body(content: bytes, media: str) -> Any:
    if not content:
        raise BadRequest("the request has no body")
    if media == YAML:
        return parse_yaml(content)
    if media == PROTOBUF:
        return protobuf.decode(content)
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body of the request is not JSON: {error}") from None
    if content.count(b"[") + content.count(b"{") > _SURELY_SHALLOW:
        try:
            orjson.dumps(found)  # it refuses what is nested so deeply that functions which recurse would fail
        except TypeError:
            raise BadRequest("the body of the request is nested too deeply: 254 levels are allowed") from None
    return found


_SOURCE = "the body of the request"


def _decode(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BadRequest("the body of the request is not UTF-8 text") from None


def parse_yaml(content: bytes) -> Any:
    try:
        found = manifests.parse_mapping(_decode(content), _SOURCE)
    except manifests.ManifestError as error:
        raise BadRequest(str(error)) from None
    if found is None:
        raise BadRequest("the request has no body")
    return found.object


def json_response(obj: Any, request: ApiRequest | None = None, status: int = 200) -> ApiResponse:
    """Returns `obj` as JSON. If the client prefers YAML, `send_response` makes it of that, in a thread."""
    if request is not None:
        if request.form().media == YAML:
            content = orjson.dumps(obj)
            if len(content) > LARGEST_YAML:
                raise yaml_too_large()
            return ApiResponse(content, status, YAML)
        if request.query.get("pretty") and request.flag("pretty"):
            return ApiResponse(orjson.dumps(obj, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), status)
    return ApiResponse(orjson.dumps(obj, option=orjson.OPT_APPEND_NEWLINE), status)


def yaml_too_large() -> NotAcceptable:
    return NotAcceptable(
        f"at most {LARGEST_YAML} bytes are written as YAML, and the response has more: accept {JSON}, or list less at "
        "once with limit"
    )


def _as_yaml(content: bytes) -> bytes:
    return manifests.dump(orjson.loads(content)).encode()


def error_response(error: ApiError, details: Mapping[str, Any] | None = None) -> ApiResponse:
    """Returns the Status of an error. `details` name the object it is about."""
    status = error.to_status()
    if details:
        status["details"] = {**details, **status.get("details", {})}
    response = json_response(status, status=error.code)
    if error.retry_after is not None:
        response.headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    if error.code == 401:
        response.headers.append((b"www-authenticate", b'Bearer realm="muster"'))
    return response


async def send_response(request: ApiRequest, response: ApiResponse) -> None:
    body = response.body
    if response.media == YAML:
        body = await asyncio.to_thread(_as_yaml, body)
    headers = [(b"content-type", response.media.encode()), *response.headers]
    headers.extend((b"warning", text) for text in _warnings(request.warnings))
    if len(body) >= GZIP_FROM and b"gzip" in request.headers.get(b"accept-encoding", b""):
        body = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    headers.append((b"content-length", str(len(body)).encode()))
    await request.send({"type": "http.response.start", "status": response.status, "headers": headers})
    await request.send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


def _warnings(texts: Iterable[str]) -> Iterator[bytes]:
    """RFC 7234: code, agent, quoted text. kubectl prints the text between the quotes. Clients limit the size of all
    headers, so many warnings are cut off."""
    room = _LONGEST_WARNINGS
    for text in dict.fromkeys(texts):
        shown = "".join(char if char.isprintable() else "?" for char in " ".join(text[:2000].split())[:1000])
        plain = shown.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "replace")
        room -= len(plain)
        if room < 0:
            yield b'299 - "there are more warnings"'
            return
        yield b'299 - "' + plain + b'"'


def _too_large() -> TooLarge:
    return TooLarge(f"the body of the request is larger than {LARGEST_BODY} bytes, the limit of this API")


def _type_name(value: Any) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), type(value).__name__)


RECHECK_SECONDS = 3.0
"""How often the rights behind an open stream are checked again."""


@contextmanager
def counted_stream(request: ApiRequest) -> Iterator[None]:
    """Raises TooManyRequests if too many streams of the user are open."""
    turn = turn_of(request.scope)
    try:
        with nullcontext() if turn is None else turn.streaming():
            yield
    except TooManyStreams as error:
        raise TooManyRequests(f"{error}; close some, or raise {setting_name('user_streams')}") from None


def keep_turn(request: ApiRequest) -> None:
    """Keeps the place among the user's requests until `end_turn`, though the response starts."""
    turn = turn_of(request.scope)
    if turn is not None:
        turn.is_kept = True


def end_turn(request: ApiRequest) -> None:
    """Lets the user's next request begin: this one takes long without keeping the server busy."""
    turn = turn_of(request.scope)
    if turn is not None:
        turn.end()


async def pause(request: ApiRequest) -> None:
    """Lets others run in the middle of a long response."""
    turn = turn_of(request.scope)
    if turn is not None:
        await turn.pause()
    else:
        await asyncio.sleep(0)


async def stream(
    request: ApiRequest,
    pieces: AsyncGenerator[bytes, None],
    *,
    media: str,
    seconds: float | None = None,
    first_piece_seconds: float | None = 0.0,
    headers: Sequence[tuple[bytes, bytes]] = (),
    keeps_turn: bool = False,
) -> None:
    """Sends `pieces` as they come, until they end, `seconds` are over, the client disconnects, or the user loses the
    right to them. Unless `keeps_turn`, other requests of the user may begin.

    The response starts with the first piece, or after `first_piece_seconds` (None: no limit). An error before that is
    raised, so that it can still be the response."""
    if keeps_turn:
        keep_turn(request)
    else:
        end_turn(request)
    if request.method == "HEAD":
        request.started = True
        await request.send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", media.encode())]}
        )
        await request.send({"type": "http.response.body", "body": b""})
        return
    with counted_stream(request):
        await _run_stream(request, pieces, media, seconds, first_piece_seconds, headers)


async def _run_stream(
    request: ApiRequest,
    pieces: AsyncGenerator[bytes, None],
    media: str,
    seconds: float | None,
    first_piece_seconds: float | None,
    headers: Sequence[tuple[bytes, bytes]],
) -> None:
    pump = asyncio.create_task(
        _metered(request, _pump(request, pieces, media, first_piece_seconds, headers)), name=f"stream {request.path}"
    )
    listener = asyncio.create_task(_wait_for_disconnect(request), name=f"listen {request.path}")
    guard = asyncio.create_task(wait_for_loss_of_rights(request), name=f"guard {request.path}")
    try:
        await asyncio.wait((pump, listener, guard), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finished, left = pump.done(), listener.done()
    finally:
        for task in (pump, listener, guard):
            task.cancel()
        await asyncio.gather(pump, listener, guard, return_exceptions=True)
        await pieces.aclose()
    if finished:
        pump.result()
    if not left:
        await request.send({"type": "http.response.body", "body": b""})


async def _metered(request: ApiRequest, work: Coroutine[Any, Any, None]) -> None:
    """A task of its own is not measured with the request."""
    turn = turn_of(request.scope)
    await (work if turn is None else turn.metered(work))


async def _pump(
    request: ApiRequest,
    pieces: AsyncGenerator[bytes, None],
    media: str,
    first_piece_seconds: float | None,
    more: Sequence[tuple[bytes, bytes]],
) -> None:
    first = asyncio.create_task(_next(pieces))
    try:
        if first_piece_seconds != 0.0:
            await asyncio.wait((first,), timeout=first_piece_seconds)
            if first.done():
                first.result()
        headers = [(b"content-type", media.encode()), (b"cache-control", b"no-cache, private"), *more]
        request.started = True
        await request.send({"type": "http.response.start", "status": 200, "headers": headers})
        piece = await first
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)  # it uses the generator until it has ended
    while piece is not None:
        await request.send({"type": "http.response.body", "body": piece, "more_body": True})
        await pause(request)
        piece = await _next(pieces)


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(pieces, None)


async def wait_for_loss_of_rights(request: ApiRequest) -> None:
    """Returns when the token is no longer valid, or the user may no longer have what is streamed."""
    while True:
        await asyncio.sleep(RECHECK_SECONDS)
        if request.recheck is not None:
            try:
                await request.recheck()
            except ApiError as error:
                log.info("%s %s of %s ends: %s", request.method, request.path, request.user.name, error.message)
                return


async def _wait_for_disconnect(request: ApiRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
