from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.real_server import RealServer


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One for all tests of a module, which must leave it as good as they have found it."""
    server = RealServer(tmp_path_factory.mktemp("shared") / "home")
    asyncio.run(server.start())
    yield server
    server.end()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., RealServer]]:
    """Makes servers with settings of their own; nothing of them is left behind."""
    made: list[RealServer] = []

    def make(home: Path = tmp_path / "home", **config: Any) -> RealServer:
        made.append(RealServer(home, **config))
        return made[-1]

    yield make
    for server in made:
        server.end()
