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
"""The number that servers which share a PostgreSQL agree on: one of them upgrades, the others wait."""


def migrate(engine: Engine) -> None:
    """All steps that are missing, in one transaction: after a crash it is as if nothing had been tried."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        # Alembic takes half a second to import, and there is something to do for it only after an upgrade.
        if _applied(connection) != expected_heads(MIGRATIONS / "versions"):
            _upgrade(connection)


def expected_heads(folder: Path) -> set[str]:
    """What Alembic writes down once all steps are taken: the last step of every area, unless a step of another area,
    which depends on it, says so already."""
    steps = list(folder.glob("*.py"))
    needed = {need for step in steps for need in _needs(step.read_text())}
    return latest_per_area(step.stem for step in steps) - needed


def latest_per_area(names: Iterable[str]) -> set[str]:
    """The last step of every area: of users_0001, users_0002 and runs_0001 these are users_0002 and runs_0001."""
    last: dict[str, str] = {}
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name}.py: a migration is called AREA_NNNN, as in users_0001")
        last[match[1]] = name
    return set(last.values())


def _needs(step: str) -> tuple[str, ...]:
    """What a step says it depends on, read without running it: at every start, with Alembic not yet imported."""
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
