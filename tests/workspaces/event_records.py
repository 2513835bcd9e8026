"""Writes event files as TensorBoard's writers do, byte by byte and apart from the reader that is tested."""

from __future__ import annotations

import struct


def crc32c(data: bytes) -> int:
    """Bit by bit, as the definition says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def event(step: int, time: float, *values: bytes, more: bytes = b"") -> bytes:
    head = b"\x09" + struct.pack("<d", time) + (b"\x10" + varint(step) if step else b"")
    summary = field(5, b"".join(field(1, value) for value in values)) if values else b""
    return head + summary + more


def simple(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag: str, proto: bytes, plugin: str | None = "scalars") -> bytes:
    metadata = field(9, field(1, field(1, plugin.encode()))) if plugin is not None else b""
    return field(1, tag.encode()) + field(8, proto) + metadata


def scalar_record(tag: str, step: int, time: float, value: float) -> bytes:
    return record(event(step, time, simple(tag, value)))


FILE_VERSION = record(event(0, 1.0, more=field(3, b"brain.Event:2")))
