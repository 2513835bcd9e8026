from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Muster


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    """No cluster runs unless the test starts one."""
    command = Muster(tmp_path / "home", tmp_path)
    yield command
    command.end()
    command("down").ok()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """A cluster that all tests of a module share."""
    folder = tmp_path_factory.mktemp("cluster")
    command = Muster(folder / "home", folder)
    command("up", "-d").ok()
    yield command
    command("delete", "jobs,pods", "--all", "-A", "--grace-period=1", "--timeout=30s")
    command.end()
    command("down").ok()
