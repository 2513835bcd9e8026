"""The output of a training, and whether the loss fell."""

from __future__ import annotations

import re

from tests.cli.commands import Muster

PATIENCE = 300.0


def trained(muster: Muster, *words: str) -> str:
    """Returns the output of `muster run` for a training that succeeded and whose loss fell."""
    out = muster("run", *words, timeout=PATIENCE).ok().out
    learned(out)
    return out


def learned(out: str) -> None:
    losses = [float(number) for number in re.findall(r"(?:step|round) +\d+ .*?loss (\d+\.\d+)", out)]
    assert len(losses) >= 2, out
    assert losses[-1] < losses[0], out


def said(out: str, pattern: str) -> list[str]:
    """Returns what the pattern captures in the lines of the Pods, in order."""
    return re.findall(pattern, out, re.MULTILINE)
