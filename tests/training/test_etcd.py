"""Writes to a server that responds like an etcd's HTTP gateway."""

from __future__ import annotations

import base64

import pytest
from aiohttp import web

from muster.training.etcd import EtcdEntry, put_key
from tests.http_server import serve_http


async def test_a_key_is_put() -> None:
    heard: list[dict[str, str]] = []

    async def kv_put(request: web.Request) -> web.Response:
        if request.path != "/v3/kv/put":
            raise web.HTTPNotFound
        heard.append(await request.json())
        return web.json_response({"header": {}})

    async with serve_http(kv_put) as port:
        await put_key(EtcdEntry(f"127.0.0.1:{port}", "/paddle/default-job/np", "3"))
        with pytest.raises(OSError, match="404"):
            await put_key(EtcdEntry(f"http://127.0.0.1:{port}/elsewhere", "k", "v"))
    ((key, value),) = [(base64.b64decode(body["key"]), base64.b64decode(body["value"])) for body in heard]
    assert (key, value) == (b"/paddle/default-job/np", b"3")


async def test_a_server_that_is_not_there() -> None:
    with pytest.raises(OSError, match="connect"):
        await put_key(EtcdEntry("127.0.0.1:9", "k", "v"))
