"""kfp.Client, as its users have it, against the API of Kubeflow Pipelines."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from muster.platform.database.database import sqlite_url
from muster.platform.users.credentials import local_token, platform_folder
from tests.cli.commands import Muster
from tests.frameworks.conftest import environment_of
from tests.server.platform.whole import whole_muster

PIPELINE = """from kfp import dsl


@dsl.container_component
def say(who: str):
    return dsl.ContainerSpec(image="alpine", command=["sh", "-c", 'echo "hi $0"'], args=[who])


@dsl.pipeline(name="one")
def one(who: str = "you"):
    say(who=who)
"""
STORY = Path(__file__).parent / "kfp" / "story.py"


@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param("quick", marks=pytest.mark.smoke), "lightweight"])
async def test_the_stories_of_kfp_client(part: str, tmp_path: Path) -> None:
    programs = await asyncio.to_thread(environment_of, "tests/frameworks/kfp")
    home = tmp_path / "home"
    async with whole_muster(home, sqlite_url(tmp_path / "platform.db")) as muster:
        await muster.admin.get("health")
        arguments = (str(STORY), part, muster.url, local_token(platform_folder(home)), str(tmp_path))
        process = await asyncio.create_subprocess_exec(
            f"{programs}/python", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-4000:]


@pytest.mark.slow
def test_a_python_file_is_compiled_by_the_users_kfp(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = environment_of("tests/frameworks/kfp")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    file = tmp_path / "pipeline.py"
    file.write_text(PIPELINE)
    assert "hi ann" in muster("run", str(file), "-p", "who=ann").ok().out
    file.write_text("import nothing_of_this_name\n")
    assert "nothing_of_this_name" in muster("run", str(file)).err
