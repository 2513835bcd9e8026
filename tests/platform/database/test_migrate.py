"""The migrations create exactly the tables of the code."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

import muster.platform
from muster.platform.database.database import MIGRATIONS, Database, expected_heads, latest_per_area
from muster.platform.database.tables import metadata

STEPS = sorted(path.stem for path in (MIGRATIONS / "versions").glob("*.py"))
AREAS = [path.parent.name for path in Path(muster.platform.__path__[0]).glob("*/tables.py")]


async def test_migrations_create_exactly_the_tables_of_the_code(empty_database_url: str) -> None:
    for area in AREAS:
        importlib.import_module(f"muster.platform.{area}.tables")
    importlib.import_module("muster.platform.database.pipeline_tables")

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    database = await Database.open(empty_database_url)
    try:
        assert await database.read(differences) == []
    finally:
        database.close()


@pytest.mark.parametrize("step", STEPS)
def test_a_migration_is_named_after_its_file(step: str) -> None:
    spec = importlib.util.spec_from_file_location(step, MIGRATIONS / "versions" / f"{step}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    area, number = step.rsplit("_", 1)
    assert module.revision == step
    assert module.down_revision == (None if number == "0001" else f"{area}_{int(number) - 1:04}")
    assert module.branch_labels == ((area,) if number == "0001" else None)


async def test_the_database_records_its_migrations(database: Database) -> None:
    taken = await database.read(lambda c: c.execute(text("SELECT version_num FROM alembic_version")).scalars().all())
    assert set(taken) == expected_heads(MIGRATIONS / "versions")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], set()),
        (["users_0001"], {"users_0001"}),
        (["users_0002", "users_0001", "runs_0001"], {"users_0002", "runs_0001"}),
        (["users_0009", "users_0010"], {"users_0010"}),
    ],
)
def test_only_the_last_migration_of_an_area_is_recorded(names: list[str], expected: set[str]) -> None:
    assert latest_per_area(names) == expected


def test_a_dependency_of_another_area_is_implied(tmp_path: Path) -> None:
    (tmp_path / "users_0001.py").write_text("depends_on = None\n")
    (tmp_path / "runs_0001.py").write_text('revision = "runs_0001"\ndepends_on = ("users_0001",)  # owners\n')
    assert expected_heads(tmp_path) == {"runs_0001"}
    (tmp_path / "users_0002.py").write_text("depends_on = None\n")
    assert expected_heads(tmp_path) == {"runs_0001", "users_0002"}


def test_a_migration_without_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"add_column\.py: a migration must be named AREA_NNNN"):
        latest_per_area(["add_column"])
