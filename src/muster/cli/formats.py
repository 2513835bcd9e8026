"""The forms in which `get` prints objects: yaml, json, names, or a JSONPath template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from muster.cli.failures import Failure
from muster.cli.targets import title
from muster.kube.jsonpath import JsonPathError, all_values, render
from muster.kube.kinds import Kind
from muster.kube.objects import Object, meta, name_of, parse_time

_FORMATS = ("yaml", "json", "name", "wide", "jsonpath=TEMPLATE", "custom-columns=HEADER:PATH,...")


class Format(NamedTuple):
    kind: str
    """'' for a table; or wide, yaml, json, name, jsonpath, custom-columns."""
    template: str = ""

    @property
    def is_table(self) -> bool:
        return self.kind in ("", "wide")


def parse_format(text: str) -> Format:
    kind, _, template = text.partition("=")
    if kind in ("", "wide", "yaml", "json", "name") and not template:
        return Format(kind)
    if kind in ("jsonpath", "custom-columns") and template:
        if kind == "jsonpath":
            _checked(template)
        return Format(kind, template)
    raise Failure(f'unable to print "{text}"; -o takes {", ".join(_FORMATS)}')


def as_text(format: Format, found: Sequence[tuple[Kind, Object]], *, single: bool, managed_fields: bool = False) -> str:
    """`single`: one object was asked for by name, and is printed by itself rather than in a list."""
    if format.kind == "name":
        return "".join(f"{title(kind, name_of(obj))}\n" for kind, obj in found)
    objects = [obj if managed_fields else without_managed_fields(obj) for _, obj in found]
    value: Object = (
        objects[0]
        if single and len(objects) == 1
        else {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
    )
    if format.kind == "yaml":
        from muster.kube.manifests import dump  # YAML takes a while to import, and is seldom wanted

        return dump(value)
    if format.kind == "json":
        return json_text(value)
    return render(value, format.template)


def json_text(value: Any) -> str:
    # Four spaces, as kubectl writes it; orjson can only do two.
    return json.dumps(value, indent=4, ensure_ascii=False) + "\n"


def compact_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def without_managed_fields(obj: Object) -> Object:
    if "managedFields" not in meta(obj):
        return obj
    return {**obj, "metadata": {key: value for key, value in meta(obj).items() if key != "managedFields"}}


def custom_columns(template: str) -> list[tuple[str, str]]:
    """`NAME:.metadata.name,IMAGE:.spec.containers[*].image` as headers and paths."""
    columns = []
    for part in template.split(","):
        header, colon, path = part.partition(":")
        if not colon or not header or not path:
            raise Failure(f'custom-columns: "{part}": write HEADER:PATH, as in NAME:.metadata.name')
        columns.append((header, path))
    return columns


def custom_row(columns: Sequence[tuple[str, str]], obj: Object) -> list[str]:
    return [",".join(_text(value) for value in all_values(obj, path)) or "<none>" for _, path in columns]


def sorted_by(path: str, found: Sequence[tuple[Kind, Object]]) -> list[tuple[Kind, Object]]:
    """By what stands at the path: numbers by value, times by time, the rest as text; what lacks it goes last."""
    _checked(path)
    return sorted(found, key=lambda pair: _sort_key(next(iter(all_values(pair[1], path)), None)))


def _checked(template: str) -> None:
    try:
        render({}, template)
    except JsonPathError as error:
        raise Failure(f"jsonpath {template!r}: {error}") from None


def _sort_key(value: Any) -> tuple[int, float, str]:
    if value is None:
        return (3, 0.0, "")
    if isinstance(value, int | float):
        return (0, float(value), "")
    text = _text(value)
    if len(text) >= 20 and text[4:5] == "-" and text.endswith("Z"):
        try:
            return (1, parse_time(text).timestamp(), "")
        except ValueError:
            pass
    return (2, 0.0, text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)
