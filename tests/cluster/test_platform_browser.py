"""A click in a browser starts a run with a training node on a real Kubernetes: Argo's controller runs it, Muster's
operator trains with two real Pods, and the page shows it until it has succeeded."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.conftest import Needs
from tests.cluster.operating import operating, without_the_peer
from tests.cluster.platform_graphs import output, parameter, text
from tests.cluster.platform_servers import platform_crew
from tests.cluster.test_platform import PASSWORD
from tests.platform.graphs.samples import graph, node, training
from tools.cluster import images
from tools.cluster.cluster import ROOT
from tools.cluster.framework_images import framework_image

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

TRAINER = "muster-examples/xgboost:1"
PAGES = ROOT / "src" / "muster" / "server" / "platform" / "ui" / "index.html"


DOCUMENT = graph(
    node(
        "prepare",
        image=images.BUSYBOX,
        command="echo preparing $dataset; echo $dataset > /tmp/out",
        inputs=[parameter("dataset", "dataset")],
        outputs=[text("dataset")],
    ),
    training(
        "train",
        "XGBoostJob",
        ("Master", 1),
        ("Worker", 1),
        image=TRAINER,
        command="echo training on $dataset; cd /workspace; python3 train.py",
        inputs=[output("dataset", "prepare", "dataset")],
    ),
    edges="prepare>train",
    parameters=[{"name": "dataset", "default": "moons"}],
)


async def test_a_run_with_a_training_node_succeeds_from_a_click(needs: Needs, tmp_path: Path) -> None:
    real = needs("node", "argo", "s3")
    if not PAGES.exists() or not shutil.which("npx"):
        pytest.skip("the web UI is not built: make ui")
    example = ROOT / "examples" / "training" / "xgboost"
    files = {f"/workspace/{path.name}": path for path in example.glob("*.py")}
    real.load(framework_image("xgboost", TRAINER, files=files, working_folder="/workspace"))
    with platform_crew(real, tmp_path, ("browsed",)) as crew:
        (server,), user = crew.servers, f"ann-{crew.suffix}"
        operator = operating(real, f"--namespace=user-{user}", name="browsed-operator", port=8097)
        with without_the_peer(real), operator:
            await server.start()
            await server.admin.post("users", {"name": user, "password": PASSWORD})
            made = await server.admin.post("workflows", {"name": "moons", "version": {"document": DOCUMENT}})
            environment = {
                **os.environ,
                "MUSTER_URL": server.url,
                "MUSTER_USER": user,
                "MUSTER_WORKFLOW": made["workflow_id"],
            }
            command = ["npx", "--no", "playwright", "test", "--config", "kubernetes.config.ts"]
            done = await asyncio.to_thread(
                subprocess.run, command, cwd=ROOT / "ui", env=environment, capture_output=True, text=True
            )
        print(done.stdout)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{server.log()}"
