from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from muster.cli.formats import TableOptions, build_table, format_headers, format_row
from muster.kube.builtin import CONFIG_MAP, JOB, POD

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLE: dict[str, Any] = {
    "kind": "Table",
    "columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Node", "priority": 1}],
    "rows": [
        {
            "cells": ["b", "Running", "n1"],
            "object": {"metadata": {"name": "b", "namespace": "x", "labels": {"a": "1"}}},
        },
        {"cells": ["a", "Pending", "n2"], "object": {"metadata": {"name": "a", "namespace": "x"}}},
    ],
}


def rows(look: TableOptions, kind: Any = POD) -> list[list[Any]]:
    sheet = build_table(kind, TABLE, NOW)
    return [format_headers(sheet, look), *(format_row(sheet, row, look) for row in sheet.rows)]


def test_columns_of_lower_priority_are_only_in_wide_tables() -> None:
    assert rows(TableOptions()) == [["NAME", "STATUS"], ["b", "Running"], ["a", "Pending"]]
    assert rows(TableOptions(wide=True))[1] == ["b", "Running", "n1"]


def test_namespaces_labels_and_types_on_request() -> None:
    assert rows(TableOptions(namespaces=True, labels=True, label_columns=("example.com/a", "a"), titles=True), JOB) == [
        ["NAMESPACE", "NAME", "STATUS", "A", "A", "LABELS"],
        ["x", "job.batch/b", "Running", "", "1", "a=1"],
        ["x", "job.batch/a", "Pending", "", "", "<none>"],
    ]


def test_later_tables_of_a_watch_use_the_columns_of_the_first() -> None:
    first = build_table(POD, TABLE, NOW)
    later = build_table(POD, {"kind": "Table", "columnDefinitions": None, "rows": TABLE["rows"][:1]}, NOW, first)
    assert format_row(later, later.rows[0], TableOptions()) == ["b", "Running"]


def test_without_server_tables_ours_are_used() -> None:
    settings = {"metadata": {"name": "c", "creationTimestamp": "2025-12-31T23:59:00Z"}, "data": {"x": "1", "y": "2"}}
    sheet = build_table(CONFIG_MAP, {"items": [settings]}, NOW)
    assert format_headers(sheet, TableOptions()) == ["NAME", "DATA", "AGE"]
    assert format_row(sheet, sheet.rows[0], TableOptions()) == ["c", 2, "60s"]


def test_rows_are_sorted_with_their_objects() -> None:
    sheet = build_table(POD, TABLE, NOW).sorted_by(".metadata.name")
    assert [row.cells[0] for row in sheet.rows] == ["a", "b"]
