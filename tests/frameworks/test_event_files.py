"""Event files of the real writers: our reader finds what TensorBoard's own loader finds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from muster.workspaces.event_files import Restart, Scalar, read_events
from tests.frameworks.conftest import environment_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FOLDER = "benchmarks/programs/tensorboard"
STEPS = 500


@pytest.mark.smoke
def test_our_reader_agrees_with_tensorboard(tmp_path: Path) -> None:
    program = [f"{environment_of(FOLDER)}/python", str(Path(FOLDER).absolute() / "events.py")]
    subprocess.run([*program, "write", str(tmp_path), str(STEPS)], check=True, timeout=120)
    counts = {}
    for file in sorted(tmp_path.rglob("*tfevents*")):
        said = subprocess.run([*program, "read", str(file)], check=True, capture_output=True, timeout=120).stdout
        expected = [Scalar(*each) for each in json.loads(said)["scalars"]]
        data = file.read_bytes()
        chunk = read_events(data)
        assert (chunk.problem, chunk.consumed) == ("", len(data))
        assert repr(chunk.scalars) == repr(expected), "NaN is not equal to itself, but its text is"
        counts[file.parent.name] = (len(chunk.scalars), chunk.skipped, chunk.restarts)
    assert counts == {
        "restart": (25, 0, [Restart(10, 2e9)]),
        "simple": (STEPS, 0, []),
        "tensor": (STEPS, 1, []),
        "tensorboardx": (STEPS, 0, []),
    }
