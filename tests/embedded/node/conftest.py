from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.embedded.node.harness import Node


@pytest.fixture
def new_node(tmp_path: Path) -> Callable[..., Node]:
    """For tests that start and stop the node themselves."""
    return lambda **settings: Node(tmp_path, **settings)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    found = Node(tmp_path, backoff_base=0.1, backoff_max=0.4)
    await found.start()
    yield found
    await found.clean_up()
