"""A cluster per test, with real SQLite in a temporary folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.garbage import CrdController, GarbageCollector, NamespaceController
from muster.kube.builtin import new_catalogue


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """The API without controllers."""
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        yield cluster


@pytest.fixture
async def tidy_cluster(cluster: EmbeddedCluster) -> AsyncIterator[EmbeddedCluster]:
    """With the controllers that delete objects."""
    controllers = GarbageCollector(cluster), NamespaceController(cluster), CrdController(cluster)
    tasks = [asyncio.create_task(controller.run()) for controller in controllers]
    yield cluster
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
