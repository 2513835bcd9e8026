from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from muster.embedded.store.database import Database, Row, StoreUnreadable, is_full


def row(version: int, name: str = "a", *, gone: int = 0, size: int = 2) -> Row:
    return Row(version, "pods", "default", name, gone, b"x" * size)


def reopened(path: Path) -> list[Row]:
    database = Database(path)
    rows = list(database.rows())
    database.close()
    return rows


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 64, 65, 512, 513, 2000])
def test_appended_rows_are_read_in_order(tmp_path: Path, count: int) -> None:
    database = Database(tmp_path / "db")
    rows = [row(n, f"pod-{n}", gone=n % 2) for n in range(1, count + 1)]
    database.append(rows)
    assert list(database.rows()) == rows
    database.close()
    assert reopened(tmp_path / "db") == rows


@pytest.mark.parametrize("count", [3, 700])
def test_an_append_happens_as_a_whole_or_not_at_all(tmp_path: Path, count: int) -> None:
    database = Database(tmp_path / "db")
    database.append([row(count)])
    with pytest.raises(sqlite3.IntegrityError):
        database.append([row(n) for n in range(1, count + 1)])
    assert [r.version for r in database.rows()] == [count]
    database.append([row(count + 1)])
    database.close()


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    database.append([row(1)])
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"db": 0o600, "db-wal": 0o600}
    database.close()


def test_forgetting_removes_versions_and_remembers_how_far(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    database.append([row(n) for n in range(1, 6)])
    database.forget([1, 2, 4], {"pods": 4})
    database.forget([], {"pods": 4, "jobs.batch": 2})
    database.close()
    database = Database(tmp_path / "db")
    assert [r.version for r in database.rows()] == [3, 5]
    assert database.floors() == {"pods": 4, "jobs.batch": 2}
    database.close()


def test_the_log_is_folded_when_it_has_grown(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    database.append([row(1, size=100_000)])
    assert not database.wants_checkpoint(200_000)
    database.append([row(2, size=100_000)])
    assert database.wants_checkpoint(200_000)
    before = (tmp_path / "db").stat().st_size
    database.checkpoint()
    assert (tmp_path / "db").stat().st_size > before
    assert not database.wants_checkpoint(1)
    database.close()


def test_small_commits_do_not_let_the_log_grow_without_bounds(tmp_path: Path) -> None:
    database = Database(tmp_path / "db", "process")
    for version in range(1, 2001):
        database.append([row(version, size=500)])
        if database.wants_checkpoint(1 << 20):
            database.checkpoint()
    assert (tmp_path / "db-wal").stat().st_size < 3 << 20
    database.close()


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (b"this is not a database at all, but somebody's notes " * 50, "file is not a database"),
        (b"SQLite format 3\0" + b"\xff" * 4096, "cannot use the store"),
    ],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, contents: bytes, said: str) -> None:
    path = tmp_path / "db"
    path.write_bytes(contents)
    with pytest.raises(StoreUnreadable, match=said) as caught:
        Database(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == contents


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnreadable, match="another program"):
        Database(path)
    assert path.read_bytes() == before


def test_a_damaged_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "db"
    database = Database(path)
    database.append([row(n, f"pod-{n}", size=2000) for n in range(1, 200)])
    database.checkpoint()
    database.close()
    contents = bytearray(path.read_bytes())
    contents[4096 * 5 : 4096 * 60] = b"\xa5" * (4096 * 55)
    path.write_bytes(contents)
    with pytest.raises(StoreUnreadable, match="The file was not changed"):
        list(Database(path).rows())
    assert path.read_bytes() == bytes(contents)


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "db"
    Database(path, format=7).close()
    before = path.read_bytes()
    with pytest.raises(StoreUnreadable, match="it has format 7, this version of Muster reads up to 3"):
        Database(path)
    assert path.read_bytes() == before


def test_an_older_format_is_brought_forward_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "db"
    database = Database(path, format=1)
    database.append([row(1)])
    database.close()
    steps = {
        1: lambda c: c.execute("UPDATE versions SET name = name || '-two'"),
        2: lambda c: c.execute("UPDATE versions SET name = name || '-three'"),
    }
    database = Database(path, format=3, migrations=steps)
    assert [r.name for r in database.rows()] == ["a-two-three"]
    database.close()
    assert [r.name for r in Database(path, format=3).rows()] == ["a-two-three"]


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    database = Database(path, format=1)
    database.append([row(1)])
    database.close()

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE versions SET name = 'spoilt'")
        connection.execute("SELECT nonsense FROM nowhere")

    with pytest.raises(StoreUnreadable, match="nowhere"):
        Database(path, format=2, migrations={1: half})
    assert [r.name for r in reopened(path)] == ["a"]


def test_a_format_with_no_way_forward_is_refused(tmp_path: Path) -> None:
    Database(tmp_path / "db", format=1).close()
    with pytest.raises(StoreUnreadable, match="there is no migration from 2 to 3"):
        Database(tmp_path / "db", format=3, migrations={1: lambda connection: None})


def test_a_full_disk_is_distinguished_from_other_errors(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    database.limit_pages(8)
    with pytest.raises(sqlite3.Error) as caught:
        database.append([row(1, size=1 << 20)])
    assert is_full(caught.value, tmp_path)
    assert not is_full(sqlite3.OperationalError("disk I/O error"), tmp_path)
    assert not is_full(OSError("no"), tmp_path)
    database.limit_pages(0)
    database.append([row(1, size=1 << 20)])
    database.close()
