"""What a training printed, and whether it learned."""

from __future__ import annotations

import re

from tests.cli.commands import Muster

PATIENCE = 300.0


def trained(muster: Muster, *words: str) -> str:
    """What `muster run` printed of a training that ended well and whose loss fell."""
    out = muster("run", *words, timeout=PATIENCE).ok().out
    learned(out)
    return out


def learned(out: str) -> None:
    losses = [float(number) for number in re.findall(r"(?:step|round) +\d+ .*?loss (\d+\.\d+)", out)]
    assert len(losses) >= 2, out
    assert losses[-1] < losses[0], out


def said(out: str, pattern: str) -> list[str]:
    """What the Pods' lines say that match, in order of the lines."""
    return re.findall(pattern, out, re.MULTILINE)
