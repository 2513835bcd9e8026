"""A wheel without the web UI would be half a wheel. Run `make ui` before building one: npm is no part of the build."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WithUi(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        page = Path(self.root) / "src/muster/server/platform/ui/index.html"
        if version == "editable" or page.exists() or os.environ.get("MUSTER_WITHOUT_UI"):
            return
        raise FileNotFoundError("the web UI is not built: run `make ui`, or set MUSTER_WITHOUT_UI=1 to go without")
