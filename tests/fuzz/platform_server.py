"""The platform's API in a process of its own, without anything that runs Pods: `python -m tests.fuzz.platform_server
DIRECTORY`. The first line of its output says where it listens. It ends when its input ends."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from unittest.mock import patch

import orjson
import uvloop

from muster.platform.database.database import Database, sqlite_url
from muster.platform.users.credentials import local_token, platform_folder
from muster.training.registry import training_kinds
from muster.workflows.kinds import workflow_kinds
from tests.fuzz.pipeline_requests import KNOWN
from tests.platform.graphs.samples import seed_example
from tests.server.pipelines.test_app import Api
from tests.server.pipelines.test_runs import GREET
from tests.server.platform.served import serving


async def create_pipelines(member: Api) -> None:
    """One of everything of Kubeflow Pipelines, with ids that the requests know."""
    run = {"display_name": "demo", "pipeline_spec": GREET, "runtime_config": {"parameters": {"who": "ann"}}}
    trigger = {"cron_schedule": {"cron": "@daily"}}
    await member.post("experiments", {"display_name": "first"})  # and "Default"
    with patch("muster.pipelines.experiments.new_uuid", return_value=KNOWN["experiment_id"]):
        await member.post("experiments", {"display_name": "demo"})
    with patch("muster.pipelines.pipelines.new_uuid", return_value=KNOWN["pipeline_id"]):
        await member.post("pipelines", {"display_name": "demo"})
    with patch("muster.pipelines.pipelines.new_uuid", return_value=KNOWN["version_id"]):
        await member.post(f"pipelines/{KNOWN['pipeline_id']}/versions", {"display_name": "v", "pipeline_spec": GREET})
    with patch("muster.pipelines.runs.new_uuid", return_value=KNOWN["run_id"]):
        await member.post("runs", run)
    with patch("muster.pipelines.recurring_runs.new_uuid", return_value=KNOWN["recurring_run_id"]):
        await member.post("recurringruns", {**run, "trigger": trigger})


async def main(home: Path) -> None:
    logging.basicConfig(filename=home / "log", level=logging.WARNING)
    database = await Database.open(sqlite_url(home / "platform.db"), survives_power_cut=False)
    try:
        async with serving(database, home, kinds=(*training_kinds(), *workflow_kinds())) as served:
            member = await served.user("member")
            secret = (await member.post("tokens", {"name": "fuzz"}))["secret"]
            admin = local_token(platform_folder(home))
            await served.admin.post("teams", {"name": "team"})
            await served.admin.post("workflows", {"name": "demo", "version": {"document": seed_example()}})
            await create_pipelines(Api(served.url, secret))
            address = {"url": served.url, "admin": admin, "member": secret, "pid": os.getpid()}
            print(orjson.dumps(address).decode(), flush=True)
            await asyncio.to_thread(sys.stdin.read)
    finally:
        await asyncio.to_thread(database.close)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `muster up` does
        runner.run(main(Path(sys.argv[1])))
