"""examples/dispatch, unchanged, wherever it trains: one setting says where."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.real_server import RealServer
from tests.dispatch.aihc_server import AK, SK, AihcServer
from tests.dispatch.timaker_server import APP_GROUP, HOST, SECRET_ID, SECRET_KEY, UIN, TimakerServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "dispatch"
PATIENCE = 120.0


@contextmanager
def settings_of(place: str, box: RealServer) -> Iterator[dict[str, str]]:
    """What the README says about each place."""
    match place:
        case "local":
            yield {}
        case "cluster":
            yield {"KUBECONFIG": str(box.home / "kubeconfig")}
        case "aihc":
            with AihcServer(execute=True) as server:
                yield {
                    "AIHC_ENDPOINT": server.url, "AIHC_AK": AK, "AIHC_SK": SK, "AIHC_POOL": "aihc-serverless",
                    "AIHC_QUEUE": "q-1", "AIHC_PFS": "pfs-1",
                }  # fmt: skip
                assert len(server.creations) == 2
        case "timaker":
            with TimakerServer(execute=True) as gateway:
                yield {
                    "TIMAKER_ADDR": gateway.url, "TIMAKER_HOST": HOST, "TIMAKER_UIN": UIN, "TIMAKER_ID": SECRET_ID,
                    "TIMAKER_KEY": SECRET_KEY, "TIMAKER_APP_GROUP": str(APP_GROUP), "TIMAKER_MOUNT": "",
                }  # fmt: skip
                assert len(gateway.creations) == 2


_SLOW = pytest.mark.slow  # starts programs for many seconds; the first shows the principle


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "place",
    [
        "local",
        pytest.param("aihc", marks=_SLOW),
        pytest.param("cluster", marks=_SLOW),
        pytest.param("timaker", marks=_SLOW),
    ],
)
def test_the_shop_trains_anywhere(place: str, box: RealServer, tmp_path: Path) -> None:
    # Every Pod has a /tmp of its own, so jobs could not see each other's files there.
    with settings_of(place, box) as settings, tempfile.TemporaryDirectory(dir="/var/tmp") as data:
        env = {**os.environ, "MUSTER_HOME": str(box.home), "SHOP_DATA": data, "TRAIN_ON": place, **settings}
        muster = [sys.executable, "-m", "muster", "dispatch"]
        log = (tmp_path / "dispatcher.log").open("wb")
        dispatcher = subprocess.Popen([*muster, "run", "jobs:dispatcher"], cwd=EXAMPLE, env=env, stderr=log)
        try:
            order = [sys.executable, "order.py", "2"]
            done = subprocess.run(
                order, cwd=EXAMPLE, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            said = (tmp_path / "dispatcher.log").read_text()
            assert done.returncode == 0, done.stderr + said
            assert f"ran on {place}, accuracy" in done.stdout
            assert "is the best of 2 models" in done.stdout
            shown = subprocess.run(
                [*muster, "logs", "-d", "jobs:dispatcher", _job_of(done.stdout)],
                cwd=EXAMPLE, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True,
            )  # fmt: skip
            if place != "timaker":  # it has no API for logs
                assert "epoch 30 of 30" in shown.stdout
        finally:
            dispatcher.terminate()
            assert dispatcher.wait(PATIENCE) == 0
            log.close()
        assert "Traceback" not in (tmp_path / "dispatcher.log").read_text()


def _job_of(text: str) -> str:
    return text.partition("job ")[2].partition(" ")[0]
