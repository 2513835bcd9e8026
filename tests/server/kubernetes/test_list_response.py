"""Lists that are encoded and sent in pieces: what the client gets, and what the server does meanwhile."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import orjson
import pytest

from muster.kube.budgets import Budgets
from muster.kube.builtin import CONFIG_MAP
from muster.kube.cluster import Listing
from muster.kube.errors import NotAcceptable
from muster.kube.objects import Object
from muster.server.fair_share import FairRequests, FairShares, turn_of
from muster.server.kubernetes.list_response import respond_with_list
from muster.server.kubernetes.request import ApiRequest, send_response

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def config_maps(count: int, size: int) -> list[Object]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{n}"}, "data": {"a": "x" * size}}
        for n in range(count)
    ]


async def respond(items: list[Object], query: bytes = b"", **headers: str) -> list[dict[str, Any]]:
    """Returns the messages that the client gets."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return await asyncio.Future()

    async def send(message: Any) -> None:
        sent.append(dict(message))

    found = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "query_string": query, "headers": found}
    request = ApiRequest(scope, receive, send, "/api/v1/configmaps")
    response = await respond_with_list(request, CONFIG_MAP, Listing(items, "7"), None)
    if response is not None:
        await send_response(request, response)
    return sent


def body_of(sent: list[dict[str, Any]]) -> bytes:
    return b"".join(message["body"] for message in sent[1:])


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 5), (9, 5), (2000, 5), (40, 100_000), (3, 900_000)])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_list_is_complete(count: int, size: int, encoding: str) -> None:
    items = config_maps(count, size)
    sent = await respond(items, accept_encoding=encoding)
    body = body_of(sent)
    if (b"content-encoding", b"gzip") in sent[0]["headers"]:
        body = gzip.decompress(body)
    expected = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}
    assert orjson.loads(body) == expected


async def test_a_table_is_complete() -> None:
    document = orjson.loads(body_of(await respond(config_maps(3000, 5), accept=TABLE)))
    assert document["kind"] == "Table"
    assert [row["cells"][0] for row in document["rows"]] == [f"m{n}" for n in range(3000)]


async def test_pretty_lists_are_indented() -> None:
    assert body_of(await respond(config_maps(1, 5), b"pretty=true")).startswith(b'{\n  "kind"')


async def test_yaml_has_a_limit() -> None:
    assert body_of(await respond(config_maps(1, 5), accept="application/yaml")).startswith(b"apiVersion: v1\nitems:\n")
    with pytest.raises(NotAcceptable, match="4194304 bytes are written as YAML"):
        await respond(config_maps(60, 100_000), accept="application/yaml")


async def test_a_large_list_is_sent_in_pieces() -> None:
    sent = await respond(config_maps(300, 50_000))
    assert len(sent) > 50
    assert max(len(message["body"]) for message in sent[1:]) < 1_000_000


async def test_lists_of_one_user_wait_for_each_other() -> None:
    """Each takes memory until the client has read it."""
    shares = FairShares(Budgets(member_running_requests=1))
    both_started, may_read = asyncio.Event(), asyncio.Event()
    started: list[str] = []

    async def list_all(scope: Any, receive: Any, send: Any) -> None:
        turn = turn_of(scope)
        assert turn is not None
        await turn.begin(scope["user"])
        request = ApiRequest(scope, receive, send, "/api/v1/configmaps")
        assert await respond_with_list(request, CONFIG_MAP, Listing(config_maps(40, 100_000), "7"), None) is None

    async def ask(user: str) -> None:
        async def receive() -> Any:
            await asyncio.Future()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                started.append(user)
                if len(started) == 2:
                    both_started.set()
            await may_read.wait()

        scope = {"type": "http", "method": "GET", "query_string": b"", "headers": [], "user": user}
        await FairRequests(list_all, shares)(scope, receive, send)

    requests = [asyncio.create_task(ask(user)) for user in ("mallory", "mallory", "alice")]
    async with asyncio.timeout(20):
        await both_started.wait()
    assert sorted(started) == ["alice", "mallory"]
    may_read.set()
    await asyncio.gather(*requests)
    assert sorted(started) == ["alice", "mallory", "mallory"]
