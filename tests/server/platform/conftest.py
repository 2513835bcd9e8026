from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from muster.platform.database.database import Database
from muster.platform.users import credentials
from tests.platform.fixtures import *  # noqa: F403 (fixtures are found by their names here)
from tests.server.platform import served as served_platform
from tests.server.platform.served import Served, serving


@pytest.fixture(autouse=True)
def little_effort_for_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash takes 0.2 seconds of a core on purpose. tests/platform/users and tests/security use the real effort."""
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr(credentials, "_hasher", hasher)
    monkeypatch.setattr(credentials, "_NOBODY", hasher.hash("nobody"))
    monkeypatch.setattr(served_platform, "_hash", "")


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """The platform's API on a real socket, with the account of the first admin and no others."""
    async with serving(database, tmp_path / "home") as running:
        yield running
