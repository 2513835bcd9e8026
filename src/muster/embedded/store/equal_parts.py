"""Lets equal parts of objects share memory, which is possible because objects are read-only.

The Pods of a workflow differ in little more than their names and times. Without sharing, each one takes 14 KB.
"""

from __future__ import annotations

from typing import Any

import orjson

from muster.kube.objects import Object


class EqualParts:
    """Remembers the parts of all objects that it was given. Drop it when all are loaded."""

    def __init__(self) -> None:
        self._strings: dict[str, str] = {}
        self._parts: dict[int, Any] = {}
        """By the hash of their JSON. Only one of several parts with the same hash is shared."""

    def share(self, obj: Object) -> None:
        """Replaces the parts of an object that only the caller has by equal parts of earlier objects."""
        self._share_values(obj)

    def _share_values(self, obj: Object) -> None:
        for name, value in obj.items():
            obj[name] = self._shared(value)

    def _shared(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._strings.setdefault(value, value)
        if not isinstance(value, dict | list):
            return value
        text = orjson.dumps(value)
        place = hash(text)
        known = self._parts.get(place)
        if known is not None and orjson.dumps(known) == text:
            return known
        if isinstance(value, dict):
            self._share_values(value)
        else:
            value[:] = [self._shared(each) for each in value]
        self._parts.setdefault(place, value)
        return value
