"""A shop whose dispatchers are killed: `python -m tests.chaos.dispatch_shop FOLDER local HOME` runs one, or
`... FOLDER cluster KUBECONFIG`.

Every program writes a line into its job's folder, so that a job that ran twice is seen. A tenth of the calls to the
local cluster fails: before it is carried out, after it (the answer is lost), or it is slow. A kubeconfig leads to a
cluster through a `FaultyProxy`, which does the same. There, functions see no folder: their results come back through
their Pods.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.dispatch import (
    Capacity,
    ClusterAdapter,
    Container,
    Context,
    Dispatcher,
    DispatcherAdapter,
    Job,
    JobDescription,
    Line,
    LocalAdapter,
    Mount,
    Resources,
    Spec,
    Transient,
    Unclear,
)

LEDGER = "ledger"
IMAGE = "python:3.11"
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


class RemoteProgram(Program):
    def prepare(self, ctx: Context) -> Spec:
        folder = str(ctx.folder)
        return replace(super().prepare(ctx), image=IMAGE, mounts=(Mount(folder, folder),))


def make_adapter(kind: str, place: Path, share: float = 0.1) -> DispatcherAdapter:
    if kind == "local":
        return FaultyAdapter(LocalAdapter(home=place), share)
    code = Path(__file__).parents[2]
    installed = [str(code), str(code / "src"), sysconfig.get_path("purelib")]  # what a real image would contain
    adapter = ClusterAdapter(place, env={"PYTHONPATH": os.pathsep.join(installed)})
    adapter.settle, adapter.poll_every = 0.2, 0.5
    return adapter


def make_dispatcher(folder: Path, kind: str, place: Path) -> Dispatcher:
    url = os.environ.get("SHOP_DATABASE") or f"sqlite:///{folder}/shop.db"
    dispatcher = Dispatcher(url, adapters=[make_adapter(kind, place)], folder=folder / "jobs", lease=3, interval=0.3)
    dispatcher.function("function", image="" if kind == "local" else IMAGE, resources=SMALL)(square)
    dispatcher.container("program", resources=SMALL)(Program if kind == "local" else RemoteProgram)
    return dispatcher


if __name__ == "__main__":
    make_dispatcher(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])).run()
