"""The large parts of an object, which its versions share.

Most changes of a workflow change its status. Its spec can have a megabyte, so it is stored once, and the rows of the
object's versions refer to it, until the spec itself changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from muster.kube.objects import Object

SMALLEST_SHARED = 8 << 10
"""Parts with fewer bytes are stored with every version: that costs less than another row."""

_STATUS_PARTS = ("storedTemplates", "storedWorkflowTemplateSpec")
"""What a workflow copies into its status when it starts."""


class SharedParts(NamedTuple):
    """The parts of one object that do not change with its status."""

    version: int
    """The version of the object that they are stored with."""
    parts: Object
    size: int
    digest: bytes
    weight: int
    """See `weigh`."""
    text: bytes | None = None
    """The parts as JSON if they are not stored yet."""

    @classmethod
    def of(cls, version: int, parts: Object, text: bytes, *, is_stored: bool) -> SharedParts:
        return cls(version, parts, len(text), digest_of(text), weigh(text), None if is_stored else text)

    def is_same(self, parts: Object) -> bool:
        """Whether these are the very same values. Values that are merely equal (1 and true are) do not count."""
        mine, other = _values(self.parts), _values(parts)
        return mine.keys() == other.keys() and all(value is mine[name] for name, value in other.items())


_VALUE_BYTES = 80
"""What a value takes in memory besides its text: the header of a string and its place in a dict or list."""


def weigh(text: bytes) -> int:
    """Estimates the memory that an object takes of its JSON. Many short values take up to 20 times as much as their
    text."""
    return len(text) + _VALUE_BYTES * (text.count(b",") + text.count(b":") + text.count(b"[") + text.count(b"{"))


def digest_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def split_parts(obj: Object) -> Object:
    """Returns the parts of an object that may be shared, in the shape of an object."""
    parts: dict[str, Any] = {}
    if isinstance(obj.get("spec"), dict):
        parts["spec"] = obj["spec"]
    status = obj.get("status")
    if isinstance(status, dict):
        found = {name: status[name] for name in _STATUS_PARTS if status.get(name) is not None}
        if found:
            parts["status"] = found
    return parts


def merge_parts(obj: Object, parts: Mapping[str, Any]) -> Object:
    """Returns the object with these parts instead of its own; null where there is none, so that the order of its fields
    stays."""
    merged = dict(obj)
    if isinstance(obj.get("spec"), dict) or "spec" in parts:
        merged["spec"] = parts.get("spec")
    status = obj.get("status")
    stored: Mapping[str, Any] = parts.get("status") or {}
    if isinstance(status, dict):
        own = {name: stored.get(name) for name in _STATUS_PARTS if status.get(name) is not None or name in stored}
        if own:
            merged["status"] = {**status, **own}
    return merged


def _values(parts: Object) -> dict[str, Any]:
    return {"spec": parts.get("spec"), **(parts.get("status") or {})}
