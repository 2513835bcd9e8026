"""A shop whose dispatchers are killed: `python -m tests.chaos.dispatch_shop FOLDER HOME` runs one.

Every job writes a line into its folder, so that a job that ran twice is seen. A tenth of the calls to the cluster
fails: before it is carried out, after it (the answer is lost), or it is slow.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.dispatch import (
    Capacity,
    Container,
    Context,
    Dispatcher,
    DispatcherAdapter,
    Job,
    JobDescription,
    Line,
    LocalAdapter,
    Resources,
    Spec,
    Transient,
    Unclear,
)

LEDGER = "ledger"
SMALL = Resources(cpu=0.05, memory="50Mi")
_SCRIPT = f"import sys; open(sys.argv[1] + '/{LEDGER}', 'a').write('ran\\n')"


class FaultyAdapter(DispatcherAdapter):
    """Another adapter, through a bad network."""

    functions = True
    settle = 0.2
    poll_every = 0.5

    def __init__(self, inner: DispatcherAdapter, share: float) -> None:
        self.name, self.finds, self._inner, self._share = inner.name, inner.finds, inner, share

    async def capacity(self) -> Capacity | None:
        await self._disturb()
        return await self._inner.capacity()

    async def start(self, job: Job, spec: Spec, name: str) -> str:
        await self._disturb()
        external_id = await self._inner.start(job, spec, name)
        if random.random() < self._share:
            raise Unclear("the answer was lost")
        return external_id

    async def find(self, job: Job, name: str) -> str | None:
        await self._disturb()
        return await self._inner.find(job, name)

    async def describe(self, jobs: Sequence[Job]) -> Mapping[str, JobDescription]:
        await self._disturb()
        return await self._inner.describe(jobs)

    async def stop(self, job: Job, grace: float) -> None:
        await self._disturb()
        await self._inner.stop(job, grace)

    async def release(self, job: Job) -> None:
        await self._disturb()
        await self._inner.release(job)

    def logs(self, job: Job, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        return self._inner.logs(job, follow=follow, tail=tail)

    def request(self, job: Job, spec: Spec, name: str) -> Mapping[str, Any]:
        return self._inner.request(job, spec, name)

    async def changed(self) -> None:
        await self._inner.changed()

    async def close(self) -> None:
        await self._inner.close()

    async def _disturb(self) -> None:
        if random.random() < self._share:
            if random.random() < 0.5:
                raise Transient("500 Internal Server Error")
            await asyncio.sleep(random.uniform(0.1, 1.0))


def square(ctx: Context, number: int) -> int:
    with (ctx.folder / LEDGER).open("a") as file:
        file.write("ran\n")
    return number * number


class Program(Container):
    def prepare(self, ctx: Context) -> Spec:
        return Spec(command=(sys.executable, "-c", _SCRIPT, str(ctx.folder)))

    def submit(self, ctx: Context) -> int:
        return int(ctx.job.args["number"]) ** 2


def make_dispatcher(folder: Path, adapter: DispatcherAdapter, share: float = 0.1) -> Dispatcher:
    url = os.environ.get("SHOP_DATABASE") or f"sqlite:///{folder}/shop.db"
    dispatcher = Dispatcher(
        url, adapters=[FaultyAdapter(adapter, share)], folder=folder / "jobs", lease=3, interval=0.3
    )
    dispatcher.function("function", resources=SMALL)(square)
    dispatcher.container("program", resources=SMALL)(Program)
    return dispatcher


if __name__ == "__main__":
    make_dispatcher(Path(sys.argv[1]), LocalAdapter(home=sys.argv[2])).run()
