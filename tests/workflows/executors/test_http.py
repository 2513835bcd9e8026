"""Tests against a real server on this machine."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from muster.embedded.auth.certificates import ensure_certificates
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.objects import Key, Object
from muster.workflows.executors.http import LARGEST_BODY, HttpExecutor
from muster.workflows.model import Launch, Node, Outcome
from tests.http_server import serve_http

WORKFLOW: Object = {"metadata": {"name": "flow", "namespace": "default", "uid": "u-1"}}


class Site:
    """Responds, and records the requests."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.asked = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, await request.text(), dict(request.headers)))
        self.asked.set()
        match request.path:
            case "/missing":
                return web.Response(status=404, text="nothing here")
            case "/moved":
                raise web.HTTPFound("/hello")
            case "/large":
                return web.Response(body=b"x" * (LARGEST_BODY + 1))
            case "/never":
                await asyncio.Event().wait()
        return web.Response(text="hello", headers={"x-mine": "1"})


@asynccontextmanager
async def serve(site: Site, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async with serve_http(site.answer, context) as port:
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}"


class Story:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.reports: list[Outcome] = []
        self.news = asyncio.Event()
        self.leaves = HttpExecutor(cluster, self.reported)

    def reported(self, workflow: Key, node: str, outcome: Outcome) -> None:
        assert (workflow, node) == (Key("default", "flow"), "n-1")
        self.reports.append(outcome)
        self.news.set()

    async def launch(self, *, begun: bool = False, **http: Any) -> None:
        await self.leaves.launch(WORKFLOW, {}, Launch(Node(id="n-1"), "http", {"http": http}, ""), begun=begun)

    async def end(self) -> Outcome:
        while not self.reports or self.reports[-1].phase == "Running":
            self.news.clear()
            await self.news.wait()
        return self.reports[-1]


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    async with asyncio.timeout(60), EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        secret = {"token": base64.b64encode(b"Bearer hidden\n").decode()}
        metadata = {"name": "web", "namespace": "default"}
        await cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret})
        story = Story(cluster)
        task = asyncio.create_task(story.leaves.run())
        yield story
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, str]]:
    found = Site()
    async with serve(found) as url:
        yield found, url


async def test_a_step_is_a_request_and_its_result_the_answer(story: Story, site: tuple[Site, str]) -> None:
    token = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "web", "key": "token"}}}
    headers = [{"name": "X-Mine", "value": "2"}, token, {"name": "Host", "value": "example.com"}]
    await story.launch(url=f"{site[1]}/hello", method="POST", body="hi", headers=headers)
    outcome = await story.end()
    assert [report.phase for report in story.reports] == ["Running", "Succeeded"]
    assert outcome.outputs == {"result": "hello"}
    [(method, body, sent)] = site[0].seen
    assert (method, body) == ("POST", "hi")
    assert (sent["X-Mine"], sent["Authorization"], sent["Host"]) == ("2", "Bearer hidden", "example.com")
    assert "Content-Type" not in sent


@pytest.mark.parametrize(
    ("path", "http", "phase", "message"),
    [
        ("/missing", {}, "Failed", "received non-2xx response code: 404"),
        ("/missing", {"successCondition": "response.statusCode == 404"}, "Succeeded", ""),
        ("/moved", {}, "Succeeded", ""),
        ("/hello", {"successCondition": 'response.headers["X-Mine"] == ["1"]'}, "Succeeded", ""),
        ("/large", {}, "Failed", 'Get "{url}/large": the response is larger than'),
        ("/never", {"timeoutSeconds": 1, "method": "PUT"}, "Failed", 'Put "{url}/never": context deadline exceeded'),
    ],
)
async def test_answers(
    story: Story, site: tuple[Site, str], path: str, http: dict[str, Any], phase: str, message: str
) -> None:
    await story.launch(url=site[1] + path, **http)
    outcome = await story.end()
    assert outcome.phase == phase
    assert outcome.message.startswith(message.format(url=site[1]))


async def test_nobody_there(story: Story, site: tuple[Site, str]) -> None:
    async with serve(Site()) as url:
        pass
    await story.launch(url=url.replace("//", "//me:secret@"))
    message = (await story.end()).message
    assert message.startswith(f'Get "{url.replace("//", "//me:xxxxx@")}')
    assert "secret" not in message


@pytest.mark.parametrize(("name", "key"), [("nobody", "token"), ("web", "nothing")])
async def test_a_secret_that_is_not_there(story: Story, name: str, key: str) -> None:
    header = {"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
    await story.launch(url="http://127.0.0.1:1/", headers=[header])
    assert (await story.end()).message in ('secrets "nobody" not found', "secret 'web' does not have the key 'nothing'")


async def test_certificates_count_unless_the_user_says_otherwise(story: Story, tmp_path: Path) -> None:
    context = ensure_certificates(tmp_path / "identity").server_context()
    async with serve(Site(), context) as url:
        await story.launch(url=url)
        assert (await story.end()).phase == "Failed"
        story.reports.clear()
        await story.launch(url=url, insecureSkipVerify=True)
        assert (await story.end()).phase == "Succeeded"


async def test_a_request_that_is_stopped(story: Story, site: tuple[Site, str]) -> None:
    await story.launch(url=f"{site[1]}/never")
    await story.launch(url=f"{site[1]}/never")
    await site[0].asked.wait()
    await story.leaves.stop(WORKFLOW, Node(id="n-1"), force=False)
    assert [report.phase for report in story.reports] == ["Running", "Failed"]
    assert len(site[0].seen) == 1
