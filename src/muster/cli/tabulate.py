"""Tables of objects: read from the server's answer, or made here, and dressed as the options say. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from muster.cli.formats import sorted_by
from muster.cli.targets import type_title
from muster.kube.kinds import Kind
from muster.kube.objects import Object, labels_of, namespace_of
from muster.kube.tables import columns_of, table


class Heading(NamedTuple):
    name: str
    priority: int = 0


class Row(NamedTuple):
    cells: Sequence[Any]
    object: Object


class Sheet(NamedTuple):
    kind: Kind
    headings: tuple[Heading, ...]
    rows: list[Row]

    def sorted_by(self, path: str) -> Sheet:
        """The rows must carry whole objects."""
        by_identity = {id(row.object): row for row in self.rows}
        ordered = sorted_by(path, [(self.kind, row.object) for row in self.rows])
        return self._replace(rows=[by_identity[id(obj)] for _, obj in ordered])


class Look(NamedTuple):
    """What the table is to show besides the kind's own columns."""

    wide: bool = False
    namespaces: bool = False
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    titles: bool = False
    """The type in front of each name, as where several types are shown."""


def sheet_of(kind: Kind, answer: Object, now: datetime, like: Sheet | None = None) -> Sheet:
    """From a `Table`, or from the objects that a server without tables answers. Of the tables of a watch only the first
    says what its columns are: the others are `like` it."""
    if answer.get("kind") == "Table":
        told = tuple(
            Heading(str(c["name"]), int(c.get("priority") or 0)) for c in answer.get("columnDefinitions") or ()
        )
        rows = [Row(row.get("cells") or (), row.get("object") or {}) for row in answer.get("rows") or ()]
        return Sheet(kind, told or (like.headings if like else ()), rows)
    objects = answer.get("items", [answer])
    made = table(kind, objects, now, wide=True)
    headings = tuple(Heading(column.name, column.priority) for column in columns_of(kind))
    return Sheet(kind, headings, [Row(row.cells, row.object) for row in made.rows])


def headers_of(sheet: Sheet, look: Look) -> list[str]:
    front = ["NAMESPACE"] if look.namespaces and sheet.kind.namespaced else []
    own = [heading.name.upper() for heading in sheet.headings if look.wide or not heading.priority]
    return [*front, *own, *(_label_header(label) for label in look.label_columns), *(["LABELS"] if look.labels else [])]


def row_of(sheet: Sheet, row: Row, look: Look) -> list[Any]:
    cells = []
    for heading, cell in zip(sheet.headings, row.cells, strict=False):
        if heading.priority and not look.wide:
            continue
        named = look.titles and heading.name == "Name"
        cells.append(f"{type_title(sheet.kind)}/{cell}" if named else cell)
    labels = labels_of(row.object)
    front = [namespace_of(row.object)] if look.namespaces and sheet.kind.namespaced else []
    shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"
    return [*front, *cells, *(labels.get(label, "") for label in look.label_columns), *([shown] if look.labels else [])]


def _label_header(label: str) -> str:
    return label.rpartition("/")[2].upper()
