"""Real frameworks: their environments are created once, in the same way as for the examples, and used through
`muster run`."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Muster

ROOT = Path(__file__).parents[2]
Prepare = Callable[..., Muster]


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    command = Muster(tmp_path / "home", ROOT)
    command.home.mkdir()
    yield command
    command.end()
    command("down")


@pytest.fixture
def prepared(muster: Muster) -> Prepare:
    """`prepared("xgboost")`: a `muster` whose settings map the image of that example to its environment."""

    def prepare(example: str, *, folder: str = "examples/training", environment: str = "", more: str = "") -> Muster:
        programs = environment_of(environment or f"{folder}/{example}")
        settings = (
            f'images:\n  "muster-examples/{example}*":\n    path: [{programs}]\n'
            f"    workingDir: {ROOT}/{folder}/{example}\n    env: {{OMP_NUM_THREADS: '1'}}\n{more}"
        )
        (muster.home / "config.yaml").write_text(settings)
        return muster

    return prepare


def environment_of(folder: str) -> str:
    """The directory of its programs. Tests in other processes may create it at the same time."""
    lock = ROOT / ".environments" / f"{Path(folder).name}.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        made = subprocess.run(
            [ROOT / "scripts" / "environment", folder], cwd=ROOT, capture_output=True, text=True, timeout=600
        )
    if made.returncode:
        pytest.fail(f"scripts/environment {folder} could not make the environment: {made.stderr.strip()[-300:]}")
    return made.stdout.strip()
