"""The `fields` parameter: `items.metadata.name,items.spec` keeps only these, `-status.nodes` all but these."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fields(NamedTuple):
    paths: frozenset[str] = frozenset()
    exclude: bool = False

    def cut(self, value: Any) -> Any:
        """The part of `value` that is wanted, as a copy."""
        return _cut(self, "", value) if self.paths else value

    def wants(self, path: str) -> bool:
        """Whether anything at or below `path` would be left."""
        if not self.paths:
            return True
        touched = any(path.startswith(one) or one.startswith(path) for one in self.paths)
        return touched is not self.exclude

    def below(self, prefix: str) -> Fields:
        return Fields(frozenset(path.removeprefix(prefix) for path in self.paths), self.exclude)


def parse_fields(text: str) -> Fields:
    if not text:
        return Fields()
    exclude = text.startswith("-")
    return Fields(frozenset(text.removeprefix("-").split(",")), exclude)


def _cut(fields: Fields, path: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(fields, path, item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if here in fields.paths:
            if not fields.exclude:
                kept[name] = inner
        elif fields.exclude or any(one.startswith(here) for one in fields.paths):
            kept[name] = _cut(fields, here, inner)
    return kept
