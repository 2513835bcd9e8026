from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.server.kubernetes.port_forward import (
    DICTIONARY,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    Ping,
    Reset,
    SpdyError,
    StreamOpened,
)


def test_the_dictionary_is_that_of_the_protocol() -> None:
    # Its checksum is in the first header block of every connection.
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def frames(content: bytes, size: int = 1 << 20) -> list[Frame]:
    reader = FrameReader()
    return [frame for at in range(0, len(content), size) for frame in reader.feed(content[at : at + size])]


def conversation() -> tuple[bytes, list[Frame]]:
    writer = FrameWriter()
    content = b"".join((
        writer.open(1, {"streamtype": "error", "port": "80", "requestid": "0"}),
        writer.open(3, {"streamtype": "data", "port": "80", "requestid": "0"}),
        writer.reply(5),
        writer.data(3, b"hello"),
        writer.ping(7),
        writer.data(3, b"", last=True),
        writer.reset(1),
        struct.pack(">HHI", 0x8003, 7, 8) + bytes(8),
        struct.pack(">HHI", 0x8003, 4, 4) + bytes(4),
    ))  # fmt: skip
    return content, [
        StreamOpened(1, {"streamtype": "error", "port": "80", "requestid": "0"}, False),
        StreamOpened(3, {"streamtype": "data", "port": "80", "requestid": "0"}, False),
        Data(3, b"hello", False),
        Ping(7),
        Data(3, b"", True),
        Reset(1),
        GoAway(),
    ]


@pytest.mark.parametrize("size", [1, 3, 7, 64, 1 << 20])
def test_frames_are_reassembled_from_any_chunks(size: int) -> None:
    content, expected = conversation()
    assert frames(content, size) == expected


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">HHI", 0x8002, 1, 0),
        struct.pack(">HHI", 0x8003, 1, 2) + b"xx",
        struct.pack(">HHI", 0x8003, 1, 12) + bytes(12),
        struct.pack(">II", 1, 0xFFFFFF),
    ],
    ids=["version 2", "too short", "not compressed", "too long"],
)
def test_invalid_spdy(content: bytes) -> None:
    with pytest.raises(SpdyError):
        frames(content)


def test_headers_that_decompress_to_too_much_are_refused() -> None:
    with pytest.raises(SpdyError, match="too large"):
        frames(FrameWriter().open(1, {"x": "a" * 1_000_000}))


@given(st.binary(max_size=300))
def test_random_bytes_raise_only_the_expected_error(content: bytes) -> None:
    try:
        frames(content)
    except SpdyError:
        return
