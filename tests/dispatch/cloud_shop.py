"""A shop whose jobs run on a loopback AIHC or timaker: `python -m tests.dispatch.cloud_shop FOLDER aihc|timaker URL`
runs one of its dispatchers.

The same job runs on both. Its program writes a line into the job's folder, so that a job that ran twice is seen.
"""

from __future__ import annotations

import sys
from pathlib import Path

from muster.dispatch import AihcAdapter, Container, Context, Dispatcher, DispatcherAdapter, Resources, Spec, secret
from muster.dispatch.model import Job, OnUnclear
from muster.dispatch.timaker.adapter import TimakerAdapter
from muster.dispatch.timaker.task import TimakerTaskInfo
from tests.dispatch import aihc_server, timaker_server

LEDGER = "ledger"


class Square(Container):
    """`args`: number; seconds that it runs; exit, its exit code."""

    def prepare(self, ctx: Context) -> Spec:
        args = ctx.job.args
        script = (
            f'echo ran >> "$FOLDER/{LEDGER}"; echo "working on {args["number"]}" | tee "$FOLDER/log";'
            f' sleep {args.get("seconds", 0)}; echo $(({args["number"]} * {args["number"]})) > "$FOLDER/square";'
            f" exit {args.get('exit', 0)}"
        )
        return Spec(image="shop/square:1", command=("bash", "-c", script), env={"FOLDER": str(ctx.folder)})

    def submit(self, ctx: Context) -> int:
        return int((ctx.folder / "square").read_text())


def make_adapter(kind: str, url: str, *, timeout: float = 3.0, on_unclear: OnUnclear = "hold") -> DispatcherAdapter:
    adapter: DispatcherAdapter
    if kind == "aihc":
        adapter = AihcAdapter(
            url, secret("env:AIHC_AK"), secret("env:AIHC_SK"), pool="aihc-serverless", queue="q-1", timeout=timeout,
            create_timeout=timeout, settle=0.2,
        )  # fmt: skip
    else:

        def parse(job: Job) -> TimakerTaskInfo:
            keys = secret("env:TIMAKER_ID"), secret("env:TIMAKER_KEY")
            return TimakerTaskInfo(timaker_server.HOST, url, *keys, uin=job.creator or "ann")

        adapter = TimakerAdapter(
            {"square": parse}, app_group=timaker_server.APP_GROUP, timeout=timeout, on_unclear=on_unclear
        )
    adapter.poll_every = 0.2
    return adapter


KEYS = {
    "AIHC_AK": aihc_server.AK,
    "AIHC_SK": aihc_server.SK,
    "TIMAKER_ID": timaker_server.SECRET_ID,
    "TIMAKER_KEY": timaker_server.SECRET_KEY,
}


def make_dispatcher(folder: Path, adapter: DispatcherAdapter) -> Dispatcher:
    dispatcher = Dispatcher(
        f"sqlite:///{folder}/shop.db", adapters=[adapter], folder=folder / "jobs", lease=3, interval=0.2, lost_after=5
    )
    dispatcher.container("square", resources=Resources(cpu=1, memory="1Gi"), hook_timeout=60)(Square)
    return dispatcher


if __name__ == "__main__":
    make_dispatcher(Path(sys.argv[1]), make_adapter(sys.argv[2], sys.argv[3])).run()
