"""`progress` of nodes as text: `done/total`."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[int, int] | None:
    """Returns (done, total), or None if the text is not a progress."""
    done, _, total = text.partition("/")
    if not (done.isdecimal() and total.isdecimal()):
        return None
    n, m = int(done), int(total)
    return (n, m) if n <= m and m > 0 else None


def complete(text: str) -> str:
    parsed = parse(text)
    return f"{parsed[1]}/{parsed[1]}" if parsed else text
