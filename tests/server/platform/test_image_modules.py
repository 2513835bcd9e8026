"""A module is built into an image and runs from it, where an image engine is installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.platform.database.database import sqlite_url
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from tests.embedded.node.busybox_image import make_image, podman_here
from tests.platform.graphs.samples import graph
from tests.platform.modules.git_repositories import GitRepository
from tests.server.platform.whole import Whole, built, ended, stored

pytestmark = pytest.mark.slow

BASE = "localhost/muster-test-base:1"
DOCKERFILE = f'FROM {BASE}\nWORKDIR /app\nCOPY . /app\nENTRYPOINT ["/bin/sh", "/app/count.sh"]\n'
COUNT = """\
text=${1#--text=}
printf %s "$text" | wc -c > /tmp/workflow_space/count.txt
echo "counted in $(cat /etc/image)"
"""


@pytest.fixture
async def muster(tmp_path: Path) -> AsyncIterator[Whole]:
    said = {
        "durability": "process",
        "runtime": "podman",
        "web": {"port": 0},
        "database": sqlite_url(tmp_path / "platform.db"),
        "modules": {"localRepositories": [str(tmp_path / "git")]},
    }
    async with run_server(read_settings(tmp_path / "home", said), web=True) as server:
        yield Whole(server.info.web, tmp_path / "home", server.cluster)


@pytest.fixture(scope="module", autouse=True)
def base() -> None:
    make_image(podman_here(), BASE)


@pytest.mark.timeout(300)
async def test_a_module_runs_from_its_own_image(muster: Whole, tmp_path: Path) -> None:
    admin = muster.admin
    repository = GitRepository(
        tmp_path / "git" / "count", {"Dockerfile": DOCKERFILE, "README.md": "# Count\n", "count.sh": COUNT}
    )
    await admin.post("categories", {"name": "text"})
    body = {
        "name": "count-text",
        "category": "text",
        "git_url": str(repository.path),
        "git_ref": "main",
        "inputs": [{"name": "text", "description": "what to count"}],
        "outputs": [{"name": "count", "path": "/tmp/workflow_space/count.txt"}],
    }
    await admin.post("modules", body)
    version = await built(admin, "count-text")
    assert version["state"] == "private", await admin.get("modules/count-text/versions/latest/log")
    module = {"name": "count-text", "version": "1"}
    step = {"name": "count", "kind": "module", "module": module, "inputs": [{"name": "text", "value": "seven!!"}]}
    await stored(admin, "counts", graph(step))
    run = await admin.post("runs", {"workflow": "counts"})
    done = await ended(admin, run["id"])
    assert done["state"] == "succeeded", done["message"]
    assert await admin.get(f"runs/{run['id']}/nodes/count/log") == "counted in image\n"
    (output,) = (await admin.get(f"runs/{run['id']}/nodes/count"))["outputs"]
    assert (output["name"], output["value"]) == ("count", "7")
