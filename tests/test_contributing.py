"""The table "Where do I change X?" of CONTRIBUTING.md, and the tests that docs/conformance.md names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACEHOLDER = re.compile(r"NAME|AREA|NNNN")


def test_every_file_in_the_table_exists() -> None:
    rows = [row for row in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if row.startswith("| add ")]
    assert len(rows) >= 16
    missing = [path for row in rows for path in _paths(row) if not _exists(path)]
    assert missing == []


def test_every_test_that_the_page_of_conformance_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "conformance.md").read_text())
    assert len(named) >= 50
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"def {name}\(", (ROOT / "tests" / path).read_text())
    ]
    assert missing == []


def _paths(row: str) -> list[str]:
    """The paths of a row. A bare file name is in the folder of the path before it."""
    paths: list[str] = []
    for word in re.findall(r"`([^`\s]+)`", row):
        if "/" in word:
            paths.append(word)
        elif word.endswith(".py"):
            folder = paths[-1] if paths[-1].endswith("/") else paths[-1].rpartition("/")[0] + "/"
            paths.append(folder + word)
    return paths


def _exists(path: str) -> bool:
    if found := PLACEHOLDER.search(path):
        path = path[: found.start()].rpartition("/")[0]
    return any((root / path).exists() for root in (ROOT, ROOT / "src" / "muster"))
