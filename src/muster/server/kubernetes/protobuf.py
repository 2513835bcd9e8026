"""Decodes request bodies in protobuf, which kubectl and other Go programs send for the built-in kinds.

These clients accept JSON responses, but they do not fall back to sending JSON. Responses are never in protobuf.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import orjson

from muster.kube.errors import BadRequest, UnsupportedMediaType
from muster.kube.objects import Object, micro_timestamp, split_api_version, timestamp

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_DEEPEST = 64


class Field(NamedTuple):
    """A field of a message. The name `.` means that the fields of its type are inlined."""

    name: str
    type: str
    repeated: bool
    is_map: bool
    keep_zero: bool
    """Whether a zero is significant: the field is only sent if it was set, or JSON always has it."""
    keep_empty: bool
    """The same for an empty object."""


def decode(content: bytes) -> Object:
    """Returns the object in a Kubernetes protobuf envelope."""
    if not content.startswith(_MAGIC):
        raise BadRequest("the body of the request is not Kubernetes protobuf")
    try:
        envelope = {number: value for number, _, value in _fields(content[len(_MAGIC) :])}
        kind_of = {number: bytes(value).decode() for number, _, value in _fields(envelope.get(1, b""))}
        api_version, kind = kind_of.get(1, ""), kind_of.get(2, "")
        obj = _message(_message_name(api_version, kind), envelope.get(2, b""))
    except (ValueError, IndexError, TypeError, struct.error, OverflowError):
        raise BadRequest("the body of the request is damaged: it cannot be read as protobuf") from None
    return {"apiVersion": api_version, "kind": kind, **obj}


def _message_name(api_version: str, kind: str) -> str:
    group, version = split_api_version(api_version)
    name = f"{group.partition('.')[0] or 'core'}.{version}.{kind}"
    if kind == "DeleteOptions":
        name = "meta.v1.DeleteOptions"
    if name not in _messages():
        raise UnsupportedMediaType(
            f'a "{kind}" of "{api_version}" is not supported in protobuf; send application/json or application/yaml'
        )
    return name


@cache
def _messages() -> dict[str, dict[int, Field]]:
    """Reads the table that tools/protobuf_fields.py writes."""
    found: dict[str, dict[int, Field]] = {}
    for line in files(__package__).joinpath("protobuf_fields.txt").read_text().splitlines():
        if not line.startswith(" "):
            current = found[line] = {}
            continue
        number, name, type_, *flags = line.split()
        current[int(number)] = Field(
            name, type_, "repeated" in flags, "map" in flags, "set" in flags or "always" in flags, "set" in flags
        )
    return found


def _message(name: str, content: bytes, depth: int = 0) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    fields = _messages()[name]
    found: dict[str, Any] = {}
    for number, wire, raw in _fields(content):
        field = fields.get(number)
        if field is None:
            continue
        if field.is_map:
            entry = {n: (w, r) for n, w, r in _fields(raw)}
            key = bytes(entry[1][1]).decode() if 1 in entry else ""
            wire, raw = entry.get(2, (_LENGTH, b""))
            found.setdefault(field.name, {})[key] = _value(field.type, wire, raw, depth)
        elif field.repeated:
            found.setdefault(field.name, []).append(_value(field.type, wire, raw, depth))
        elif field.name == ".":
            found |= _message(field.type, raw, depth + 1)
        else:
            value = _value(field.type, wire, raw, depth)
            if value is None or (not value and not (field.keep_empty if value == {} else field.keep_zero)):
                continue
            found[field.name] = value
    return found


def _value(type_: str, wire: int, raw: Any, depth: int) -> Any:
    if type_.startswith("schema-or-"):
        return _schema_or(type_, raw, depth + 1)
    read = _SCALARS.get(type_)
    if read is None:
        return _message(type_, raw, depth + 1)
    if isinstance(raw, int) is not (type_ in _NUMBERS):
        raise ValueError("a field has the wrong type")
    return read(raw)


def _schema_or(type_: str, raw: bytes, depth: int) -> Any:
    """Reads a part of a definition's schema that is either a schema or something simpler: a list of schemas, a boolean
    (additionalProperties) or a list of names (dependencies)."""
    schema_at = 2 if type_ == "schema-or-bool" else 1
    parts = list(_fields(raw))
    schema = next((value for number, _, value in parts if number == schema_at), None)
    if schema is not None:
        return _message("apiextensions.v1.JSONSchemaProps", schema, depth)
    if type_ == "schema-or-bool":
        return any(bool(value) for number, _, value in parts if number == 1)
    if type_ == "schema-or-list":
        schemas = [value for number, _, value in parts if number == 2]
        return [_message("apiextensions.v1.JSONSchemaProps", each, depth) for each in schemas]
    return [bytes(value).decode() for number, _, value in parts if number == 2]


def _fields(content: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yields (number, wire type, int or bytes) of every field."""
    position, end = 0, len(content)
    while position < end:
        tag, position = _varint(content, position)
        wire = tag & 7
        if wire == _VARINT:
            value, position = _varint(content, position)
        elif wire == _LENGTH:
            length, start = _varint(content, position)
            position = start + length
            if position > end:
                raise ValueError("it is truncated")
            yield tag >> 3, wire, content[start:position]
            continue
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            value = int.from_bytes(content[position : position + size], "little")
            position += size
        else:
            raise ValueError("unknown wire type")
        yield tag >> 3, wire, value


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _double(raw: int) -> float:
    """Returns a whole number as an int, as Go writes it in JSON."""
    value: float = struct.unpack("<d", raw.to_bytes(8, "little"))[0]
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def _datetime(raw: bytes) -> datetime | None:
    parts = {number: _signed(value) for number, _, value in _fields(raw)}
    # Go writes a missing time as the year 1.
    if parts.get(1, 0) <= -62135596800 or not parts:
        return None
    return datetime.fromtimestamp(parts.get(1, 0) + parts.get(2, 0) / 1e9, UTC)


def _time(raw: bytes) -> str | None:
    moment = _datetime(raw)
    return timestamp(moment) if moment else None


def _micro_time(raw: bytes) -> str | None:
    moment = _datetime(raw)
    return micro_timestamp(moment) if moment else None


def _quantity(raw: bytes) -> str:
    return next((bytes(value).decode() for number, _, value in _fields(raw) if number == 1), "0")


def _int_or_string(raw: bytes) -> int | str:
    parts = {number: value for number, _, value in _fields(raw)}
    return bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(parts.get(2, 0))


def _json(raw: bytes) -> Any:
    text = next((value for number, _, value in _fields(raw) if number == 1), b"")
    return orjson.loads(text) if text else None


def _strings(raw: bytes) -> list[str]:
    return [bytes(value).decode() for number, _, value in _fields(raw) if number == 1]


_NUMBERS = frozenset(("bool", "int32", "int64", "double"))
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": lambda raw: raw.decode(),
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "bool": bool,
    "int32": _signed,
    "int64": _signed,
    "double": _double,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "time": _time,
    "micro-time": _micro_time,
    "json": _json,
    "list": _strings,
}
