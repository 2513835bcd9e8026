from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.argo.served import Argo, serving


@pytest.fixture
async def argo(tmp_path: Path) -> AsyncIterator[Argo]:
    async with serving(tmp_path) as served, served.session() as session:
        yield Argo(served, session)
