"""Output formats of `get`: tables, YAML, JSON, names, JSONPath templates and custom columns. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from muster.cli.errors import CommandError
from muster.cli.session import resource_name, type_name
from muster.kube.jsonpath import JsonPathError, all_values, render
from muster.kube.kinds import Kind
from muster.kube.objects import Object, labels_of, meta, name_of, namespace_of, parse_time
from muster.kube.tables import build_table as build_table_tables
from muster.kube.tables import columns_of

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
            _check_template(template)
        return Format(kind, template)
    raise CommandError(f'unable to print "{text}"; -o takes {", ".join(_FORMATS)}')


def format_objects(
    format: Format, found: Sequence[tuple[Kind, Object]], *, single: bool, managed_fields: bool = False
) -> str:
    """Formats objects as YAML, JSON, names or a template. `single`: prints one object by itself, not in a list."""
    if format.kind == "name":
        return "".join(f"{resource_name(kind, name_of(obj))}\n" for kind, obj in found)
    objects = [obj if managed_fields else without_managed_fields(obj) for _, obj in found]
    value: Object = (
        objects[0]
        if single and len(objects) == 1
        else {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
    )
    if format.kind == "yaml":
        from muster.kube.manifests import dump  # YAML is slow to import and rarely needed

        return dump(value)
    if format.kind == "json":
        return format_json(value)
    return render(value, format.template)


def format_json(value: Any) -> str:
    # kubectl indents with four spaces; orjson supports only two.
    return json.dumps(value, indent=4, ensure_ascii=False) + "\n"


def format_compact_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def without_managed_fields(obj: Object) -> Object:
    if "managedFields" not in meta(obj):
        return obj
    return {**obj, "metadata": {key: value for key, value in meta(obj).items() if key != "managedFields"}}


def parse_custom_columns(template: str) -> list[tuple[str, str]]:
    """Splits `NAME:.metadata.name,IMAGE:.spec.containers[*].image` into headers and paths."""
    columns = []
    for part in template.split(","):
        header, colon, path = part.partition(":")
        if not colon or not header or not path:
            raise CommandError(f'custom-columns: "{part}" is not valid; use HEADER:PATH, as in NAME:.metadata.name')
        columns.append((header, path))
    return columns


def custom_column_values(columns: Sequence[tuple[str, str]], obj: Object) -> list[str]:
    return [",".join(_text(value) for value in all_values(obj, path)) or "<none>" for _, path in columns]


def sort_by_path(path: str, found: Sequence[tuple[Kind, Object]]) -> list[tuple[Kind, Object]]:
    """Sorts by the value at the path: numbers and times by value, others as text. Objects without a value come last."""
    _check_template(path)
    return sorted(found, key=lambda pair: _sort_key(next(iter(all_values(pair[1], path)), None)))


def _check_template(template: str) -> None:
    try:
        render({}, template)
    except JsonPathError as error:
        raise CommandError(f"jsonpath {template!r}: {error}") from None


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
    return value if isinstance(value, str) else format_compact_json(value)


class Column(NamedTuple):
    name: str
    priority: int = 0


class TableRow(NamedTuple):
    cells: Sequence[Any]
    object: Object


class ObjectTable(NamedTuple):
    kind: Kind
    headings: tuple[Column, ...]
    rows: list[TableRow]

    def sorted_by(self, path: str) -> ObjectTable:
        """Returns the table sorted by a path. The rows must contain whole objects."""
        by_identity = {id(row.object): row for row in self.rows}
        ordered = sort_by_path(path, [(self.kind, row.object) for row in self.rows])
        return self._replace(rows=[by_identity[id(obj)] for _, obj in ordered])


class TableOptions(NamedTuple):
    """What the table shows besides the columns of the kind."""

    wide: bool = False
    namespaces: bool = False
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    titles: bool = False
    """Whether the type precedes each name, as in a list of several types."""


def build_table(kind: Kind, answer: Object, now: datetime, like: ObjectTable | None = None) -> ObjectTable:
    """Builds a table from a `Table` response, or from the objects that a server without tables returns. In a watch,
    only the first `Table` has columns; the others use those of `like`."""
    if answer.get("kind") == "Table":
        told = tuple(Column(str(c["name"]), int(c.get("priority") or 0)) for c in answer.get("columnDefinitions") or ())
        rows = [TableRow(row.get("cells") or (), row.get("object") or {}) for row in answer.get("rows") or ()]
        return ObjectTable(kind, told or (like.headings if like else ()), rows)
    objects = answer.get("items", [answer])
    made = build_table_tables(kind, objects, now, wide=True)
    headings = tuple(Column(column.name, column.priority) for column in columns_of(kind))
    return ObjectTable(kind, headings, [TableRow(row.cells, row.object) for row in made.rows])


def format_headers(table: ObjectTable, options: TableOptions) -> list[str]:
    front = ["NAMESPACE"] if options.namespaces and table.kind.namespaced else []
    own = [heading.name.upper() for heading in table.headings if options.wide or not heading.priority]
    return [
        *front,
        *own,
        *(_label_header(label) for label in options.label_columns),
        *(["LABELS"] if options.labels else []),
    ]


def format_row(table: ObjectTable, row: TableRow, options: TableOptions) -> list[Any]:
    cells = []
    for heading, cell in zip(table.headings, row.cells, strict=False):
        if heading.priority and not options.wide:
            continue
        named = options.titles and heading.name == "Name"
        cells.append(f"{type_name(table.kind)}/{cell}" if named else cell)
    labels = labels_of(row.object)
    front = [namespace_of(row.object)] if options.namespaces and table.kind.namespaced else []
    shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"
    return [
        *front,
        *cells,
        *(labels.get(label, "") for label in options.label_columns),
        *([shown] if options.labels else []),
    ]


def _label_header(label: str) -> str:
    return label.rpartition("/")[2].upper()
