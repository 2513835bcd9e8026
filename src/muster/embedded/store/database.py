"""The SQLite file behind the store, and the lock on its directory.

The file is a log with one row for every version of every object. An object is its newest row. Older rows stay as long
as a watch may resume from them, so a restart loses neither objects nor the recent past. Large parts that versions have
in common, such as the spec of a workflow, are in a table of their own (shared_parts.py). An append without new ones is
one SQL statement, hence one transaction and one release of the interpreter lock. With more statements, a busy event
loop would make the writing thread wait for that lock again and again.

Secrets are encrypted with a key that is not in the file (kube/encryption.py), as an API server with an
EncryptionConfiguration does it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from muster.kube.builtin import SECRET
from muster.kube.encryption import KEY_FILE, EncryptionError, KeyRing, is_encrypted, key_of


class DirectoryInUse(RuntimeError):
    """Another server uses this directory. `pid` is its process, if known."""

    def __init__(self, directory: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{directory} is in use by {who}, a Muster server that is still running; "
            "stop it with `muster down`, or choose another directory with MUSTER_HOME"
        )
        self.directory = directory
        self.pid = pid


class DirectoryLock:
    """One server per data directory. Held from construction until `release`, or until the process ends in any way."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = directory / "lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).strip()
            os.close(self._file)
            raise DirectoryInUse(directory, int(holder) if holder.isdigit() else None) from None
        # The pid only improves another server's error message. On a full disk, the lock works without it.
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


Durability: TypeAlias = Literal["power", "process"]
"""What an acknowledged write survives: a power cut, or only the end of this process (including kill -9)."""

Migration: TypeAlias = Callable[[sqlite3.Connection], None]
"""Converts a file from one format to the next. Runs inside a transaction."""

FORMAT = 3
ENCRYPTED = SECRET.resource

APPLICATION_ID = 0x4D555354  # 'MUST'
LARGEST_APPEND = 512
_COMMIT_BYTES = 8 << 10
"""What a commit adds to the write-ahead log besides its rows: the log has whole pages."""

_TABLES = """
CREATE TABLE versions (
    version INTEGER PRIMARY KEY,
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    gone INTEGER NOT NULL,
    object BLOB NOT NULL
);
CREATE TABLE floors (
    resource TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
"""

_SHARED_PARTS = """
CREATE TABLE shared_parts (
    version INTEGER PRIMARY KEY,
    parts BLOB NOT NULL
);
ALTER TABLE versions ADD COLUMN shared INTEGER;
CREATE INDEX versions_shared ON versions (shared) WHERE shared IS NOT NULL;
"""
_COLUMNS = "version, resource, namespace, name, gone, object, shared"
_DEAD_SHARE, _DEAD_BYTES = 0.5, 64 << 20
"""The file is rewritten if so much of it, and so many bytes, are unused."""


def _share_parts(connection: sqlite3.Connection) -> None:
    """From format 3 on, large parts of objects are stored once. What is there stays as it is."""
    if "shared" not in [column[1] for column in connection.execute("PRAGMA table_info(versions)")]:
        for statement in _SHARED_PARTS.split(";"):
            connection.execute(statement)


MIGRATIONS: Mapping[int, Migration] = {1: lambda _: None, 2: _share_parts}
"""Each key is the format that the migration starts from. From 2 on, Secrets are encrypted: see `_encrypt_secrets`."""


class Row(NamedTuple):
    """One version of an object. With `gone`, this version removed the object, and `object` is its last state."""

    version: int
    resource: str
    namespace: str
    name: str
    gone: int
    object: bytes
    shared: int | None = None
    """The version that the large parts of the object are stored with, if they are not in `object`."""


class RowInfo(NamedTuple):
    """A row without its object."""

    version: int
    resource: str
    namespace: str
    name: str
    gone: int
    size: int


class StoreUnreadable(RuntimeError):
    """The file is damaged, belongs to another program, or has an unknown format. It has not been changed."""


class Database:
    """One thread may write while another one reads. There is one connection, so they take turns."""

    def __init__(
        self,
        path: Path,
        durability: Durability = "power",
        *,
        keys: KeyRing | None = None,
        format: int = FORMAT,
        migrations: Mapping[int, Migration] = MIGRATIONS,
    ) -> None:
        self.path = path
        self._format = format
        self._migrations = migrations
        self._unfolded_bytes = 0
        self._lock = Lock()
        self._keys = keys or KeyRing.load(path.with_name(KEY_FILE))
        if not path.exists():
            path.touch(mode=0o600)  # It contains Secrets. The files that SQLite puts beside it get the same mode.
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            self._open(durability)
        except EncryptionError as error:
            self._connection.close()
            raise self._undecryptable(error) from error
        except sqlite3.DatabaseError as error:
            self._connection.close()
            if is_full(error, path.parent):
                raise StoreUnreadable(f"cannot open the store {path}: the disk is full; free some space") from error
            raise self.unreadable(str(error)) from error
        except BaseException:
            self._connection.close()
            raise

    def rows(self, versions: Sequence[int] | None = None) -> Iterator[Row]:
        """Yields all versions, or only these, oldest first."""
        where, values = "", tuple[str, ...]()
        if versions is not None:
            where, values = "WHERE version IN (SELECT value FROM json_each(?))", (_json(versions),)
        for row in self._select(f"SELECT {_COLUMNS} FROM versions {where} ORDER BY version", values):  # noqa: S608
            try:
                yield Row._make(row) if row[1] != ENCRYPTED else self._decrypted(Row._make(row))
            except EncryptionError as error:
                raise self._undecryptable(error) from error

    def row_infos(self) -> Iterator[RowInfo]:
        """Yields all versions, oldest first, without reading their objects."""
        query = "SELECT version, resource, namespace, name, gone, length(object) FROM versions ORDER BY version"
        return map(RowInfo._make, self._select(query))

    def shared_parts(self, versions: Iterable[int]) -> dict[int, bytes]:
        """Returns the large parts that are stored with these versions."""
        query = "SELECT version, parts FROM shared_parts WHERE version IN (SELECT value FROM json_each(?))"
        return dict(self._select(query, (_json(sorted(versions)),)))

    def floors(self) -> dict[str, int]:
        """Returns, by resource, the version up to which history has been deleted."""
        return dict(self._connection.execute("SELECT resource, version FROM floors"))

    def append(self, rows: Sequence[Row], shared: Mapping[int, bytes] = MappingProxyType({})) -> None:
        """Appends all rows or none, with the large parts that they refer to. They are durable when this returns."""
        rows = [row if row.resource != ENCRYPTED else self._encrypted(row) for row in rows]
        with self._lock:
            if len(rows) <= LARGEST_APPEND and not shared:
                self._insert(rows)
            else:
                self._in_transaction(lambda: self._insert_all(rows, shared))
            self._unfolded_bytes += (
                sum(len(row.object) for row in rows) + sum(map(len, shared.values())) + _COMMIT_BYTES
            )

    def forget(self, versions: Sequence[int], floors: Mapping[str, int]) -> None:
        """Deletes superseded versions and stores how far back history now goes."""

        def remove() -> None:
            self._connection.execute(
                "DELETE FROM versions WHERE version IN (SELECT value FROM json_each(?))",
                (_json(versions),),
            )
            self._connection.execute(
                "DELETE FROM shared_parts WHERE version NOT IN (SELECT shared FROM versions WHERE shared IS NOT NULL)"
            )
            self._connection.executemany("INSERT OR REPLACE INTO floors VALUES (?, ?)", list(floors.items()))

        with self._lock:
            self._in_transaction(remove)

    def shrink(self) -> bool:
        """Rewrites the file if most of it is unused, such as after the upgrade of a file without limits. Returns
        whether it did."""
        with self._lock:
            unused, pages, size = (self._pragma(name) for name in ("freelist_count", "page_count", "page_size"))
            if unused * size < _DEAD_BYTES or unused < _DEAD_SHARE * pages:
                return False
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return True

    def wants_checkpoint(self, size: int = 4 << 20) -> bool:
        return self._unfolded_bytes >= size

    def checkpoint(self) -> None:
        """Moves the write-ahead log into the main file."""
        with self._lock:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._unfolded_bytes = 0

    def limit_pages(self, pages: int) -> None:
        """Limits the file to this many pages of 4 KiB; 0 removes the limit."""
        self._connection.execute(f"PRAGMA max_page_count = {int(pages) or 0xFFFFFFFE}").fetchall()

    def close(self) -> None:
        self._connection.close()

    def _select(self, query: str, values: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            with self._lock:
                yield from self._connection.execute(query, values)
        except sqlite3.DatabaseError as error:
            raise self.unreadable(str(error)) from error

    def _pragma(self, text: str) -> int:
        return int(self._connection.execute(f"PRAGMA {text}").fetchone()[0])

    def _open(self, durability: Durability) -> None:
        # No other process reads the file, so the index of the write-ahead log does not need to be a memory-mapped
        # file, which cannot be created on a full disk.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        application, format = self._pragma("application_id"), self._pragma("user_version")
        empty = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not (empty and application == 0 and format == 0):
            if application != APPLICATION_ID:
                raise self.unreadable("it belongs to another program")
            if format > self._format:
                raise self.unreadable(f"it has format {format}, this version of Muster reads up to {self._format}")
        self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        self._connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        if empty:
            self._in_transaction(self._create)
            return
        damage = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise self.unreadable(damage)
        for step in range(format, self._format):
            if step not in self._migrations:
                raise self.unreadable(f"it has format {format}, and there is no migration from {step} to {step + 1}")
        self._encrypt_secrets(is_new=format < 2 <= self._format)
        if format < self._format:
            self._in_transaction(lambda: self._migrate(format))

    def _encrypt_secrets(self, is_new: bool) -> None:
        """Encrypts Secrets that are not encrypted yet, or with an older key. After the first time, no copy of the plain
        text is left in the file: the format is changed only then, so that an interrupted start does it again."""
        if not is_new and not self._keys.has_old_keys:
            return
        self._connection.execute("PRAGMA secure_delete = ON").fetchall()
        rows = [
            Row(*row)
            for row in self._connection.execute(
                "SELECT version, resource, namespace, name, gone, object FROM versions WHERE resource = ?", (ENCRYPTED,)
            )
        ]
        old = [row for row in rows if key_of(row.object) != self._keys.current or not self._keys.current]
        new = [(self._encrypted(self._decrypted(row)).object, row.version) for row in old]
        if new:
            self._in_transaction(
                lambda: self._connection.executemany("UPDATE versions SET object = ? WHERE version = ?", new)
            )
        if is_new:
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _encrypted(self, row: Row) -> Row:
        return row._replace(object=self._keys.encrypt(row.object, _place(row)))

    def _decrypted(self, row: Row) -> Row:
        if not is_encrypted(row.object):
            return row
        return row._replace(object=self._keys.decrypt(row.object, _place(row)))

    def _create(self) -> None:
        for statement in _TABLES.split(";"):
            self._connection.execute(statement)
        _share_parts(self._connection)
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {self._format}")

    def _migrate(self, format: int) -> None:
        for step in range(format, self._format):
            self._migrations[step](self._connection)
        self._connection.execute(f"PRAGMA user_version = {self._format}")

    def _insert(self, rows: Sequence[Row]) -> None:
        slots = 1 << (len(rows) - 1).bit_length()
        values: list[object] = [field for row in rows for field in row]
        values.extend([None] * (len(Row._fields) * (slots - len(rows))))
        self._connection.execute(_insert_statement(slots), values)

    def _insert_all(self, rows: Sequence[Row], shared: Mapping[int, bytes]) -> None:
        self._connection.executemany("INSERT INTO shared_parts VALUES (?, ?)", list(shared.items()))
        for start in range(0, len(rows), LARGEST_APPEND):
            self._insert(rows[start : start + LARGEST_APPEND])

    def _in_transaction(self, work: Callable[[], object]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            work()
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _undecryptable(self, error: EncryptionError) -> StoreUnreadable:
        return StoreUnreadable(f"cannot use the store {self.path}: {error}")

    def unreadable(self, why: str) -> StoreUnreadable:
        return StoreUnreadable(
            f"cannot use the store {self.path}: {why}. The file was not changed. "
            "Replace it with a backup, or move it away to start with an empty cluster"
        )


def _json(versions: Sequence[int]) -> str:
    return orjson.dumps(list(versions)).decode()


def _place(row: Row) -> str:
    return f"{row.resource}/{row.namespace}/{row.name}/{row.version}"


def is_full(error: BaseException, directory: Path) -> bool:
    """Whether a write failed because the disk is full."""
    if not isinstance(error, sqlite3.Error):
        return False
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return True
    free = os.statvfs(directory)
    return free.f_bavail * free.f_frsize < 1 << 20


_STATEMENTS: dict[int, str] = {}


def _insert_statement(slots: int) -> str:
    """Uses powers of two only, so that all statements fit in the connection's cache. Unused slots are NULL."""
    if slots not in _STATEMENTS:
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * slots)
        _STATEMENTS[slots] = f"INSERT INTO versions SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"  # noqa: S608
    return _STATEMENTS[slots]
