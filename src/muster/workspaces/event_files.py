"""Reads the scalars of TensorBoard event files. Pure functions on bytes, without TensorFlow or tensorboard.

An event file is a sequence of TFRecords: the length of a record (8 bytes), a checksum of these bytes, the record, and a
checksum of the record. A record is a protobuf message `Event`. Its scalars are `Summary.Value.simple_value` (TensorFlow
1, PyTorch, tensorboardX) or a tensor of the plugin "scalars" (TensorFlow 2).

A file grows while it is read, so `read_events` gets the bytes from some offset on and returns how many of them it is
done with. A record whose end is missing is left for the next call. After a damaged record nothing can be trusted, not
even where the next one begins: reading stops there, and `problem` says so.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterator
from functools import cache
from struct import Struct, error, unpack_from
from typing import Final, NamedTuple, TypeAlias

MAX_RECORD_BYTES: Final = 1 << 20
"""A larger record contains images or a graph. It is skipped without a look inside."""
MAX_TAG_LENGTH: Final = 300
MAX_SCALAR_TAGS: Final = 2000
"""Tags of one file that are remembered as scalars."""
_MAX_TENSOR_BYTES = 16
_HEADER = Struct("<QI")
_FOOTER = Struct("<I")
_DOUBLE, _FLOAT = Struct("<d"), Struct("<f")
_FRAME_BYTES = _HEADER.size + _FOOTER.size
_SCALARS_PLUGIN = b"scalars"
_SCALAR_CLASS = 1
_SESSION_START = 1


class Scalar(NamedTuple):
    tag: str
    step: int
    time: float
    """Seconds since 1970."""
    value: float


class Restart(NamedTuple):
    """The program started again from a checkpoint: what it wrote before `time` for `step` and later steps is void."""

    step: int
    time: float


class EventChunk(NamedTuple):
    scalars: list[Scalar]
    restarts: list[Restart]
    consumed: int
    """The bytes that are dealt with. It is larger than what was given if a large record is skipped that is not written
    completely yet: continue there, as soon as the file has grown."""
    scalar_tags: frozenset[str]
    """For the next call. Only the first value of a tag names its plugin."""
    skipped: int
    """Records that are too large to contain only scalars."""
    problem: str = ""
    """Why reading stopped at `consumed`; '' if nothing is wrong."""


def is_event_file(name: str) -> bool:
    """Whether TensorBoard takes a file of this name for an event file."""
    return "tfevents" in name.rpartition("/")[2]


def read_events(data: bytes, scalar_tags: Collection[str] = (), offset: int = 0) -> EventChunk:
    """Reads the records at the beginning of `data`, which starts at a record. `offset` is the place of `data` in the
    file, for messages."""
    scalars: list[Scalar] = []
    restarts: list[Restart] = []
    known = set(scalar_tags)
    at = skipped = 0
    problem = ""
    end = len(data)
    while end - at >= _HEADER.size:
        size, checksum = _HEADER.unpack_from(data, at)
        if masked_crc32c(data[at : at + 8]) != checksum:
            problem = f"the record at byte {offset + at} is damaged: the checksum of its length is wrong"
            break
        if size > MAX_RECORD_BYTES:
            skipped += 1
            at += size + _FRAME_BYTES
            continue
        start = at + _HEADER.size
        if end - start < size + _FOOTER.size:
            break
        record = data[start : start + size]
        if masked_crc32c(record) != _FOOTER.unpack_from(data, start + size)[0]:
            problem = f"the record at byte {offset + at} is damaged: the checksum of its content is wrong"
            break
        try:
            plain = _read_plain_scalar(record)
            if plain is not None:
                scalars.append(plain)
            else:
                _read_event(record, known, scalars, restarts)
        except (ValueError, IndexError, error, OverflowError):
            problem = f"the record at byte {offset + at} is not an event of TensorBoard"
            break
        at += size + _FRAME_BYTES
    return EventChunk(scalars, restarts, at, frozenset(known), skipped, problem)


def masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecords: CRC-32C (Castagnoli), rotated and with a constant added."""
    # Two bytes per step: this loop takes most of the time of reading a file.
    table = _crc_table()
    crc = 0xFFFFFFFF
    words = array("H", data[: len(data) & ~1])
    if not _LITTLE_ENDIAN:
        words.byteswap()
    for word in words:
        crc = table[(crc ^ word) & 0xFFFF] ^ (crc >> 16)
    if len(data) & 1:
        crc = table[((crc ^ data[-1]) & 0xFF) << 8] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


_LITTLE_ENDIAN = array("H", b"\1\0")[0] == 1


@cache
def _crc_table() -> list[int]:
    """The remainders of all two-byte words. A single byte `b` has the entry of `b << 8`."""
    single = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        single.append(crc)
    return [single[(word >> 8) ^ (single[word & 0xFF] & 0xFF)] ^ (single[word & 0xFF] >> 8) for word in range(65536)]


# The messages, by the numbers of their fields. tensorflow/core/util/event.proto, framework/summary.proto and
# framework/tensor.proto define them.

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Field: TypeAlias = tuple[int, int, int, int]
"""Number, wire type, and the value: a number and 0, or where the bytes start and end."""


def _fields(data: bytes, at: int, end: int) -> Iterator[_Field]:
    while at < end:
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, wire, value, 0
        elif wire == _BYTES:
            size, at = _varint(data, at)
            yield key >> 3, wire, at, at + size
            at += size
        elif wire == _FIXED64:
            yield key >> 3, wire, at, at + 8
            at += 8
        elif wire == _FIXED32:
            yield key >> 3, wire, at, at + 4
            at += 4
        else:
            raise ValueError("not a protobuf message")
    if at != end:
        raise ValueError("a field ends after its message")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + 1
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than ten bytes")


def _read_plain_scalar(data: bytes) -> Scalar | None:
    """Reads an event as most writers make it, several times faster: time, step, and one `simple_value`. None for all
    others, which `_read_event` reads."""
    end = len(data)
    if end < 20 or data[0] != 0x09:
        return None
    at, step = 9, 0
    if data[at] == 0x10:
        step, at = _varint(data, at + 1)
    # The summary, its only value and the tag fill the rest of the record, so one byte holds each length.
    left = end - at
    if not (left < 0x82 and data[at] == 0x2A and data[at + 1] == left - 2 and data[at + 2] == 0x0A):
        return None
    size = data[at + 5]
    if not (data[at + 3] == left - 4 and data[at + 4] == 0x0A and size == left - 11 and data[end - 5] == 0x15):
        return None
    (time,) = _DOUBLE.unpack_from(data, 1)
    if not math.isfinite(time):
        return None
    tag = data[at + 6 : end - 5].decode(errors="replace")
    return Scalar(tag, _signed(step), time, _FLOAT.unpack_from(data, end - 4)[0])


def _read_event(data: bytes, known: set[str], scalars: list[Scalar], restarts: list[Restart]) -> None:
    time, step = 0.0, 0
    summaries: list[tuple[int, int]] = []
    session: tuple[int, int] | None = None
    for number, wire, first, last in _fields(data, 0, len(data)):
        if number == 1 and wire == _FIXED64:
            (time,) = unpack_from("<d", data, first)
        elif number == 2 and wire == _VARINT:
            step = _signed(first)
        elif number == 5 and wire == _BYTES:
            summaries.append((first, last))
        elif number == 7 and wire == _BYTES:
            session = (first, last)
    if not math.isfinite(time):
        raise ValueError("an event has no time")
    if session is not None and any(
        number == 1 and first == _SESSION_START for number, _, first, _ in _fields(data, *session)
    ):
        restarts.append(Restart(step, time))
    for start, end in summaries:
        for number, wire, first, last in _fields(data, start, end):
            if number == 1 and wire == _BYTES:
                tag, value = _read_value(data, first, last, known)
                if value is not None:
                    scalars.append(Scalar(tag, step, time, value))


def _read_value(data: bytes, start: int, end: int, known: set[str]) -> tuple[str, float | None]:
    """Returns the tag and the scalar; None if the value is something else."""
    tag, value = "", None
    tensor: tuple[int, int] | None = None
    is_scalar: bool | None = None
    for number, wire, first, last in _fields(data, start, end):
        if number == 1 and wire == _BYTES:
            if last > end:
                raise ValueError("a tag ends after its message")
            tag = data[first:last].decode(errors="replace")[:MAX_TAG_LENGTH]
        elif number == 2 and wire == _FIXED32:
            (value,) = unpack_from("<f", data, first)
        elif number == 8 and wire == _BYTES:
            tensor = (first, last)
        elif number == 9 and wire == _BYTES:
            is_scalar = _is_scalar(data, first, last)
    if tensor is None:
        return tag, value
    if is_scalar and len(known) < MAX_SCALAR_TAGS:
        known.add(tag)
    return tag, _read_tensor(data, *tensor) if is_scalar or (is_scalar is None and tag in known) else None


def _is_scalar(data: bytes, start: int, end: int) -> bool | None:
    """What SummaryMetadata says; None if it says nothing."""
    found: bool | None = None
    for number, wire, first, last in _fields(data, start, end):
        if number == 1 and wire == _BYTES:
            for inner, _, begin, stop in _fields(data, first, last):
                if inner == 1:
                    found = data[begin:stop] == _SCALARS_PLUGIN
        elif number == 4 and wire == _VARINT and first:
            found = first == _SCALAR_CLASS
    return found


def _read_tensor(data: bytes, start: int, end: int) -> float | None:
    """Returns the only element of a TensorProto of any shape; None if it has more, or is not numeric."""
    dtype, content = 0, b""
    listed: dict[int, tuple[int, int, int]] = {}
    for number, wire, first, last in _fields(data, start, end):
        if number == 1 and wire == _VARINT:
            dtype = first
        elif number == 4 and wire == _BYTES:
            content = data[first:last]
        elif number in _LISTED_FIELDS:
            listed[number] = (wire, first, last)
    if dtype not in _DTYPES:
        return None
    layout, field = _DTYPES[dtype]
    if content:
        if len(content) > _MAX_TENSOR_BYTES or len(content) != layout.size:
            return None
        return float(_widen(dtype, layout.unpack(content)[0]))
    if field not in listed:
        return 0.0  # protobuf leaves out what is zero
    wire, first, last = listed[field]
    if wire == _VARINT:
        return float(_widen(dtype, first if dtype in _UNSIGNED else _signed(first)))
    if wire in (_FIXED32, _FIXED64):
        return float(layout.unpack_from(data, first)[0])
    if field in (5, 6):
        return float(layout.unpack(data[first:last])[0]) if last - first == layout.size else None
    number, stop = _varint(data, first)
    return float(_widen(dtype, number if dtype in _UNSIGNED else _signed(number))) if stop == last else None


_HALF, _BFLOAT16 = 19, 14
_UNSIGNED: Final = frozenset((22, 23))
_DTYPES: Final[dict[int, tuple[Struct, int]]] = {
    1: (Struct("<f"), 5),
    2: (Struct("<d"), 6),
    3: (Struct("<i"), 7),
    4: (Struct("<B"), 7),
    5: (Struct("<h"), 7),
    6: (Struct("<b"), 7),
    9: (Struct("<q"), 10),
    10: (Struct("<?"), 11),
    _BFLOAT16: (Struct("<H"), 13),
    17: (Struct("<H"), 7),
    _HALF: (Struct("<H"), 13),
    22: (Struct("<I"), 16),
    23: (Struct("<Q"), 17),
}
"""By data type: how an element is stored in `tensor_content`, and the field that lists elements otherwise."""
_LISTED_FIELDS: Final = frozenset(field for _, field in _DTYPES.values())


def _widen(dtype: int, value: int | float) -> int | float:
    """Floats of 16 bits are stored as their bits."""
    widen = _WIDENINGS.get(dtype)
    return widen(int(value) & 0xFFFF) if widen is not None else value


_WIDENINGS: Final[dict[int, Callable[[int], float]]] = {
    _HALF: lambda bits: float(Struct("<e").unpack(bits.to_bytes(2, "little"))[0]),
    _BFLOAT16: lambda bits: float(Struct("<f").unpack((bits << 16).to_bytes(4, "little"))[0]),
}


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
