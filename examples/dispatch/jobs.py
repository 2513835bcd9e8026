"""The jobs of a small shop: train a model for every order, and praise the best one.

Where a model is trained is one setting, TRAIN_ON: local (this machine), cluster, aihc or timaker. Nothing else changes.
"""

from __future__ import annotations

import csv
import json
import math
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.dispatch import (
    AihcAdapter,
    ClusterAdapter,
    Container,
    Context,
    Dispatcher,
    DispatcherAdapter,
    Job,
    JobError,
    LocalAdapter,
    Mount,
    Resources,
    Retry,
    Spec,
    secret,
)
from muster.dispatch.timaker.adapter import TimakerAdapter
from muster.dispatch.timaker.task import TimakerFileSystemDataSource, TimakerTaskInfo

HERE = Path(__file__).parent.absolute()
DATA = Path(os.environ.get("SHOP_DATA", HERE / "data")).absolute()
TRAIN_ON = os.environ.get("TRAIN_ON", "local")


def aihc() -> DispatcherAdapter:
    """The shop's folder is on a PFS, which jobs mount under the same path."""

    def parse(job: Job, spec: Spec) -> Any:
        return {"datasources": [{"type": "pfs", "sourcePath": job.folder, "mountPath": job.folder}]}

    return AihcAdapter(
        os.environ["AIHC_ENDPOINT"], secret("env:AIHC_AK"), secret("env:AIHC_SK"), pool=os.environ["AIHC_POOL"],
        queue=os.environ["AIHC_QUEUE"], pfs_instance=os.environ["AIHC_PFS"], parsers={"train": parse},
    )  # fmt: skip


def timaker() -> DispatcherAdapter:
    """timaker mounts the job's folder at /opt/ml/code."""
    addr = os.environ["TIMAKER_ADDR"]

    def parse(job: Job) -> TimakerTaskInfo:
        mount = os.environ.get("TIMAKER_MOUNT", "/opt/ml/code")
        return TimakerTaskInfo(
            host=os.environ["TIMAKER_HOST"], addr=addr, uin=os.environ["TIMAKER_UIN"],
            secret_id=secret("env:TIMAKER_ID"), secret_key=secret("env:TIMAKER_KEY"),
            start_cmd=f"python3 {mount or job.folder}/train.py",
            file_system_option=TimakerFileSystemDataSource("nas", job.folder),
        )  # fmt: skip

    return TimakerAdapter({"train": parse}, app_group=int(os.environ["TIMAKER_APP_GROUP"]))


def cluster() -> DispatcherAdapter:
    """The shop's folder is on a claim that this program and the Pods share."""
    claim = os.environ.get("SHOP_CLAIM")
    folder = Mount("", "jobs", "claim", claim) if claim else Mount("", "", "hostpath")
    return ClusterAdapter(os.environ.get("KUBECONFIG"), os.environ.get("NAMESPACE", "default"), folder=folder)


PLACES: dict[str, Callable[[], DispatcherAdapter]] = {"cluster": cluster, "aihc": aihc, "timaker": timaker}

dispatcher = Dispatcher(
    os.environ.get("DATABASE_URL", f"sqlite:///{DATA}/shop.db"),
    adapters=[LocalAdapter(), *([PLACES[TRAIN_ON]()] if TRAIN_ON in PLACES else [])],
    folder=DATA / "jobs",
    route={"train": TRAIN_ON},  # the only line that knows where
    limits={"train": 4},
)


@dispatcher.container("train", resources=Resources(cpu=1, memory="1Gi"), retry=Retry(1), check_every=5)
class Train(Container):
    """Everything a job needs is in its folder, so it does not matter on which machine it runs."""

    def prepare(self, ctx: Context) -> Spec:
        write_moons(ctx.folder / "data.csv", rows=int(ctx.job.args["rows"]), seed=int(ctx.job.args.get("seed", 7)))
        shutil.copy(HERE / "train.py", ctx.folder)
        (ctx.folder / "options.json").write_text(json.dumps({"rate": ctx.job.args.get("rate", 0.5)}))
        return Spec(image="python:3.11", command=("python3", f"{ctx.folder}/train.py"))

    def check(self, ctx: Context) -> None:
        if math.isnan(ctx.job.metrics.get("loss", 0.0)):
            raise JobError("Train.Diverged", "the loss is not a number any more: use a smaller rate", retryable=False)

    def submit(self, ctx: Context) -> dict[str, Any]:
        model = json.loads((ctx.folder / "model.json").read_text())
        return {"accuracy": model["accuracy"], "model": str(ctx.folder / "model.json")}


@dispatcher.function("praise", resources=Resources(cpu=0.1, memory="50Mi"))
def praise(ctx: Context, jobs: list[str]) -> str:
    """A local function. It runs after the jobs it compares."""
    found = {id: json.loads((ctx.folder.parent / id / "model.json").read_text())["accuracy"] for id in jobs}
    best = max(found, key=lambda id: found[id])
    ctx.report(1.0, f"compared {len(found)} models")
    return f"{best} is the best of {len(found)} models: {found[best]:.1%} of the rows it has never seen"


def write_moons(path: Path, rows: int, seed: int) -> None:
    """Writes points of two interleaved half circles."""
    dice = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        for _ in range(rows):
            moon, angle = dice.randrange(2), dice.uniform(0, math.pi)
            x, y = (math.cos(angle), math.sin(angle)) if moon == 0 else (1 - math.cos(angle), 0.5 - math.sin(angle))
            writer.writerow([f"{x + dice.gauss(0, 0.1):.4f}", f"{y + dice.gauss(0, 0.1):.4f}", moon])
