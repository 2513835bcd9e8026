"""Keeps Python's cyclic garbage collector from walking every stored object again and again."""

from __future__ import annotations

import asyncio
import gc

from muster.embedded.store.history import Change
from muster.embedded.store.store import Store


class GcTuner:
    """Changes garbage collection for the whole process until `run` is cancelled. For server processes only."""

    def __init__(self, store: Store, *, every: int = 5_000, full_collection_seconds: float = 3600.0) -> None:
        self._store = store
        self._every = every
        self._full_collection_seconds = full_collection_seconds
        self._changes = 0

    async def run(self) -> None:
        before = gc.get_threshold()
        gc.set_threshold(50_000, 20, 100)
        gc.freeze()  # Objects from start-up stay. Searching them for garbage would only delay the first request.
        stop = self._store.listen(self._changed)
        try:
            while True:
                await asyncio.sleep(self._full_collection_seconds)
                gc.unfreeze()
                self._freeze()
        finally:
            stop()
            gc.set_threshold(*before)
            gc.unfreeze()

    def _changed(self, resource: str, change: Change) -> None:
        self._changes += 1
        if self._changes == self._every:
            # Not here: watchers still wait for the changes of this commit.
            asyncio.get_running_loop().call_soon(self._freeze)

    def _freeze(self) -> None:
        self._changes = 0
        gc.collect()
        gc.freeze()
