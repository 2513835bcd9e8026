"""Threads for blocking artifact work. No namespace can occupy them all, nor those that the rest of the server uses."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THREADS, _PER_NAMESPACE = 16, 4


class ArtifactThreads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="artifacts")
        self._gates: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_PER_NAMESPACE))

    async def run(self, namespace: str, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        async with self._gates[namespace]:
            work = partial(function, *arguments, **options)
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
