"""Real databases for tests: SQLite files and a real PostgreSQL, which runs once per test process."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import psycopg
import pytest

from muster.platform.database.database import Database

_INSTALL = Path(__file__).parents[2] / "scripts" / "apt-install"
_names = count()


@dataclass(frozen=True, slots=True)
class PostgresServer:
    socket_folder: Path
    control: Sequence[object]
    """The `pg_ctl` of this server, ..."""
    options: str
    """... the options that it is started with, ..."""
    user: pwd.struct_passwd | None
    """... and the account that it runs as."""

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """`fast` ends all sessions; `immediate` is a crash, from which the server recovers at its next start."""
        _run([*self.control, "-w", "-m", mode, "stop"], self.user)

    def start(self) -> None:
        _run([*self.control, "-w", "-o", self.options, "start"], self.user)

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        _run([*self.control, "-w", "-m", mode, "restart"], self.user)

    def new_database(self, like: str = "template1") -> str:
        """Returns the name of a new empty database, or of a copy."""
        name = f"test_{next(_names)}"
        with psycopg.connect(f"host={self.socket_folder} user=muster dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like} STRATEGY FILE_COPY")
        return name

    def url(self, name: str) -> str:
        return f"postgresql://muster@/{name}?host={self.socket_folder}"


@contextmanager
def postgres_server(address: str = "", port: int = 5432) -> Iterator[PostgresServer]:
    """Runs in its own directory and listens on a socket there, and at an address if one is given. Skips the test if
    PostgreSQL cannot run."""
    programs = installed_programs()
    # A short path: sockets have a length limit, and pytest's directories come close to it.
    folder = Path(mkdtemp(prefix="pg-", dir="/tmp"))
    user = _account()
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        _run([programs / "initdb", "-D", folder / "data", "-U", "muster", "-A", "trust", "-E", "UTF8", "-N"], user)
        settings = {
            "listen_addresses": address or "''",
            "port": port,
            "max_connections": 200,
            "fsync": "off",
            "full_page_writes": "off",
            "wal_level": "minimal",
            "max_wal_senders": 0,
        }
        if address:
            with (folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all muster 0.0.0.0/0 trust\n")
        options = " ".join([f"-k {folder}", *(f"-c {name}={value}" for name, value in settings.items())])
        control = [programs / "pg_ctl", "-D", folder / "data", "-l", folder / "log"]
        server = PostgresServer(folder, control, options, user)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)


def migrated(url: str) -> None:
    """Creates the tables."""

    async def open_and_close() -> None:
        (await Database.open(url)).close()

    with asyncio.Runner() as runner:
        runner.run(open_and_close())


def installed_programs() -> Path:
    found = _installed()
    if found is None:
        done = subprocess.run([_INSTALL, "postgresql"], capture_output=True, text=True, check=False)
        found = _installed()
        if found is None:
            pytest.skip(f"no PostgreSQL: {done.stderr.strip() or 'the package brought no initdb'}")
    return found


def _installed() -> Path | None:
    there = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    named = shutil.which("initdb")
    return there[-1].parent if there else Path(named).parent if named else None


def _account() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _run(command: Sequence[object], user: pwd.struct_passwd | None) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd="/",
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else [],
    )
    assert done.returncode == 0, done.stderr
