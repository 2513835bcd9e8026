"""The indexes of an Indexed Job, as its status writes them."""

from __future__ import annotations

from collections.abc import Iterable


def compress(indexes: Iterable[int]) -> str:
    """[0, 1, 2, 5] -> '0-2,5', as completedIndexes is written."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def expand(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
