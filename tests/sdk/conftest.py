from __future__ import annotations

from tests.server.platform.conftest import *  # noqa: F403 (fixtures are found by their names here)
