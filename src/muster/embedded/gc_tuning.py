"""Keeps Python's cyclic garbage collector from walking every stored object again and again."""

from __future__ import annotations

import asyncio
import gc

from muster.embedded.store.history import Change
from muster.embedded.store.store import Store


class GcTuner:
    """For the one process a server has: it changes how the whole process collects, until `run` is cancelled."""

    def __init__(self, store: Store, *, every: int = 5_000, full_look_seconds: float = 3600.0) -> None:
        self._store = store
        self._every = every
        self._full_look = full_look_seconds
        self._changes = 0

    async def run(self) -> None:
        before = gc.get_threshold()
        gc.set_threshold(50_000, 20, 100)
        gc.freeze()  # What start-up has made stays; to look for garbage in it would only delay the first request.
        stop = self._store.listen(self._changed)
        try:
            while True:
                await asyncio.sleep(self._full_look)
                gc.unfreeze()
                self._set_aside()
        finally:
            stop()
            gc.set_threshold(*before)
            gc.unfreeze()

    def _changed(self, resource: str, change: Change) -> None:
        self._changes += 1
        if self._changes == self._every:
            # Not from here: the changes of this commit still wait to be told to everybody.
            asyncio.get_running_loop().call_soon(self._set_aside)

    def _set_aside(self) -> None:
        self._changes = 0
        gc.collect()
        gc.freeze()
