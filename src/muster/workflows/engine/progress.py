"""`progress`: how many of how many, as text."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[int, int] | None:
    """(done, all), or nothing if the text is no progress."""
    done, _, total = text.partition("/")
    if not (done.isdecimal() and total.isdecimal()):
        return None
    n, m = int(done), int(total)
    return (n, m) if n <= m and m > 0 else None


def complete(text: str) -> str:
    parsed = parse(text)
    return f"{parsed[1]}/{parsed[1]}" if parsed else text
