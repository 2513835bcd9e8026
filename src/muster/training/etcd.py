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


async def put_key(entry: EtcdEntry) -> None:
    """Raises OSError if the server cannot be reached or refuses."""
    import aiohttp

    url = entry.server if "://" in entry.server else f"http://{entry.server}"
    body = {"key": _encoded(entry.key), "value": _encoded(entry.value)}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
            session.post(f"{url}/v3/kv/put", json=body) as response,
        ):
            response.raise_for_status()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise OSError(str(error) or "no response in time") from error


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
