from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.server.kubernetes.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A cluster and its API on the loopback interface."""
    async with serving(tmp_path) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One server for all tests of a module that only read, marked with `on_standing`."""
    async with serving(tmp_path_factory.mktemp("standing")) as running:
        yield running
