"""Schemas that occur again and again, such as that of a container, are written once in an OpenAPI document and referred
to elsewhere. Without this the templates of Argo's kinds alone make it 30 MB."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

import orjson

from muster.kube.kinds import Schema

_PREFIX = "io.muster.schema"
_SINGLE = ("items", "additionalProperties")


class Sharing:
    """`written` is a schema as it is to stand in the document; `definitions` are the parts that were taken out of those
    that were asked for."""

    def __init__(self, schemas: Iterable[Schema], where: str) -> None:
        """`schemas` are all of the document, `where` is what a reference to a definition begins with."""
        self.definitions: dict[str, Schema] = {}
        self._where = where
        self._marks: dict[int, bytes] = {}
        """By the id of a schema, which lives as long as its kind. What is the same has the same mark."""
        self._counts: Counter[bytes] = Counter()
        self._references: dict[bytes, Schema] = {}
        for schema in schemas:
            for inner in _inner(schema):
                self._mark(inner)

    def written(self, schema: Schema, name: str = "item") -> Schema:
        """`name` is that of the field it belongs to."""
        made = dict(schema)
        if isinstance(schema.get("properties"), dict):
            made["properties"] = {field: self._part(inner, field) for field, inner in schema["properties"].items()}
        for holder in _SINGLE:
            if isinstance(schema.get(holder), dict):
                made[holder] = self._part(schema[holder], name)
        return made

    def _part(self, schema: Schema, name: str) -> Schema:
        mark = self._marks[id(schema)]
        if not schema.get("properties") or self._counts[mark] < 2:
            return self.written(schema, name)
        if mark not in self._references:
            title = self._free(name)
            self._references[mark] = {"$ref": f"{self._where}{title}"}
            self.definitions[title] = {}  # the name is taken while its parts look for theirs
            self.definitions[title] = self.written(schema, name)
        return self._references[mark]

    def _mark(self, schema: Schema) -> bytes:
        mark = self._marks.get(id(schema))
        if mark is None or not schema.get("properties"):
            # Of a list, the items are what may be taken out: they count whenever the list does.
            own = {key: value for key, value in schema.items() if key != "properties" and key not in _SINGLE}
            below = [self._mark(inner).hex() for inner in _inner(schema)]
            words = [own, list(schema.get("properties") or ()), [h for h in _SINGLE if h in schema], below]
            mark = hashlib.blake2b(orjson.dumps(words), digest_size=12).digest()
            self._marks[id(schema)] = mark
        self._counts[mark] += 1
        return mark

    def _free(self, name: str) -> str:
        """`kubectl explain` shows the end of it as the type of a field."""
        wanted = title = f"{_PREFIX}.{name[:1].upper()}{name[1:]}"
        number = 2
        while title in self.definitions:
            title, number = f"{wanted}{number}", number + 1
        return title


def _inner(schema: Schema) -> Iterator[Schema]:
    yield from (schema.get("properties") or {}).values()
    for holder in _SINGLE:
        if isinstance(schema.get(holder), dict):
            yield schema[holder]
