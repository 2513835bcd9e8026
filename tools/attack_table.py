"""Writes the table of attacks in docs/security.md from the tests in tests/security.

    python -m tools.attack_table [--check]

One case of a test is one attack. Its text is the first line of the docstring and, for a table of cases, the id of
the case. With `--check`, nothing is written, and the exit code is 1 if the document is out of date.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- attacks: begin (python -m tools.attack_table) -->", "<!-- attacks: end -->"


class Attack(NamedTuple):
    area: str
    text: str
    test: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the document is up to date")
    check = parser.parse_args().check
    before = DOCUMENT.read_text()
    after = replace_table(before, to_markdown(collect()))
    if before == after:
        return 0
    if check:
        print(f"{DOCUMENT.relative_to(ROOT)} is out of date: run python -m tools.attack_table", file=sys.stderr)
        return 1
    DOCUMENT.write_text(after)
    return 0


def collect() -> list[Attack]:
    """Returns the cases that pytest finds in tests/security, in its order."""
    found = list[Attack]()

    class Collector:
        def pytest_collection_finish(self, session: pytest.Session) -> None:
            found.extend(describe(item) for item in session.items if isinstance(item, pytest.Function))

    printed = io.StringIO()
    folder = str(ROOT / "tests" / "security")
    options = ["--collect-only", "-q", "--rootdir", str(ROOT), "-m", "", "-p", "no:cacheprovider", folder]
    with contextlib.redirect_stdout(printed):
        code = pytest.main(options, plugins=[Collector()])
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"pytest could not collect the tests:\n{printed.getvalue()}")
    return found


def describe(item: pytest.Function) -> Attack:
    name, _, case = item.name.partition("[")
    case = re.sub(r"-?\b(sqlite|postgres)$", "", case.removesuffix("]"))
    said = (item.function.__doc__ or "").strip().split("\n")[0].rstrip(".")
    if not said and not case:
        said = name.removeprefix("test_").replace("_", " ").capitalize()
    return Attack(item.path.stem.removeprefix("test_"), ": ".join(filter(None, (said, case))), name)


def to_markdown(attacks: Iterable[Attack]) -> str:
    rows = list(attacks)
    lines = [f"{len(rows)} cases.", ""]
    for area in dict.fromkeys(attack.area for attack in rows):
        lines += [f"### `tests/security/test_{area}.py`", "", "| attack | test |", "| --- | --- |"]
        lines += [f"| {_cell(attack.text)} | `{attack.test}` |" for attack in rows if attack.area == area]
        lines.append("")
    return "\n".join(lines)


def replace_table(document: str, table: str) -> str:
    start, end = document.index(BEGIN) + len(BEGIN), document.index(END)
    return f"{document[:start]}\n\n{table}\n{document[end:]}"


def _cell(text: str) -> str:
    """Escapes what would end the cell, and control characters of hostile values."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return re.sub(r"([|<>`*_\\])", r"\\\1", shown if len(shown) <= 200 else f"{shown[:199]}…")


if __name__ == "__main__":
    sys.exit(main())
