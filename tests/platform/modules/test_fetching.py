"""Repositories behind HTTP, served by git's own program."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from muster.platform.modules.build_log import BuildLog
from muster.platform.modules.commands import BuildFailed, Surroundings
from muster.platform.modules.fetching import fetch
from muster.platform.modules.repositories import credentials_in, read_repository
from tests.platform.modules.git_repositories import GitRepository


@dataclass
class GitServer:
    repository: GitRepository
    redirect: str = ""
    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.headers.get("Authorization", ""))
        if self.redirect:
            raise web.HTTPFound(self.redirect)
        if self.asked[-1] != "Basic " + b64encode(b"ann:hunter2").decode():
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Basic"})
        process = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.repository.path.parent),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": request.path,
                "QUERY_STRING": request.query_string,
                "REQUEST_METHOD": request.method,
                "CONTENT_TYPE": request.headers.get("Content-Type", ""),
                "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
                "REMOTE_ADDR": "127.0.0.1",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            },
        )
        output, _ = await process.communicate(await request.content.read())
        head, _, body = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, headers=headers, body=body)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    git = GitServer(GitRepository(tmp_path / "served" / "repository"))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", git.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    git.port = runner.addresses[0][1]
    yield git
    await runner.cleanup()


async def fetched(url: str, tmp_path: Path) -> tuple[str, str]:
    """The commit, or why there is none; and the log."""
    log = BuildLog(tmp_path / "log", credentials_in(url))
    deadline = asyncio.get_running_loop().time() + 60
    (tmp_path / "work").mkdir()
    here = Surroundings("v1", log, deadline, tmp_path / "work", 10_000_000)
    try:
        found = await fetch(read_repository(url), "main", "", tmp_path / "work" / "repository", here)
    except BuildFailed as error:
        found = str(error)
    log.close()
    return found, (tmp_path / "log").read_text()


async def test_credentials_reach_their_server_and_nobody_else(server: GitServer, tmp_path: Path) -> None:
    commit, log = await fetched(f"http://ann:hunter2@127.0.0.1:{server.port}/repository", tmp_path)
    assert commit == server.repository.git("rev-parse", "HEAD")
    assert "hunter2" not in log
    assert b64encode(b"ann:hunter2").decode() not in log
    assert f"http://127.0.0.1:{server.port}/repository" in log
    kept = (tmp_path / "work" / "repository" / ".git" / "config").read_text()
    assert "hunter2" not in kept


async def test_without_credentials_nobody_is_asked_for_them(server: GitServer, tmp_path: Path) -> None:
    told, log = await fetched(f"http://127.0.0.1:{server.port}/repository", tmp_path)
    assert told == "git ls-remote failed; see the log"
    assert "fatal" in log


@pytest.mark.parametrize("where", ["file:///etc", "ext::sh -c 'touch /tmp/muster-evil'", "ftp://127.0.0.1/x"])
async def test_a_server_cannot_send_git_to_another_protocol(server: GitServer, tmp_path: Path, where: str) -> None:
    server.redirect = where
    told, _ = await fetched(f"http://ann:hunter2@127.0.0.1:{server.port}/repository", tmp_path)
    assert told == "git ls-remote failed; see the log"
    assert not Path("/tmp/muster-evil").exists()
