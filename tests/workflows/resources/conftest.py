"""A cluster, and the leaves of resource templates at work on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with asyncio.timeout(60), EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        yield cluster
