from __future__ import annotations

from tests.platform.fixtures import *  # noqa: F403 (fixtures are found by their names here)
