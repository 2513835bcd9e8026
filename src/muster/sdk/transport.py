"""JSON over HTTP with a token. Errors of the server are raised as PlatformError."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import NoneType, UnionType
from typing import IO, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlencode, urlsplit

PREFIX = "/api/v1"
_PAGE = 200
_MOST_LOSSES = 8
_BLOCK = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FieldFault:
    field: str
    message: str
    code: str | None = None
    arguments: Mapping[str, Any] | None = None


class Event(NamedTuple):
    id: str
    name: str
    data: Any


class PlatformError(Exception):
    """The server refused a request and says why. Status 0: it could not be reached."""

    def __init__(self, status: int, type: str, detail: str, errors: tuple[FieldFault, ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.type = type
        """`not-found`, `forbidden`, `invalid` ..."""
        self.detail = detail
        self.errors = errors


class Transport:
    def __init__(self, url: str, token: str, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PlatformError(0, "unreachable", f'"{url}" is not a URL; use http://HOST:PORT or https://HOST')
        self.url = url.rstrip("/")
        self._is_safe = parts.scheme == "https"
        self._host, self._base = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self.authorization, self._timeout = f"Bearer {token}", timeout

    def request(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """Sends a request and returns the response: JSON, else text; None if it is empty. A path that begins with a
        slash is not below /api/v1. Raises PlatformError."""
        target = self._target(path, query or {})
        sent = {"Authorization": self.authorization, "Accept": "*/*", **(headers or {})}
        data = None
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = self._connection()
        try:
            connection.request(method, target, data, sent)
            response = connection.getresponse()
            raw, kind = response.read(), response.headers.get_content_type()
        except (OSError, HTTPException) as error:
            raise PlatformError(0, "unreachable", f"{self.url} does not respond: {error}") from None
        finally:
            connection.close()
        if response.status >= 400:
            raise _problem(response.status, raw, kind)
        if not raw:
            return None
        return json.loads(raw) if kind.endswith("json") else raw.decode()

    @contextmanager
    def download(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[HTTPResponse]:
        """Yields the response to a GET, to be read piece by piece. Raises PlatformError, also if the content breaks off
        while the block reads it."""
        connection = self._connection()
        try:
            connection.request("GET", self._target(path, query or {}), None, {"Authorization": self.authorization})
            response = connection.getresponse()
            if response.status >= 400:
                raise _problem(response.status, response.read(), response.headers.get_content_type())
            yield response
        except (OSError, HTTPException) as error:
            raise PlatformError(0, "unreachable", f"the download from {self.url} broke off: {error}") from None
        finally:
            connection.close()

    def upload(self, path: str, content: IO[bytes], size: int, query: Mapping[str, Any] | None = None) -> Any:
        """Sends `size` bytes of a file with PUT, piece by piece. Raises PlatformError."""
        connection = self._connection()
        try:
            connection.putrequest("PUT", self._target(path, query or {}))
            connection.putheader("Authorization", self.authorization)
            connection.putheader("Content-Type", "application/octet-stream")
            connection.putheader("Content-Length", str(size))
            connection.endheaders()
            with suppress(BrokenPipeError, ConnectionResetError):  # the response says why
                left = size
                while left and (block := content.read(min(left, _BLOCK))):
                    connection.send(block)
                    left -= len(block)
                if left:
                    raise PlatformError(0, "changed", "the file became shorter while it was read; try it again")
            response = connection.getresponse()
            raw, kind = response.read(), response.headers.get_content_type()
        except (OSError, HTTPException) as error:
            raise PlatformError(0, "unreachable", f"{self.url} does not respond: {error}") from None
        finally:
            connection.close()
        if response.status >= 400:
            raise _problem(response.status, raw, kind)
        return json.loads(raw)

    def pages(self, path: str, query: Mapping[str, Any], most: int | None = None) -> Iterator[dict[str, Any]]:
        """Yields all items of a list, page by page."""
        cursor, left = "", most
        while left is None or left > 0:
            limit = _PAGE if left is None else min(left, _PAGE)
            page = self.request("GET", path, query={**query, "limit": limit, "cursor": cursor})
            yield from page["items"]
            cursor = page["next"]
            left = None if left is None else left - len(page["items"])
            if not cursor:
                return

    def events(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[Event]:
        """Yields server-sent events. Reconnects if the connection is lost, and continues after the last event. Raises
        PlatformError."""
        last, losses = "", 0
        while True:
            try:
                for event in self._events(path, query or {}, last):
                    if event.name == "closed":  # the rights have changed: the next connection says what is left of them
                        break
                    last, losses = event.id, 0
                    yield event
            except (OSError, HTTPException) as error:
                losses += 1
                if losses > _MOST_LOSSES:
                    raise PlatformError(0, "unreachable", f"{self.url} does not respond: {error}") from None
            time.sleep(min(0.1 * 2**losses, 5.0))

    def _events(self, path: str, query: Mapping[str, Any], last: str) -> Iterator[Event]:
        sent = {"Authorization": self.authorization, "Accept": "text/event-stream"}
        if last:
            sent["Last-Event-ID"] = last
        connection = self._connection()
        try:
            connection.request("GET", self._target(path, query), None, sent)
            response = connection.getresponse()
            if response.status >= 400:
                raise _problem(response.status, response.read(), response.headers.get_content_type())
            fields_read: dict[str, str] = {}
            for raw in response:
                line = raw.decode().rstrip("\r\n")
                if line:
                    name, _, value = line.partition(":")
                    fields_read[name] = value.removeprefix(" ")
                    continue
                if "data" in fields_read:
                    name = fields_read.get("event", "message")
                    yield Event(fields_read.get("id", ""), name, json.loads(fields_read["data"]))
                fields_read = {}
        finally:
            connection.close()

    def _target(self, path: str, query: Mapping[str, Any]) -> str:
        asked = {name: value for name, value in query.items() if value not in (None, "", [])}
        address = path if path.startswith("/") else f"{PREFIX}/{path}"
        return f"{self._base}{address}" + (f"?{urlencode(asked, doseq=True)}" if asked else "")

    def _connection(self) -> HTTPConnection:
        return (HTTPSConnection if self._is_safe else HTTPConnection)(self._host, timeout=self._timeout)


def parse_record(kind: type[T], data: Mapping[str, Any]) -> T:
    """A record, with the records inside of it. Fields that a newer server adds are ignored."""
    return kind(**{name: _decode(type, data[name]) for name, type in _field_types(kind).items() if name in data})


def _field_types(kind: Any) -> dict[str, Any]:
    known = _known_types.get(kind)
    if known is None:
        types = get_type_hints(kind)
        known = _known_types[kind] = {field.name: types[field.name] for field in fields(kind)}
    return known


_known_types: dict[Any, dict[str, Any]] = {}


_Class = type
"""`type` is a parameter below."""


def _decode(type: Any, value: Any) -> Any:
    if get_origin(type) in (Union, UnionType):
        type = next(each for each in get_args(type) if each is not NoneType)
    if value is None:
        return None
    if type is datetime:
        return datetime.fromisoformat(value)
    if isinstance(type, _Class) and is_dataclass(type):
        return parse_record(type, value)
    if get_origin(type) is list:
        return [_decode(get_args(type)[0], item) for item in value]
    return value


def _problem(status: int, raw: bytes, kind: str) -> PlatformError:
    try:
        said = json.loads(raw) if kind.endswith("json") else {}
    except ValueError:
        said = {}
    faults = tuple(parse_record(FieldFault, error) for error in said.get("errors") or ())
    detail = said.get("detail") or said.get("message") or f"the server responded with {status}"
    return PlatformError(status, str(said.get("type") or "").removeprefix("/problems/"), detail, faults)
