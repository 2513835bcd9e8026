"""Writes to an etcd over its HTTP gateway, for elastic PaddlePaddle jobs that watch it."""

from __future__ import annotations

import base64
from typing import NamedTuple

_SECONDS = 5.0


class EtcdEntry(NamedTuple):
    server: str
    """host:port, or a URL."""
    key: str
    value: str


async def put_key(news: EtcdEntry) -> None:
    """Raises OSError if the server cannot be reached or refuses."""
    import aiohttp

    url = news.server if "://" in news.server else f"http://{news.server}"
    body = {"key": _encoded(news.key), "value": _encoded(news.value)}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
            session.post(f"{url}/v3/kv/put", json=body) as answer,
        ):
            answer.raise_for_status()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise OSError(str(error) or "no answer in time") from error


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
