"""Fixtures for tests that need the platform's database. Import them in a conftest.py."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from muster.kube.encryption import KEY_FILE, KeyRing
from muster.platform.database.database import Database, sqlite_url
from tests.platform.databases import PostgresServer, migrated, postgres_server

__all__ = ["database", "database_url", "empty_database_url", "migrated_postgres", "migrated_sqlite", "postgres"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer) -> str:
    name = postgres.new_database()
    migrated(postgres.url(name))
    return name


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "platform.db"
    migrated(sqlite_url(path))
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "empty.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the tables of this release, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "platform.db")
        return sqlite_url(tmp_path / "platform.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.new_database(request.getfixturevalue("migrated_postgres")))


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    keys = KeyRing.load(tmp_path / KEY_FILE)
    opened = await Database.open(database_url, keys=keys, survives_power_cut=False)
    yield opened
    opened.close()
