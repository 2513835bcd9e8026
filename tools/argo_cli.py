"""Builds the real `argo` command for the tests: `python -m tools.argo_cli` prints where it is. Needs Go."""

from __future__ import annotations

from dataclasses import replace

from tools.cluster.build import build, program
from tools.cluster.sources import ARGO

ARGO_CLI = replace(ARGO, programs={"argo": ARGO.programs["argo"]})

if __name__ == "__main__":
    build([ARGO_CLI])
    print(program(ARGO_CLI, "argo"))
