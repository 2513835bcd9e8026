from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.dispatch import Dispatcher, DispatcherAdapter, Retry
from tests.chaos.real_server import RealServer
from tests.dispatch import shop
from tests.platform.databases import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
def new_dispatcher(tmp_path: Path) -> Iterator[Callable[..., Dispatcher]]:
    """Creates dispatchers with the jobs of `shop`, which do not run yet."""
    made: list[Dispatcher] = []

    def make(*adapters: DispatcherAdapter, url: str = f"sqlite:///{tmp_path}/shop.db", **options: Any) -> Dispatcher:
        dispatcher = Dispatcher(url, adapters=adapters, folder=tmp_path / "jobs", **{"interval": 0.05, **options})
        dispatcher.function("add")(shop.add)
        dispatcher.function("fail")(shop.fail)
        dispatcher.function("fail-twice", retry=Retry(2, backoff=0.01))(shop.fail_twice)
        dispatcher.container("train", check_every=0.05, hook_timeout=20)(shop.Train)
        dispatcher.container("impatient", check_every=0.05, hook_timeout=1)(shop.Train)
        made.append(dispatcher)
        return dispatcher

    yield make
    for dispatcher in made:
        dispatcher.close()


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """An embedded cluster for all tests of a process."""
    server = RealServer(tmp_path_factory.mktemp("box") / "home")
    asyncio.run(server.start())
    yield server
    server.end()
