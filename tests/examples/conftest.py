from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Muster


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    """A `muster` with the examples at hand. No cluster runs unless the test starts one."""
    command = Muster(tmp_path / "home", tmp_path)
    command.home.mkdir()
    (tmp_path / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    yield command
    if command("get", "nodes").code == 0:
        for kind in ("paddlejobs.batch.paddlepaddle.org", "tfjobs", "pods"):
            command("delete", kind, "--all", "--now")
    command.end()
    command("down").ok()
