"""`make bench` runs every benchmark, and each one says what it measures."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text())
NEEDS_A_CLUSTER = {"cluster_platform"}
"""Run by hand, because they need a cluster with all parts, for a long time."""
PARTS = {"prefect_lists"}
"""Programs that another benchmark starts."""


def test_make_bench_runs_every_benchmark() -> None:
    found = re.search(r"^BENCHES := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    assert {*found[1].split()} == {*PROGRAMS} - NEEDS_A_CLUSTER - PARTS


@pytest.mark.parametrize("program", sorted({*PROGRAMS} - PARTS))
def test_help_says_how_to_run_it(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    monkeypatch.delitem(sys.modules, f"benchmarks.{program}", raising=False)  # another one imports it
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{program}", run_name="__main__")
    assert ended.value.code == 0
    assert f"python -m benchmarks.{program}" in capsys.readouterr().out
