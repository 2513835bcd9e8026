"""Programs of other projects, each in its own environment, which is created on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PREFECT = ("prefect>=3,<4", "fastapi<0.120")


def python_of(name: str, packages: tuple[str, ...]) -> str:
    """The interpreter with these packages; ours if there are none."""
    if not packages:
        return sys.executable
    folder = ROOT / ".environments" / f"peer-{name}"
    made, wanted = folder / "made", "\n".join(packages)
    if not made.exists() or made.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", *packages], check=True)
        made.write_text(wanted)
    return str(folder / "bin" / "python")
