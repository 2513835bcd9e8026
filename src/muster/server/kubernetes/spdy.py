"""SPDY/3.1 frames, as far as kubectl uses them inside a WebSocket for port-forward: streams, data and pings.

There is no flow control: kubectl's own implementation has none.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

_WORDS = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length content-location
content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match
if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range
referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get
status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin
"""
_REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    b"403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _REST
"""The dictionary for compressing headers. It is part of the protocol."""

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_LARGEST_FRAME = 4 * 1024 * 1024
_LARGEST_HEADERS = 64 * 1024


class StreamOpened(NamedTuple):
    stream: int
    headers: dict[str, str]
    last: bool


class Data(NamedTuple):
    stream: int
    data: bytes
    last: bool


class Reset(NamedTuple):
    stream: int


class Ping(NamedTuple):
    id: int


class GoAway(NamedTuple):
    pass


Frame: TypeAlias = StreamOpened | Data | Reset | Ping | GoAway


class SpdyError(ValueError):
    """The peer does not speak SPDY/3.1."""


class FrameReader:
    """Reads frames from bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= 8:
            first, rest = struct.unpack_from(">II", self._buffer)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if length > _LARGEST_FRAME:
                raise SpdyError(f"a frame of {length} bytes is too large")
            if len(self._buffer) < 8 + length:
                return
            content = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            if not first >> 31:
                yield Data(first, content, bool(flags & _FIN))
                continue
            if first >> 16 & 0x7FFF != _VERSION:
                raise SpdyError("only version 3 of SPDY is supported")
            frame = self._control(first & 0xFFFF, flags, content)
            if frame is not None:
                yield frame

    def _control(self, type_: int, flags: int, content: bytes) -> Frame | None:
        try:
            match type_:
                case 1:
                    (stream,) = struct.unpack_from(">I", content)
                    return StreamOpened(stream & 0x7FFFFFFF, self._headers(content[10:]), bool(flags & _FIN))
                case 3:
                    return Reset(struct.unpack_from(">I", content)[0] & 0x7FFFFFFF)
                case 6:
                    return Ping(struct.unpack_from(">I", content)[0])
                case 7:
                    return GoAway()
                case 2 | 8:
                    # These headers are not used, but the compression of later ones depends on them.
                    self._headers(content[4:])
        except (struct.error, zlib.error, UnicodeDecodeError):
            raise SpdyError("a frame is damaged") from None
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, _LARGEST_HEADERS)
        if self._inflate.unconsumed_tail:
            raise SpdyError("the headers of a stream are too large")
        (count,) = struct.unpack_from(">I", plain)
        position = 4
        texts = []
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", plain, position)
            texts.append(plain[position + 4 : position + 4 + length].decode())
            position += 4 + length
        return dict(zip(texts[::2], texts[1::2], strict=True))


class FrameWriter:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Accepts a stream that the peer has opened."""
        return _control(_SYN_REPLY, struct.pack(">I", stream) + self._no_headers())

    def open(self, stream: int, headers: dict[str, str]) -> bytes:
        texts = [text.encode() for pair in headers.items() for text in pair]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_STREAM, struct.pack(">IIBB", stream, 0, 0, 0) + packed)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        return struct.pack(">II", stream, (_FIN if last else 0) << 24 | len(data)) + data

    def reset(self, stream: int) -> bytes:
        cancelled = 5
        return _control(_RST_STREAM, struct.pack(">II", stream, cancelled))

    def ping(self, id_: int) -> bytes:
        return _control(_PING, struct.pack(">I", id_))

    def _no_headers(self) -> bytes:
        return self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control(type_: int, content: bytes) -> bytes:
    return struct.pack(">HHI", 1 << 15 | _VERSION, type_, len(content)) + content
