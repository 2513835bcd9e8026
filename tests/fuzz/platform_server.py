"""The platform's API in a process of its own, without anything that runs Pods: `python -m tests.fuzz.platform_server
DIRECTORY`. The first line of its output says where it listens. It ends when its input ends."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import orjson
import uvloop

from muster.platform.database.database import Database, sqlite_url
from muster.platform.users.credentials import local_token, platform_folder
from muster.training.registry import training_kinds
from tests.platform.graphs.samples import seed_example
from tests.server.platform.served import serving


async def main(home: Path) -> None:
    logging.basicConfig(filename=home / "log", level=logging.WARNING)
    database = await Database.open(sqlite_url(home / "platform.db"), survives_power_cut=False)
    try:
        async with serving(database, home, kinds=training_kinds()) as served:
            member = await served.user("member")
            secret = (await member.post("tokens", {"name": "fuzz"}))["secret"]
            admin = local_token(platform_folder(home))
            await served.admin.post("teams", {"name": "team"})
            await served.admin.post("workflows", {"name": "demo", "version": {"document": seed_example()}})
            address = {"url": served.url, "admin": admin, "member": secret, "pid": os.getpid()}
            print(orjson.dumps(address).decode(), flush=True)
            await asyncio.to_thread(sys.stdin.read)
    finally:
        await asyncio.to_thread(database.close)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `muster up` does
        runner.run(main(Path(sys.argv[1])))
