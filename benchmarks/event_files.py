"""The reader of event files against TensorBoard's own loader (without TensorFlow), on the same file.

    python -m benchmarks.event_files [--steps 100000] [--rounds 3]

The file is written by tensorboard's writer. The CPU time of the best of some
rounds counts, and what counts is the ratio. A second line shows what a file with images costs, which our reader skips.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from muster.workspaces.event_files import read_events
from muster.workspaces.metric_series import Series, add_scalars

ROOT = Path(__file__).parents[1]
FOLDER = "benchmarks/programs/tensorboard"
GOAL = 2.0
"""How many times faster than TensorBoard's loader."""
_BLOCK = 2 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    made = subprocess.run([ROOT / "scripts" / "environment", FOLDER], cwd=ROOT, capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"the environment of {FOLDER} could not be made: {made.stderr.strip()[-300:]}")
    program = [f"{made.stdout.strip()}/python", str(ROOT / FOLDER / "events.py")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*program, "write", folder, str(options.steps)], check=True)
        ratios = []
        for name in ("simple", "tensor"):
            (file,) = Path(folder, name).iterdir()
            theirs = min(_read_theirs(program, file) for _ in range(options.rounds))
            ours = min(_read_ours(file, options.steps) for _ in range(options.rounds))
            ratios.append(theirs / ours)
            size = file.stat().st_size / 1e6
            print(
                f"{name}: {options.steps} scalars, {size:.1f} MB: ours {ours:.2f} s, tensorboard {theirs:.2f} s, "
                f"{ratios[-1]:.1f} times faster, {options.steps / ours / 1000:.0f} thousand scalars a second"
            )
    if min(ratios) < GOAL:
        sys.exit(f"missed the goal: {GOAL} times faster")


def _read_theirs(program: list[str], file: Path) -> float:
    said = subprocess.run([*program, "read", str(file)], check=True, capture_output=True).stdout
    return float(json.loads(said)["seconds"])


def _read_ours(file: Path, steps: int) -> float:
    """As the server does: block by block, into series."""
    started = time.process_time()
    series: dict[str, Series] = {}
    tags: frozenset[str] = frozenset()
    offset = 0
    with file.open("rb") as opened:
        while True:
            opened.seek(offset)
            data = opened.read(_BLOCK)
            chunk = read_events(data, tags, offset)
            if not chunk.consumed:
                break
            offset, tags = offset + chunk.consumed, chunk.scalar_tags
            add_scalars(series, chunk.scalars, 500, 500_000)
    seconds = time.process_time() - started
    assert [each.count for each in series.values()] == [steps]
    return seconds


if __name__ == "__main__":
    main()
