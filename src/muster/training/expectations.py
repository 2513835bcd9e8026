"""What a controller has made or written and no informer has shown yet.

Until one does, there is no use in looking: a Pod would seem to be missing, a status to be as it was. Should the news
get lost, a look a while later does no harm: what exists is not made twice, and what has changed is not written over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

PATIENCE = 5.0


class _Expected(NamedTuple):
    things: set[str]
    until: float


class Expectations(Generic[K]):
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expected: dict[K, _Expected] = {}

    def expect(self, key: K, what: str) -> None:
        known = self._expected.get(key)
        self._expected[key] = _Expected({*(known.things if known else ()), what}, self._clock() + PATIENCE)

    def seen(self, key: K, what: str) -> None:
        expected = self._expected.get(key)
        if expected is not None:
            expected.things.discard(what)

    def patience(self, key: K) -> float:
        """Seconds for which it is still worth waiting; 0 if nothing is missing, or no longer waited for."""
        expected = self._expected.get(key)
        left = expected.until - self._clock() if expected is not None and expected.things else 0.0
        if left <= 0:
            self._expected.pop(key, None)
            return 0.0
        return left

    def forget(self, key: K) -> None:
        self._expected.pop(key, None)
