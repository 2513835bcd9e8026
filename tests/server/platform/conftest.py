from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.platform.database.database import Database
from tests.platform.fixtures import *  # noqa: F403 (fixtures are found by their names here)
from tests.server.platform.served import Served, serving


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """The platform's API on a real socket, with the account of the first admin and no others."""
    async with serving(database, tmp_path / "home") as running:
        yield running
