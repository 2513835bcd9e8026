"""The images that the form offers: each is installed as users get it, and its frameworks compute in a kernel. What they
log is shown by the real TensorBoard."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.kube.builtin import POD
from muster.kube.events import EventRecorder
from muster.kube.objects import annotations_of
from muster.platform.database.database import sqlite_url
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from muster.workspaces.addresses import Upstream, find_upstream
from muster.workspaces.culler import Culler
from muster.workspaces.images import DEFAULT_IMAGES, WorkspaceSettings
from muster.workspaces.kinds import (
    CULL_IDLE_ANNOTATION,
    LAST_ACTIVITY_ANNOTATION,
    NOTEBOOK,
    STOP_ANNOTATION,
    TENSORBOARD,
)
from tests.frameworks.conftest import ROOT
from tests.server.platform.whole import Whole, eventually
from tests.workspaces.test_real_servers import connect, execute, until_running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

_HOME = ROOT / ".environments" / "notebooks"
_NAMESPACE = "user-ann"

MINIMAL = """
import numpy, pandas, matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
pyplot.plot(pandas.Series(numpy.arange(4)))
pyplot.savefig("plot.png")
import pathlib
print("drawn", pathlib.Path("plot.png").stat().st_size > 1000)
"""
XGBOOST = """
from lightgbm import LGBMClassifier
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier
data = train_test_split(*make_moons(800, noise=0.1, random_state=0), random_state=0)
for model in (XGBClassifier(n_estimators=20, n_jobs=1), LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1)):
    model.fit(data[0], data[2])
    print(type(model).__name__, model.score(data[1], data[3]) > 0.9)
"""
PYTORCH = """
import torch, torchvision
from torch.utils.tensorboard import SummaryWriter
torch.manual_seed(0)
x = torch.randn(200, 3)
y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
model, writer = torch.nn.Linear(3, 1), SummaryWriter("logs/first")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(50):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    writer.add_scalar("train/loss", loss.item(), step)
writer.close()
print("learned", loss.item() < 0.1)
"""
TENSORFLOW = """
import numpy, tensorflow as tf
tf.keras.utils.set_random_seed(0)
x = numpy.random.default_rng(0).normal(size=(200, 3)).astype("float32")
y = x @ numpy.array([[1.0], [-2.0], [0.5]], "float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.1), "mse")
seen = model.fit(x, y, epochs=5, verbose=0, callbacks=[tf.keras.callbacks.TensorBoard("logs/first")])
print("learned", seen.history["loss"][-1] < 0.1)
"""
PADDLE = """
import paddle
paddle.seed(0)
x = paddle.randn([200, 3])
y = x @ paddle.to_tensor([[1.0], [-2.0], [0.5]])
model = paddle.nn.Linear(3, 1)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for step in range(50):
    loss = paddle.nn.functional.mse_loss(model(x), y)
    loss.backward(); optimizer.step(); optimizer.clear_grad()
print("learned", float(loss) < 0.1)
"""
PROGRAMS = {
    # image: program, what it prints, the scalar that it logs
    "minimal": (MINIMAL, "drawn True\n", ""),
    "pytorch": (PYTORCH, "learned True\n", "train/loss"),
    "tensorflow": (TENSORFLOW, "learned True\n", "epoch_loss"),
    "paddle": (PADDLE, "learned True\n", ""),
    "xgboost": (XGBOOST, "XGBClassifier True\nLGBMClassifier True\n", ""),
}


@pytest.fixture
async def muster(tmp_path: Path) -> AsyncIterator[Whole]:
    """A Muster with a member, that finds the environments of earlier runs: they are gigabytes."""
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME.parent / "notebooks.lock").open("w") as held:
        await asyncio.to_thread(fcntl.flock, held, fcntl.LOCK_EX)
        for each in _HOME.iterdir():
            if each.name != "workspace-environments":
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        config = {"durability": "process", "web": {"port": 0}, "database": sqlite_url(tmp_path / "platform.db")}
        async with run_server(read_settings(_HOME, config), web=True) as server:
            yield Whole(server.info.web, _HOME, server.cluster)


def test_every_image_has_a_program() -> None:
    assert PROGRAMS.keys() == {image.name for image in DEFAULT_IMAGES}


@pytest.mark.parametrize("image", PROGRAMS)
async def test_its_frameworks_compute_in_a_kernel(muster: Whole, image: str) -> None:
    program, printed, tag = PROGRAMS[image]
    ann = await muster.member("ann")
    await ann.post("notebooks", {"name": "lab", "image": image, "home_size": "1Gi"})
    await until_running(ann, f"notebooks/{_NAMESPACE}/lab")
    async with connect(await upstream_of(muster, NOTEBOOK, "lab")) as session:
        assert (await execute(session, program)).endswith(printed)
    if tag:
        board = await ann.post("tensorboards", {"notebook": {"namespace": _NAMESPACE, "name": "lab"}})
        await until_running(ann, f"tensorboards/{_NAMESPACE}/{board['name']}")
        async with connect(await upstream_of(muster, TENSORBOARD, board["name"])) as session, asyncio.timeout(120):
            shown: dict[str, Any] = {}
            while not any(tag in tags for tags in shown.values()):
                async with session.get("/data/plugin/scalars/tags") as response:
                    shown = await response.json()
        await cull(muster, board["name"])
        assert (await ann("DELETE", f"tensorboards/{_NAMESPACE}/{board['name']}")).status == 204
    assert (await ann("DELETE", f"notebooks/{_NAMESPACE}/lab")).status == 204

    async def are_gone() -> bool:
        return not (await muster.cluster.list(POD, _NAMESPACE)).items

    await eventually(are_gone)


async def cull(muster: Whole, board: str) -> None:
    """A board that was used a moment ago stays; one that was not used for as long as it may be idle is stopped."""
    for minutes, is_stopped in ((60, False), (0.001, True)):
        note = {"metadata": {"annotations": {CULL_IDLE_ANNOTATION: str(minutes)}}}
        await muster.cluster.patch(TENSORBOARD, board, _NAMESPACE, note)
        async with aiohttp.ClientSession() as session:
            recorder = EventRecorder(muster.cluster, "culler")
            await Culler(muster.cluster, recorder, WorkspaceSettings(), kinds=[TENSORBOARD]).look(session)
        notes = annotations_of(await muster.cluster.get(TENSORBOARD, board, _NAMESPACE))
        assert LAST_ACTIVITY_ANNOTATION in notes
        assert (STOP_ANNOTATION in notes) == is_stopped


async def upstream_of(muster: Whole, kind: Any, name: str) -> Upstream:
    upstream = await find_upstream(muster.cluster, kind, _NAMESPACE, name)
    assert upstream is not None
    return upstream
