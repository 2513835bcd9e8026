from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.kube.kinds import Column, Kind
from muster.kube.objects import Object, timestamp
from muster.kube.tables import build_table, columns_of, format_age, format_duration, table_to_object

NOW = datetime(2025, 1, 31, 12, 0, 0, tzinfo=UTC)
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1.5, "0s"), (0, "0s"), (0.9, "0s"), (59, "59s"), (119.9, "119s"),
        (2 * MINUTE, "2m"), (3 * MINUTE + 12, "3m12s"), (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 30, "10m"), (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"), (3 * HOUR + 5 * MINUTE, "3h5m"), (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59, "8h"), (47 * HOUR, "47h"),
        (2 * DAY, "2d"), (2 * DAY + 4 * HOUR, "2d4h"), (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + 5 * HOUR, "8d"), (729 * DAY, "729d"),
        (2 * YEAR, "2y"), (2 * YEAR + DAY, "2y1d"), (7 * YEAR + 364 * DAY, "7y364d"),
        (8 * YEAR + DAY, "8y"), (30 * YEAR, "30y"),
    ],
)  # fmt: skip
def test_durations_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("since", "text"),
    [
        ("2025-01-31T11:58:30Z", "90s"),
        ("2025-01-31T11:58:30.250000Z", "89s"),
        ("2025-01-31T13:58:30+02:00", "90s"),
        (None, "<unknown>"),
        ("", "<unknown>"),
        ("garbage", "<invalid>"),
    ],
)
def test_ages(since: str | None, text: str) -> None:
    assert format_age(since, NOW) == text


THING = Kind(
    "example.com", "v1", "Thing", "things",
    columns=(
        Column("Phase", ".status.phase"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Count", ".spec.count", "integer"),
        Column("Started", ".status.startTime", "date"),
        Column("Shout", priority=1, cell=lambda obj, now: f"{obj['metadata']['name'].upper()} {now.year}"),
    ),
)  # fmt: skip


def thing(name: str, **fields: object) -> Object:
    created = timestamp(NOW - timedelta(minutes=5))
    return {"metadata": {"name": name, "namespace": "ns", "creationTimestamp": created}, **fields}


FULL = thing(
    "a",
    spec={"count": 0},
    status={
        "phase": "Up",
        "startTime": timestamp(NOW - timedelta(seconds=7)),
        "conditions": [{"type": "Old", "status": "x"}, {"type": "Ready", "status": "True"}],
    },
)


def test_cells_come_from_paths_and_functions() -> None:
    answer = build_table(THING, [FULL, thing("b")], NOW)
    assert [column.name for column in answer.columns] == ["Name", "Phase", "Ready", "Count", "Started"]
    assert [row.cells for row in answer.rows] == [("a", "Up", "True", 0, "7s"), ("b", "", "", "", "<unknown>")]


def test_wide_and_with_namespaces() -> None:
    answer = build_table(THING, [FULL], NOW, wide=True, with_namespace=True)
    assert [column.name for column in answer.columns][:2] == ["Namespace", "Name"]
    assert answer.rows[0].cells == ("ns", "a", "Up", "True", 0, "7s", "A 2025")


def test_a_kind_without_columns_shows_its_age() -> None:
    plain = Kind("example.com", "v1", "Plain", "plains", namespaced=False)
    answer = build_table(plain, [thing("a")], NOW, with_namespace=True)
    assert [column.name for column in answer.columns] == ["Name", "Age"]
    assert answer.rows[0].cells == ("a", "5m")


def test_a_kind_may_place_its_name_itself() -> None:
    kind = Kind("", "v1", "E", "es", columns=(Column("First", ".x"), Column("Name", ".metadata.name", priority=1)))
    assert [column.name for column in columns_of(kind)] == ["First", "Name"]


def test_the_table_on_the_wire() -> None:
    wire = table_to_object(build_table(THING, [FULL], NOW, wide=True), resource_version="7", continue_="more")
    assert (wire["kind"], wire["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert wire["metadata"] == {"resourceVersion": "7", "continue": "more"}
    assert [(c["name"], c["type"], c["format"], c["priority"]) for c in wire["columnDefinitions"]] == [
        ("Name", "string", "name", 0),
        ("Phase", "string", "", 0),
        ("Ready", "string", "", 0),
        ("Count", "integer", "", 0),
        ("Started", "string", "", 0),
        ("Shout", "string", "", 1),
    ]
    (row,) = wire["rows"]
    assert row["cells"] == ["a", "Up", "True", 0, "7s", "A 2025"]
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": FULL["metadata"],
    }


def test_rows_carry_what_was_asked_for() -> None:
    answer = build_table(THING, [FULL], NOW)
    assert table_to_object(answer, include="Object")["rows"][0]["object"] is FULL
    assert "object" not in table_to_object(answer, include="None")["rows"][0]
