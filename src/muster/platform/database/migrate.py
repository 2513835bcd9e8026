"""Upgrades the tables to what this release needs. migrations/README.md says how to add a migration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

MIGRATIONS = Path(__file__).parent / "migrations"
_NAME = re.compile(r"([a-z]+)_(\d{4})")
_DEPENDS_ON = re.compile(r"^depends_on(?:: [^=]+)? = (.+)$", re.MULTILINE)
_LOCK = 0x6D7573746572
"""The advisory lock of servers that share a PostgreSQL: one upgrades, the others wait."""


def migrate(engine: Engine) -> None:
    """Applies all missing migrations in one transaction. After a crash nothing has changed."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        # Alembic takes half a second to import, and is needed only after an upgrade of Muster.
        if _applied(connection) != expected_heads(MIGRATIONS / "versions"):
            _upgrade(connection)


def expected_heads(folder: Path) -> set[str]:
    """The versions that Alembic stores after all migrations: the last of every area, unless a migration of another area
    depends on it."""
    steps = list(folder.glob("*.py"))
    needed = {need for step in steps for need in _needs(step.read_text())}
    return latest_per_area(step.stem for step in steps) - needed


def latest_per_area(names: Iterable[str]) -> set[str]:
    """The last migration of every area: of users_0001, users_0002 and runs_0001, it is users_0002 and runs_0001."""
    last: dict[str, str] = {}
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name}.py: a migration must be named AREA_NNNN, as in users_0001")
        last[match[1]] = name
    return set(last.values())


def _needs(step: str) -> tuple[str, ...]:
    """What a migration depends on, read without running it: Alembic is not imported yet."""
    found = _DEPENDS_ON.search(step)
    return tuple(ast.literal_eval(found[1]) or ()) if found else ()


def _applied(connection: Connection) -> set[str]:
    if not inspect(connection).has_table("alembic_version"):
        return set()
    return set(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "heads")
