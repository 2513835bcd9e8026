"""A backup as docs/cluster-platform.md describes it: with pg_dump and pg_restore, into an empty database."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

from sqlalchemy import select

from muster.kube.encryption import KeyRing
from muster.platform.database.database import Database
from muster.platform.database.tables import users
from muster.platform.permissions import SYSTEM
from muster.platform.users.accounts import create_user
from tests.platform.databases import PostgresServer, installed_programs

DOCUMENT = Path(__file__).parents[3] / "docs" / "cluster-platform.md"


async def test_a_dump_is_restored_with_the_documented_commands(
    postgres: PostgresServer, migrated_postgres: str, tmp_path: Path
) -> None:
    name, keys = postgres.new_database(migrated_postgres), KeyRing.load(tmp_path / "key")
    database = await Database.open(postgres.url(name), keys=keys)
    await database.write(lambda connection: create_user(connection, SYSTEM, "ann"))
    database.close()
    shell = {
        **os.environ, "PGHOST": str(postgres.socket_folder), "PGUSER": "muster",
        "PATH": f"{installed_programs()}:{os.environ['PATH']}",
    }  # fmt: skip
    commands = re.findall(r"`(pg_dump [^`]*|dropdb [^`]*)`", DOCUMENT.read_text())
    assert len(commands) == 2
    for command in commands:
        own = re.sub(r"(?<!owner=)\bmuster\b(?!\.dump)", name, command)
        await asyncio.to_thread(subprocess.run, ["sh", "-ec", own], env=shell, cwd=tmp_path, check=True)
    restored = await Database.open(postgres.url(name), keys=keys)
    try:
        names = await restored.read(lambda connection: connection.execute(select(users.c.name)).scalars().all())
        assert "ann" in names
    finally:
        restored.close()
