from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.real_server import RealServer


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One server for all tests of a module. A test must leave it as it found it."""
    server = RealServer(tmp_path_factory.mktemp("shared") / "home")
    asyncio.run(server.start())
    yield server
    server.end()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., RealServer]]:
    """Creates servers, each with its own settings. They are removed after the test."""
    made: list[RealServer] = []

    def make(home: Path = tmp_path / "home", **config: Any) -> RealServer:
        made.append(RealServer(home, **config))
        return made[-1]

    yield make
    for server in made:
        server.end()
