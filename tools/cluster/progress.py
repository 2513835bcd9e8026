"""Prints what is going on, its progress and how long it takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

SECONDS_BETWEEN_SIGNS = 15.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(what: str, doing: Callable[[], str] = str) -> Iterator[None]:
    """Prints when it starts, that it still runs (with the result of `doing`), and how long it took."""
    began = time.monotonic()
    over = Event()

    def signs() -> None:
        while not over.wait(SECONDS_BETWEEN_SIGNS):
            more = doing()
            say(f"  ... {what}: {time.monotonic() - began:.0f} s{f', {more}' if more else ''}")

    say(f"{what} ...")
    teller = Thread(target=signs, name="progress", daemon=True)
    teller.start()
    try:
        yield
    except BaseException:
        say(f"{what}: failed after {time.monotonic() - began:.1f} s")
        raise
    else:
        say(f"{what}: done in {time.monotonic() - began:.1f} s")
    finally:
        over.set()
        teller.join()
