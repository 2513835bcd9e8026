from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from muster.kube.builtin import POD
from muster.kube.objects import name_of
from tests.embedded.node.harness import Node
from tests.embedded.waiting import wait_until


@pytest.fixture
def new_node(tmp_path: Path) -> Callable[..., Node]:
    """For tests that start and stop the node themselves."""
    return lambda **settings: Node(tmp_path, **settings)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    found = Node(tmp_path, backoff_base=0.1, backoff_max=0.4)
    await found.start()
    yield found
    for pod in (await found.cluster.list(POD)).items:
        await found.cluster.delete(POD, name_of(pod), "default", grace_seconds=0)
    await wait_until(lambda: not any(found.settings.pods.iterdir()))
    await found.stop()
