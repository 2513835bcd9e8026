from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.kube.builtin import CONFIG_MAP
from muster.kube.cluster import WatchEvent
from muster.kube.objects import name_of, version_of
from muster.server.kubernetes.request import INITIAL_EVENTS_END
from muster.server.kubernetes.watch import EventEncoder
from tests.server.kubernetes.served import Served, on_standing, serving

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Watch:
    """The events of a watch, one after the other."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def next(self) -> tuple[str, Any]:
        async with asyncio.timeout(20):
            event = orjson.loads(await anext(self._lines))
        return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        found = [await self.next() for _ in range(count)]
        return [(type_, name_of(obj)) for type_, obj in found]

    async def ended(self) -> bool:
        async with asyncio.timeout(20):
            return await anext(self._lines, None) is None


@asynccontextmanager
async def watching(served: Served, accept: str = "application/json", **query: str) -> AsyncIterator[Watch]:
    async with (
        served.session(Accept=accept) as http,
        http.get(CONFIG_MAPS, params={"watch": "true", **query}) as response,
    ):
        assert response.status == 200, await response.text()
        yield Watch(aiter(response.content))


async def put(served: Served, name: str, **data: str) -> str:
    """Creates a ConfigMap and returns its resourceVersion."""
    made = await served.cluster.create({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data,
    })  # fmt: skip
    return version_of(made)


async def test_without_a_version_a_watch_starts_with_existing_objects(served: Served) -> None:
    await put(served, "a")
    async with watching(served) as watch:
        assert await watch.names(1) == [("ADDED", "a")]
        await put(served, "b")
        await served.cluster.patch(CONFIG_MAP, "b", "default", {"data": {"x": "1"}})
        await served.cluster.delete(CONFIG_MAP, "b", "default")
        assert await watch.names(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_with_a_version_resumes_there(served: Served) -> None:
    version = await put(served, "a")
    await put(served, "b")
    async with watching(served, resourceVersion=version) as watch:
        assert await watch.names(1) == [("ADDED", "b")]


async def test_watch_with_selectors(served: Served) -> None:
    await put(served, "a")
    await put(served, "b")
    async with watching(served, fieldSelector="metadata.name=b") as watch:
        assert await watch.names(1) == [("ADDED", "b")]


async def test_a_watch_ends_after_timeout_seconds(served: Served) -> None:
    async with watching(served, timeoutSeconds="1") as watch:
        assert await watch.ended()


async def test_a_version_that_is_too_old_is_an_error_event(tmp_path: Path) -> None:
    async with serving(tmp_path, history=4) as served:
        oldest = await put(served, "a")
        for number in range(20):
            await put(served, f"b{number}")
        async with watching(served, resourceVersion=oldest) as watch:
            type_, status = await watch.next()
            assert (type_, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert await watch.ended()


async def test_the_initial_events_end_with_a_bookmark(served: Served) -> None:
    """The informers of client-go use this instead of a list since Kubernetes 1.32."""
    await put(served, "a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with watching(served, **query) as watch:
        assert await watch.names(1) == [("ADDED", "a")]
        type_, bookmark = await watch.next()
        assert type_ == "BOOKMARK"
        assert bookmark["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
        assert version_of(bookmark)
        await put(served, "b")
        assert await watch.names(1) == [("ADDED", "b")]


@on_standing
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"sendInitialEvents": "true"}, 422),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, 400),
        ({"resourceVersionMatch": "NotOlderThan"}, 422),
        ({"timeoutSeconds": "long"}, 400),
        ({"resourceVersion": "yesterday"}, 400),
    ],
)
async def test_invalid_watch_options(standing: Served, query: dict[str, str], status: int) -> None:
    async with standing.session() as http, http.get(CONFIG_MAPS, params={"watch": "1", **query}) as response:
        assert response.status == status, await response.text()


async def test_columns_of_tables_are_sent_once(served: Served) -> None:
    await put(served, "a")
    async with watching(served, TABLE) as watch:
        type_, first = await watch.next()
        assert (type_, first["kind"], first["rows"][0]["cells"][0]) == ("ADDED", "Table", "a")
        assert first["columnDefinitions"][0]["name"] == "Name"
        await put(served, "b")
        _, second = await watch.next()
        assert second["rows"][0]["cells"][0] == "b" and not second["columnDefinitions"]


async def test_a_client_that_disconnects_leaves_nothing_behind(served: Served) -> None:
    before = asyncio.all_tasks()
    async with watching(served):
        assert asyncio.all_tasks() - before
    async with asyncio.timeout(20):
        while True:
            left = [task for task in asyncio.all_tasks() - before if task.get_name().startswith(("stream", "listen"))]
            if not left:
                return
            await asyncio.sleep(0.005)


def test_an_event_is_encoded_once_for_all_watchers() -> None:
    encoder = EventEncoder()
    event = WatchEvent("ADDED", {"kind": "Pod"})
    assert encoder.line(event) is encoder.line(event)
    assert encoder.line(WatchEvent("ADDED", {"kind": "Job"})) == b'{"type":"ADDED","object":{"kind":"Job"}}\n'
    for number in range(2000):
        encoder.line(WatchEvent("ADDED", {"number": number}))
    assert encoder.line(event) == b'{"type":"ADDED","object":{"kind":"Pod"}}\n'
